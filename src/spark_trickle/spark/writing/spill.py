"""Results of queries on their way into a table: few rows in memory, many in files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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

    def select(self, names: Sequence[str]) -> Spill:
        """The same rows with some of their columns."""
        kept = [field for field in self.schema if field.name in names]
        return replace(self, schema=type(self.schema)(kept))


Rows: TypeAlias = pa.Table | Spill
"""Rows with ``__weight``: few in memory, or many in files."""
