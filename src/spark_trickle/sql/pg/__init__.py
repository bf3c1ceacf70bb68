"""PostgreSQL's SQL as Spark's, by types: PostgreSQL's answer, or a refusal that names the construct."""

from __future__ import annotations
