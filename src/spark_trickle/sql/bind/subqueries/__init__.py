"""Subqueries become joins."""

from __future__ import annotations
