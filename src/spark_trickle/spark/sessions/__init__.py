"""Sessions of Spark: whose they are, what they mean by an expression, and how they are ended."""

from __future__ import annotations
