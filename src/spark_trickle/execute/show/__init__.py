"""Statements that tell what the catalog has."""

from __future__ import annotations
