"""The clauses of a query, in the order in which they take effect."""

from __future__ import annotations
