"""Statements that change rows."""

from __future__ import annotations
