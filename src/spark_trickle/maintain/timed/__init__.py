"""Temporal filters at work: the clock of the frontier, and the rows that cross its edges."""

from __future__ import annotations
