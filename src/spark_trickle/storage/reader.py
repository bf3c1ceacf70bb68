"""Reads plans with pyarrow: for small tables, for pre-images of few rows, and for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_trickle.storage import disk, parquet, positions
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
    plan: ScanPlan, columns: Sequence[str] | None = None, row_ids: bool = False
) -> pa.Table:
    """The rows of a plan as one Arrow table; with ``row_ids`` also the column ``ROW_ID``."""
    chosen = _chosen(plan.table, columns)
    parts = [part for f in plan.files for part in read_file(plan.table, f, chosen)]
    parts.append(_select(plan.inlined, plan.table, chosen))
    rows = pa.concat_tables(parts)
    return rows if row_ids else rows.drop_columns([ROW_ID])


def read_changes(
    plan: ChangePlan, columns: Sequence[str] | None = None, row_ids: bool = False
) -> pa.Table:
    """The rows of a change plan with ``WEIGHT``, not consolidated."""
    chosen = _chosen(plan.table, columns)
    parts = [part for change in plan.files for part in _read_change(plan.table, change, chosen)]
    parts.append(_select(plan.inlined, plan.table, chosen, [WEIGHT]))
    rows = pa.concat_tables(parts)
    return rows if row_ids else rows.drop_columns([ROW_ID])


Choice = Mapping[str, pa.Array]
"""By column: the values that a row may have there."""


def search(plan: ScanPlan, columns: Sequence[str], choices: Sequence[Choice]) -> pa.Table:
    """The rows that meet one of the choices; where there is none, only the keys are read."""
    chosen = _chosen(plan.table, columns)
    tested = _chosen(plan.table, [*{name: None for choice in choices for name in choice}])
    inlined = _select(plan.inlined, plan.table, plan.table.columns)
    parts = [inlined.filter(meets(inlined, choices)).select([c.name for c in chosen])]
    wanted = [by_column(plan.table, {n: v.to_pylist() for n, v in c.items()}) for c in choices]
    for file in plan.files:
        for keys, read in _batches(plan.table, file, tested, wanted):
            met = meets(keys, choices)
            if pc.any(met).as_py():
                parts.append(read(chosen).drop_columns([ROW_ID]).filter(met))
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
            near = np.clip(column.to_numpy(), low - 1, low + span)
            hit: np.ndarray = flags[near - (low - 1)]
            return hit
    found: np.ndarray = pc.is_in(column, value_set=values).to_numpy()
    return found


_BATCH = 1_000_000
"""About so many rows are tested at once: fewer calls for many small row groups."""


def _batches(
    table: Table, file: DataFile, columns: Sequence[Column], wanted: Sequence[Wanted]
) -> Iterator[tuple[pa.Table, Callable[[Sequence[Column]], pa.Table]]]:
    """Of some row groups at a time some columns, and a way to read others of the same rows.

    Row groups in which no row can meet any of the conditions are left out.
    """
    system, inner = disk.file_system(file.path)
    with disk.reading(file.path, table), pq.ParquetFile(inner, filesystem=system) as source:
        names = parquet.names_by_id(source.schema_arrow, file, table)
        for groups in _runs(possible(source.metadata, table, file, wanted)):

            def read(chosen: Sequence[Column], groups: Sequence[RowGroup] = groups) -> pa.Table:
                reader = _Groups(file, tuple(chosen), names, versions=False)
                fields = [names[i] for i in reader.fields if i in names]
                rows = source.read_row_groups([group.number for group in groups], fields)
                length = sum(group.rows for group in groups)
                return reader.rows(rows, groups[0].start, length, None)

            yield read(columns), read


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
) -> Iterator[pa.Table]:
    """The rows a plan means in one file, with ``ROW_ID``; with ``only`` exactly these positions.

    With ``versions`` also ``FILE_VERSION``: of each row, or the file's own. Row groups without a wanted row are not read.
    """
    chosen = table.columns if columns is None else columns
    system, inner = disk.file_system(file.path)
    with disk.reading(file.path, table), pq.ParquetFile(inner, filesystem=system) as source:
        names = parquet.names_by_id(source.schema_arrow, file, table)
        reader = _Groups(file, tuple(chosen), names, versions)
        wanted = [names[i] for i in reader.fields if i in names]
        start = 0
        for group in range(source.num_row_groups):
            length = source.metadata.row_group(group).num_rows
            span = _span(only, start, length)
            if span is None or len(span):
                rows = source.read_row_group(group, wanted)
                yield reader.rows(rows, start, length, span)
            start += length


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
        by_name = {name: str(number) for number, name in self.names.items()}
        plain = rows.rename_columns([by_name[n] for n in rows.column_names])
        result = conform(plain, self.columns, length)
        result = result.append_column(ROW_ID, self._row_ids(plain, start, length))
        if self.versions:
            result = result.append_column(FILE_VERSION, self._versions(plain, length))
        if span is not None:
            return result.take(span)
        keep = positions.mask(length, self.file.deleted, start)
        if self.file.filtered:
            within = _in_versions(plain.column(str(FILE_VERSION_FIELD)), self.file)
            keep = within if keep is None else pc.and_(keep, within)
        return result if keep is None else result.filter(keep)

    def _row_ids(self, plain: pa.Table, start: int, length: int) -> Any:
        if FILE_ROW_ID_FIELD in self.names:
            return plain.column(str(FILE_ROW_ID_FIELD)).cast(pa.int64())
        first = (self.file.row_id_start or 0) + start
        return pa.array(np.arange(first, first + length, dtype=np.int64))

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


def _read_change(table: Table, change: FileChange, columns: Sequence[Column]) -> Iterator[pa.Table]:
    for rows in read_file(table, change.file, columns, change.positions):
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
