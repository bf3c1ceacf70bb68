"""Stream tables for Apache Spark: tables defined by a SQL query that keep themselves up to date."""

from __future__ import annotations

__version__ = "0.1.0"
