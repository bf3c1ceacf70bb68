"""Work that this process does itself, without Spark: small, and proven to give Spark's answers."""

from __future__ import annotations
