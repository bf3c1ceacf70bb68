"""Reads plans with pyarrow: for small tables, for pre-images of few rows, and for tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.storage.files import disk, parquet, positions
from spark_trickle.storage.files.by_columns import grouped
from spark_trickle.storage.read.column_cache import COLUMNS, Taken
from spark_trickle.storage.read.ranges import inside
from spark_trickle.storage.records import (
    FILE_ROW_ID_FIELD,
    FILE_VERSION,
    FILE_VERSION_FIELD,
    ROW_ID,
    WEIGHT,
    ChangePlan,
    Column,
    DataFile,
    FileChange,
    ScanPlan,
    Table,
)
from spark_trickle.storage.versions.planning import conform, plain_schema


def read_scan(
    plan: ScanPlan,
    columns: Sequence[str] | None = None,
    row_ids: bool = False,
    taken: Taken | None = None,
) -> pa.Table:
    """The rows of a plan as one Arrow table; with ``row_ids`` also the column ``ROW_ID``."""
    chosen = chosen_columns(plan.table, columns)
    tested = chosen_columns(plan.table, [*{name: None for name, *_ in plan.within}])
    more = [*chosen, *(column for column in tested if column not in chosen)]
    parts = [part for f in plan.files for part in read_file(plan.table, f, more, taken=taken)]
    parts.append(select(plan.inlined, plan.table, more))
    if taken is not None:
        taken.rows += plan.inlined.num_rows
    rows = pa.concat_tables(parts)
    if plan.within:
        rows = rows.filter(pa.array(inside(rows, plan.within)))
        rows = rows.select([*(column.name for column in chosen), ROW_ID])
    return rows if row_ids else rows.drop_columns([ROW_ID])


def first_changes(plan: ChangePlan, most: int) -> pa.Table:
    """Some rows of a change plan with ``WEIGHT``; no more is read than it takes to find so many."""
    chosen = chosen_columns(plan.table, None)
    parts = [select(plan.inlined, plan.table, chosen, [WEIGHT])]
    for change in plan.files:
        for part in _read_change(plan.table, change, chosen, None):
            if sum(known.num_rows for known in parts) >= most:
                break
            parts.append(part)
    return pa.concat_tables(parts).drop_columns([ROW_ID]).slice(0, most)


def read_changes(
    plan: ChangePlan, columns: Sequence[str] | None = None, taken: Taken | None = None
) -> pa.Table:
    """The rows of a change plan with ``WEIGHT``, not consolidated."""
    chosen = chosen_columns(plan.table, columns)
    parts = [
        part for change in plan.files for part in _read_change(plan.table, change, chosen, taken)
    ]
    parts.append(select(plan.inlined, plan.table, chosen, [WEIGHT]))
    if taken is not None:
        taken.rows += plan.inlined.num_rows
    return pa.concat_tables(parts).drop_columns([ROW_ID])


def decoded_bytes(plan: ChangePlan) -> int:
    """About the bytes that reading a change in this process decodes: row groups as a whole.

    Few rows that are scattered over a table are in all of its row groups.
    """
    return sum(_decoded(change) for change in plan.files) + int(plan.inlined.nbytes)


def _decoded(change: FileChange) -> int:
    if change.positions is None:
        return change.file.bytes
    places = change.positions.to_numpy(zero_copy_only=False)
    groups = np.count_nonzero(np.diff(places // parquet.ROW_GROUP, prepend=-1))
    rows = min(change.file.rows, int(groups) * parquet.ROW_GROUP)
    return change.file.bytes * rows // max(1, change.file.rows)


def net(rows: pa.Table, columns: list[str]) -> pa.Table:
    """The changes of some columns, equal rows added up, without those that cancel out."""
    if not columns:
        total = sum(rows.column(WEIGHT).to_pylist())
        return pa.table({WEIGHT: pa.array([total] if total else [], pa.int64())})
    rows = rows.select([*columns, WEIGHT])
    if any(pa.types.is_nested(item.type) for item in rows.schema):
        return rows
    few = rows.num_rows < 10_000  # threads cost more than they give
    summed = grouped(rows, columns, [(WEIGHT, "sum")], use_threads=not few)
    summed = summed.rename_columns([*columns, WEIGHT])
    return summed.filter(pc.not_equal(summed.column(WEIGHT), 0))


def read_file(
    table: Table,
    file: DataFile,
    columns: Sequence[Column] | None = None,
    only: pa.Array | None = None,
    versions: bool = False,
    taken: Taken | None = None,
) -> Iterator[pa.Table]:
    """The rows a plan means in one file, with ``ROW_ID``; with ``only`` exactly these positions.

    With ``versions`` also ``FILE_VERSION``: of each row, or the file's own; files are read so when
    they are compacted, and not kept in memory then. Row groups without a wanted row are not read.
    """
    chosen = table.columns if columns is None else columns
    with disk.reading(file.path, table), table.files.parquet(file.path) as source:
        names = parquet.names_by_id(source.schema_arrow, file)
        reader = _Groups(file, tuple(chosen), names, versions)
        wanted = [names[i] for i in reader.fields if i in names]
        for first, last, start, length in _stretches(source.metadata):
            span = _span(only, start, length)
            if span is None or len(span):
                groups = list(range(first, last))
                if taken is not None:
                    taken.rows += length
                if versions:
                    rows = source.read_row_groups(groups, wanted)
                else:
                    rows = COLUMNS.read(file.path, source, groups, wanted, taken)
                yield reader.rows(rows, start, length, span)


_STRETCH = 250_000
"""About so many rows are read at once: fewer calls for many small row groups."""


def _stretches(footer: Any) -> Iterator[tuple[int, int, int, int]]:
    """Small row groups together: the first, the end, the place of the first row, the rows."""
    first = start = length = 0
    for number in range(footer.num_row_groups):
        rows = footer.row_group(number).num_rows
        if length and length + rows > _STRETCH:
            yield first, number, start, length
            first, start, length = number, start + length, 0
        length += rows
    if length:
        yield first, footer.num_row_groups, start, length


def _span(only: pa.Array | None, start: int, length: int) -> pa.Array | None:
    if only is None:
        return None
    inside = pc.and_(pc.greater_equal(only, start), pc.less(only, start + length))
    return pc.subtract(only.filter(inside), start)


@dataclass(frozen=True)
class _Groups:
    """Makes row groups of a file into rows of the table."""

    file: DataFile
    columns: tuple[Column, ...]
    names: dict[int, str]
    versions: bool

    @property
    def fields(self) -> list[int]:
        return [*(c.id for c in self.columns), FILE_ROW_ID_FIELD, FILE_VERSION_FIELD]

    def rows(self, rows: pa.Table, start: int, length: int, span: pa.Array | None) -> pa.Table:
        """The live rows; with ``span`` those at these places, alive or not."""
        plain = self.plain(rows)
        places = span
        if span is None:
            alive = living(self.file, plain, start, length)
            places = None if alive is None else pa.array(np.flatnonzero(alive.to_numpy(False)))
        if places is not None:
            plain, length = at(plain, places.to_numpy()), len(places)
        result = conform(plain, self.columns, length)
        # Not append_column: a table without columns has no rows.
        row_ids = self._row_ids(plain, start, length, places)
        schema = result.schema.append(pa.field(ROW_ID, pa.int64()))
        result = pa.Table.from_arrays([*result.columns, row_ids], schema=schema)
        if self.versions:
            result = result.append_column(FILE_VERSION, self._versions(plain, length))
        return result

    def plain(self, rows: pa.Table) -> pa.Table:
        """The rows with columns named by their ids."""
        by_name = {name: str(number) for number, name in self.names.items()}
        return rows.rename_columns([by_name[n] for n in rows.column_names])

    def _row_ids(self, plain: pa.Table, start: int, length: int, places: pa.Array | None) -> Any:
        if FILE_ROW_ID_FIELD in self.names:
            return plain.column(str(FILE_ROW_ID_FIELD)).cast(pa.int64())
        at = np.arange(length, dtype=np.int64) if places is None else places.to_numpy()
        return pa.array(at + (self.file.row_id_start or 0) + start)

    def _versions(self, plain: pa.Table, length: int) -> Any:
        if FILE_VERSION_FIELD in self.names:
            return plain.column(str(FILE_VERSION_FIELD)).cast(pa.int64())
        return pa.repeat(pa.scalar(self.file.begin, pa.int64()), length)


def at(rows: pa.Table, places: np.ndarray) -> pa.Table:
    """The rows at these places; chunk by chunk, since ``take`` copies all texts into one first."""
    if len(places) > 1 and (np.diff(places) < 0).any():
        return rows.take(pa.array(places))
    return pa.Table.from_arrays([_at(c, places) for c in rows.columns], schema=rows.schema)


def _at(column: pa.ChunkedArray, places: np.ndarray) -> pa.ChunkedArray:
    parts = []
    start = first = 0
    for chunk in column.chunks:
        last = int(np.searchsorted(places, start + len(chunk)))
        if last > first:
            parts.append(chunk.take(pa.array(places[first:last] - start)))
        start, first = start + len(chunk), last
    return pa.chunked_array(parts, column.type)


def living(file: DataFile, plain: pa.Table, start: int, length: int) -> pa.Array | None:
    """Which rows the plan means; None: all."""
    keep = positions.mask(length, file.deleted, start)
    if not file.filtered:
        return keep
    within = _in_versions(plain.column(str(FILE_VERSION_FIELD)), file)
    within = within.combine_chunks() if isinstance(within, pa.ChunkedArray) else within
    return within if keep is None else pc.and_(keep, within)


def _in_versions(versions: pa.ChunkedArray, file: DataFile) -> Any:
    result = pc.is_valid(versions)
    if file.inserted_after is not None:
        result = pc.and_(result, pc.greater(versions, file.inserted_after))
    if file.inserted_through is not None:
        result = pc.and_(result, pc.less_equal(versions, file.inserted_through))
    return result


def _read_change(
    table: Table, change: FileChange, columns: Sequence[Column], taken: Taken | None
) -> Iterator[pa.Table]:
    for rows in read_file(table, change.file, columns, change.positions, taken=taken):
        weight = pa.repeat(pa.scalar(change.weight, pa.int64()), rows.num_rows)
        yield rows.append_column(WEIGHT, weight)


def chosen_columns(table: Table, names: Sequence[str] | None) -> Sequence[Column]:
    if names is None:
        return table.columns
    return [c for c in (table.column(n) for n in names) if c is not None]


def select(
    rows: pa.Table, table: Table, columns: Sequence[Column], more: Sequence[str] = ()
) -> pa.Table:
    schema = plain_schema(table)
    index = {c.id: i for i, c in enumerate(table.columns)}
    arrays = [rows.column(index[c.id]) for c in columns]
    arrays += [rows.column(name) for name in (ROW_ID, *more)]
    fields = [schema.field(index[c.id]) for c in columns]
    fields += [pa.field(name, pa.int64()) for name in (ROW_ID, *more)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
