"""Deltas applied to the tables that store them."""

from __future__ import annotations
