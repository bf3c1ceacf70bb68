"""Making, changing and dropping stream tables."""

from __future__ import annotations
