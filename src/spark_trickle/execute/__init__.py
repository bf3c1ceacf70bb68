"""Statements at work, on the catalog alone where that is enough, otherwise through Spark."""

from __future__ import annotations
