"""Results of queries on their way into a table: few rows in memory, many in files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class Spill:
    """A large result in files: its rows are never brought into this process."""

    folder: str
    schema: StructType
    rows: int


Rows: TypeAlias = pa.Table | Spill
"""Rows with ``__weight``: few in memory, or many in files."""
