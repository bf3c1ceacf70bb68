"""Spark's types: of literals, of functions, and how they meet."""

from __future__ import annotations
