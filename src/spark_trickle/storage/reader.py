"""Reads plans with pyarrow: for small tables, for pre-images of few rows, and for tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_trickle.storage import disk, parquet, positions
from spark_trickle.storage.column_cache import COLUMNS, Taken
from spark_trickle.storage.planning import conform, plain_schema
from spark_trickle.storage.pruning import Wanted, by_column
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
from spark_trickle.storage.row_groups import RowGroup, possible


def read_scan(
    plan: ScanPlan,
    columns: Sequence[str] | None = None,
    row_ids: bool = False,
    taken: Taken | None = None,
) -> pa.Table:
    """The rows of a plan as one Arrow table; with ``row_ids`` also the column ``ROW_ID``."""
    chosen = _chosen(plan.table, columns)
    parts = [part for f in plan.files for part in read_file(plan.table, f, chosen, taken=taken)]
    parts.append(_select(plan.inlined, plan.table, chosen))
    rows = pa.concat_tables(parts)
    return rows if row_ids else rows.drop_columns([ROW_ID])


def read_changes(
    plan: ChangePlan, columns: Sequence[str] | None = None, taken: Taken | None = None
) -> pa.Table:
    """The rows of a change plan with ``WEIGHT``, not consolidated."""
    chosen = _chosen(plan.table, columns)
    parts = [
        part for change in plan.files for part in _read_change(plan.table, change, chosen, taken)
    ]
    parts.append(_select(plan.inlined, plan.table, chosen, [WEIGHT]))
    return pa.concat_tables(parts).drop_columns([ROW_ID])


Choice = Mapping[str, pa.Array]
"""By column: the values that a row may have there."""


def search(
    plan: ScanPlan, columns: Sequence[str], choices: Sequence[Choice], taken: Taken
) -> pa.Table:
    """The rows that meet one of the choices; where there is none, only the keys are read."""
    chosen = _chosen(plan.table, columns)
    tested = _chosen(plan.table, [*{name: None for choice in choices for name in choice}])
    inlined = _select(plan.inlined, plan.table, plan.table.columns)
    parts = [inlined.filter(meets(inlined, choices)).select([c.name for c in chosen])]
    wanted = [by_column(plan.table, {n: v.to_pylist() for n, v in c.items()}) for c in choices]
    for file in plan.files:
        for batch in _batches(plan.table, file, wanted, taken):
            places = batch.meeting(tested, choices)
            taken.rows += batch.length
            if len(places):
                parts.append(batch.rows(chosen, pa.array(places)).drop_columns([ROW_ID]))
    return pa.concat_tables(parts)


def meets(rows: pa.Table, choices: Sequence[Choice]) -> pa.Array:
    """Which rows meet one of the choices."""
    met = np.zeros(rows.num_rows, dtype=bool)
    for choice in choices:
        met[_meeting(rows, choice)] = True
    return pa.array(met)


def _meeting(rows: pa.Table, choice: Choice) -> np.ndarray:
    """The places of the rows that meet a choice; the shortest list is tried first."""
    places: np.ndarray | None = None
    for name, values in sorted(choice.items(), key=lambda item: len(item[1])):
        column = rows.column(name)
        if places is None:
            places = np.flatnonzero(_among(column, values))
        else:
            places = places[_among(column.take(pa.array(places)), values)]
    return np.arange(rows.num_rows) if places is None else places


_SPAN = 64 << 20
"""Up to so many integers lie between the ends of a list that is looked up in a table of flags."""


def _among(column: pa.ChunkedArray, values: pa.Array) -> np.ndarray:
    values = values.cast(column.type, safe=False)
    dense = pa.types.is_integer(column.type) and not column.null_count and not values.null_count
    if dense and len(values) and len(column) > _SPAN >> 10:
        wanted = values.to_numpy().astype(np.int64)
        low, span = int(wanted.min()), int(wanted.max()) - int(wanted.min()) + 1
        if span <= _SPAN:
            flags = np.zeros(span + 2, dtype=bool)
            flags[wanted - low + 1] = True
            # Chunk by chunk: what a chunk needs stays in the processor's cache.
            parts = [
                flags[np.clip(chunk.to_numpy(), low - 1, low + span) - (low - 1)]
                for chunk in column.chunks
            ]
            return np.concatenate(parts)
    found: np.ndarray = pc.is_in(column, value_set=values).to_numpy()
    return found


_BATCH = 1_000_000
"""About so many rows are tested at once: fewer calls for many small row groups."""


@dataclass(frozen=True)
class _Batch:
    """Some row groups of an open file."""

    source: pq.ParquetFile
    table: Table
    file: DataFile
    names: dict[int, str]
    groups: list[RowGroup]
    taken: Taken

    def meeting(self, tested: Sequence[Column], choices: Sequence[Choice]) -> np.ndarray:
        """The places of live rows that meet one of the choices."""
        reader, rows = self._read(tested)
        plain = reader.plain(rows)
        met = meets(conform(plain, tested, self.length), choices)
        alive = reader.alive(plain, self.groups[0].start, self.length)
        return np.flatnonzero((met if alive is None else pc.and_(met, alive)).to_numpy(False))

    def rows(self, chosen: Sequence[Column], places: pa.Array) -> pa.Table:
        """Of the rows at these places some columns."""
        reader, rows = self._read(chosen)
        return reader.rows(rows, self.groups[0].start, self.length, places)

    @property
    def length(self) -> int:
        return sum(group.rows for group in self.groups)

    def _read(self, columns: Sequence[Column]) -> tuple[_Groups, pa.Table]:
        reader = _Groups(self.file, tuple(columns), self.names, versions=False)
        fields = [self.names[i] for i in reader.fields if i in self.names]
        numbers = [group.number for group in self.groups]
        return reader, COLUMNS.read(self.file.path, self.source, numbers, fields, self.taken)


def _batches(
    table: Table, file: DataFile, wanted: Sequence[Wanted], taken: Taken
) -> Iterator[_Batch]:
    """The row groups of a file in which a row can meet one of the conditions, some at a time."""
    system, inner = disk.file_system(file.path)
    with disk.reading(file.path, table), pq.ParquetFile(inner, filesystem=system) as source:
        names = parquet.names_by_id(source.schema_arrow, file, table)
        for groups in _runs(possible(source.metadata, table, file, wanted)):
            yield _Batch(source, table, file, names, groups, taken)


def _runs(groups: Sequence[RowGroup]) -> Iterator[list[RowGroup]]:
    """Neighbours together, up to a batch."""
    run: list[RowGroup] = []
    for group in groups:
        follows = bool(run) and group.number == run[-1].number + 1
        if run and (not follows or sum(g.rows for g in run) + group.rows > _BATCH):
            yield run
            run = []
        run.append(group)
    if run:
        yield run


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
    system, inner = disk.file_system(file.path)
    with disk.reading(file.path, table), pq.ParquetFile(inner, filesystem=system) as source:
        names = parquet.names_by_id(source.schema_arrow, file, table)
        reader = _Groups(file, tuple(chosen), names, versions)
        wanted = [names[i] for i in reader.fields if i in names]
        for first, last, start, length in _stretches(source.metadata):
            span = _span(only, start, length)
            if span is None or len(span):
                groups = list(range(first, last))
                if versions:
                    rows = source.read_row_groups(groups, wanted)
                else:
                    rows = COLUMNS.read(file.path, source, groups, wanted, taken)
                yield reader.rows(rows, start, length, span)


def _stretches(footer: Any) -> Iterator[tuple[int, int, int, int]]:
    """Small row groups together: the first, the end, the place of the first row, the rows."""
    first = start = length = 0
    for number in range(footer.num_row_groups):
        rows = footer.row_group(number).num_rows
        if length and length + rows > _BATCH // 4:
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
            alive = self.alive(plain, start, length)
            places = None if alive is None else pa.array(np.flatnonzero(alive.to_numpy(False)))
        if places is not None:
            plain, length = plain.take(places), len(places)
        result = conform(plain, self.columns, length)
        result = result.append_column(ROW_ID, self._row_ids(plain, start, length, places))
        if self.versions:
            result = result.append_column(FILE_VERSION, self._versions(plain, length))
        return result

    def plain(self, rows: pa.Table) -> pa.Table:
        """The rows with columns named by their ids."""
        by_name = {name: str(number) for number, name in self.names.items()}
        return rows.rename_columns([by_name[n] for n in rows.column_names])

    def alive(self, plain: pa.Table, start: int, length: int) -> pa.Array | None:
        """Which rows the plan means; None: all."""
        keep = positions.mask(length, self.file.deleted, start)
        if not self.file.filtered:
            return keep
        within = _in_versions(plain.column(str(FILE_VERSION_FIELD)), self.file)
        within = within.combine_chunks() if isinstance(within, pa.ChunkedArray) else within
        return within if keep is None else pc.and_(keep, within)

    def _row_ids(self, plain: pa.Table, start: int, length: int, places: pa.Array | None) -> Any:
        if FILE_ROW_ID_FIELD in self.names:
            return plain.column(str(FILE_ROW_ID_FIELD)).cast(pa.int64())
        at = np.arange(length, dtype=np.int64) if places is None else places.to_numpy()
        return pa.array(at + (self.file.row_id_start or 0) + start)

    def _versions(self, plain: pa.Table, length: int) -> Any:
        if FILE_VERSION_FIELD in self.names:
            return plain.column(str(FILE_VERSION_FIELD)).cast(pa.int64())
        return pa.repeat(pa.scalar(self.file.begin, pa.int64()), length)


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


def _chosen(table: Table, names: Sequence[str] | None) -> Sequence[Column]:
    if names is None:
        return table.columns
    return [c for c in (table.column(n) for n in names) if c is not None]


def _select(
    rows: pa.Table, table: Table, columns: Sequence[Column], more: Sequence[str] = ()
) -> pa.Table:
    schema = plain_schema(table)
    index = {c.id: i for i, c in enumerate(table.columns)}
    arrays = [rows.column(index[c.id]) for c in columns]
    arrays += [rows.column(name) for name in (ROW_ID, *more)]
    fields = [schema.field(index[c.id]) for c in columns]
    fields += [pa.field(name, pa.int64()) for name in (ROW_ID, *more)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
