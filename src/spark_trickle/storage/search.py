"""Rows looked for by their values in the files of a scan: of the files only what may hold one is read.

Law: a row group is left out only if its statistics say that no wanted row is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_trickle.storage import disk, parquet
from spark_trickle.storage.column_cache import COLUMNS, Taken
from spark_trickle.storage.planning import conform
from spark_trickle.storage.pruning import Wanted, by_column, keeps
from spark_trickle.storage.records import Column, Condition, DataFile, ScanPlan, Table
from spark_trickle.storage.row_groups import RowGroup, possible


@dataclass(frozen=True)
class _Searched:
    """A file and what of it is worth reading; the footer is read once."""

    file: DataFile
    footer: Any
    names: Mapping[int, str]
    groups: tuple[RowGroup, ...]


@dataclass(frozen=True)
class Piece:
    """Live rows of one row group."""

    file: DataFile
    rows: pa.Table
    positions: pa.Array
    """Where in the file each of them is."""
    bytes: int
    """What reading them took."""


class Search:
    """A scan looked through for rows that meet conditions; footers are read when first needed."""

    def __init__(self, plan: ScanPlan, conditions: Mapping[str, Condition]) -> None:
        self._wanted = by_column(plan.table, conditions)
        kept = tuple(file for file in plan.files if keeps(file, self._wanted))
        self.plan = replace(plan, files=kept)

    @cached_property
    def _files(self) -> tuple[_Searched, ...]:
        return tuple(_searched(self.plan.table, file, self._wanted) for file in self.plan.files)

    def bytes(self, columns: Sequence[Column]) -> int:
        """What reading these columns takes."""
        return sum(
            parquet.column_bytes(
                found.footer,
                [group.number for group in found.groups],
                [found.names[column.id] for column in columns if column.id in found.names],
            )
            for found in self._files
        )

    def read(self, columns: Sequence[Column]) -> Iterator[Piece]:
        """The rows of the files that may be wanted; those in the catalog are not among them."""
        for found in self._files:
            yield from _read(self.plan.table, found, columns)


def _searched(table: Table, file: DataFile, wanted: Wanted) -> _Searched:
    system, inner = disk.file_system(file.path)
    with disk.reading(file.path, table):
        footer = pq.read_metadata(inner, filesystem=system)
    names = parquet.names_by_id(footer.schema.to_arrow_schema(), file, table)
    return _Searched(file, footer, names, possible(footer, table, file, [wanted]))


def _read(table: Table, found: _Searched, columns: Sequence[Column]) -> Iterator[Piece]:
    file = found.file
    system, inner = disk.file_system(file.path)
    ids = {found.names[c.id]: str(c.id) for c in columns if c.id in found.names}
    dead = file.deleted.to_numpy()
    with (
        disk.reading(file.path, table),
        pq.ParquetFile(inner, filesystem=system, metadata=found.footer) as source,
    ):
        for group in found.groups:
            taken = Taken()
            raw = COLUMNS.read(file.path, source, [group.number], list(ids), taken)
            raw = raw.rename_columns([ids[name] for name in raw.column_names])
            rows = conform(raw, columns, group.rows)
            here = dead[np.searchsorted(dead, group.start) :]
            here = here[: np.searchsorted(here, group.start + group.rows)] - group.start
            live = pa.array(np.delete(np.arange(group.rows), here))
            if len(here):
                rows = rows.take(live)
            positions = pa.array(live.to_numpy() + group.start)
            yield Piece(file, rows, positions, taken.bytes)
