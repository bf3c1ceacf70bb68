"""How PostgreSQL's functions and casts are said in Spark: by the types of their arguments."""

from __future__ import annotations
