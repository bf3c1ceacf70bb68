"""SQL trees to bound plans: every name becomes a column of a table."""

from __future__ import annotations
