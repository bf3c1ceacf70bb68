"""Results of queries on their way into a table: few rows in memory, many in files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from spark_trickle.storage.files.filesystem import FileSystem

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


_FLAT = {"boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "string"}
_FLAT |= {"binary", "date", "timestamp", "timestamp_ntz"}
_FIXED = 16
"""No value without a length takes more bytes than this."""


def read_here(files: FileSystem, spill: Spill, most_bytes: int) -> pa.Table | None:
    """The rows, without a query of Spark; None where it takes one, of nested values or of many bytes."""
    names = [field.name for field in spill.schema]
    if not _FLAT.issuperset(field.dataType.typeName() for field in spill.schema):
        return None
    found = [
        files.parquet(path) for path, _ in files.list(spill.folder) if path.endswith(".parquet")
    ]
    with ExitStack() as opened:
        for file in found:
            opened.enter_context(file)
        groups = (f.metadata.row_group(n) for f in found for n in range(f.num_row_groups))
        # A text that repeats is written once: no row is larger than all that is written.
        row = max(sum(group.total_byte_size for group in groups), _FIXED * len(names))
        if not found or spill.rows * row > most_bytes:
            return None
        rows = pa.concat_tables(file.read(names) for file in found)
    return rows.select(names) if rows.num_rows == spill.rows else None


Rows: TypeAlias = pa.Table | Spill
"""Rows with ``__weight``: few in memory, or many in files."""
