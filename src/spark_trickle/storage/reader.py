"""Reads plans with pyarrow: for small tables, for pre-images of few rows, and for tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_trickle.storage import disk, positions
from spark_trickle.storage.planning import conform, plain_schema
from spark_trickle.storage.records import (
    FILE_ROW_ID_FIELD,
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

_FIELD = b"PARQUET:field_id"


def read_scan(
    plan: ScanPlan, columns: Sequence[str] | None = None, row_ids: bool = False
) -> pa.Table:
    """The rows of a plan as one Arrow table; with ``row_ids`` also the column ``ROW_ID``."""
    chosen = _chosen(plan.table, columns)
    parts = [part for f in plan.files for part in read_file(plan.table, f, chosen)]
    parts.append(_select(plan.inlined, plan.table, chosen))
    rows = pa.concat_tables(parts)
    return rows if row_ids else rows.drop_columns([ROW_ID])


def read_changes(plan: ChangePlan, row_ids: bool = False) -> pa.Table:
    """The rows of a change plan with ``WEIGHT``, not consolidated."""
    parts = [part for change in plan.files for part in _read_change(plan.table, change)]
    parts.append(plan.inlined)
    rows = pa.concat_tables(parts)
    return rows if row_ids else rows.drop_columns([ROW_ID])


def read_file(
    table: Table,
    file: DataFile,
    columns: Sequence[Column] | None = None,
    only: pa.Array | None = None,
) -> Iterator[pa.Table]:
    """The rows a plan means in one file, with ``ROW_ID``; with ``only`` exactly these positions.

    Row groups without a wanted row are not read.
    """
    chosen = table.columns if columns is None else columns
    system, inner = disk.file_system(file.path)
    with disk.reading(file.path, table), pq.ParquetFile(inner, filesystem=system) as source:
        names = _names_by_id(source.schema_arrow, file, table)
        wanted = [names[c.id] for c in chosen if c.id in names]
        hidden = [names[i] for i in (FILE_ROW_ID_FIELD, FILE_VERSION_FIELD) if i in names]
        start = 0
        for group in range(source.num_row_groups):
            length = source.metadata.row_group(group).num_rows
            span = _span(only, start, length)
            if span is None or len(span):
                rows = source.read_row_group(group, wanted + hidden)
                yield _rows_of_group(rows, names, (file, chosen), start, span)
            start += length


def _span(only: pa.Array | None, start: int, length: int) -> pa.Array | None:
    if only is None:
        return None
    inside = pc.and_(pc.greater_equal(only, start), pc.less(only, start + length))
    return pc.subtract(only.filter(inside), start)


def _rows_of_group(
    rows: pa.Table,
    names: dict[int, str],
    meant: tuple[DataFile, Sequence[Column]],
    start: int,
    span: pa.Array | None,
) -> pa.Table:
    file, columns = meant
    if FILE_ROW_ID_FIELD in names:
        ids = rows.column(names[FILE_ROW_ID_FIELD]).cast(pa.int64())
    else:
        first = (file.row_id_start or 0) + start
        ids = pa.chunked_array([pa.array(range(first, first + rows.num_rows), pa.int64())])
    back = {name: str(number) for number, name in names.items()}
    plain = rows.rename_columns([back[n] for n in rows.column_names])
    result = conform(plain, columns).append_column(ROW_ID, ids)
    if span is not None:
        return result.take(span)
    keep = positions.mask(rows.num_rows, file.deleted, start)
    if file.filtered:
        keep = pc.and_(keep, _in_versions(rows.column(names[FILE_VERSION_FIELD]), file))
    return result.filter(keep)


def _in_versions(versions: pa.ChunkedArray, file: DataFile) -> Any:
    result = pc.is_valid(versions)
    if file.inserted_after is not None:
        result = pc.and_(result, pc.greater(versions, file.inserted_after))
    if file.inserted_through is not None:
        result = pc.and_(result, pc.less_equal(versions, file.inserted_through))
    return result


def _names_by_id(schema: pa.Schema, file: DataFile, table: Table) -> dict[int, str]:
    if file.by_name:
        lowered = {n.lower(): n for n in schema.names}
        return {c.id: lowered[c.name.lower()] for c in table.columns if c.name.lower() in lowered}
    result = {}
    for item in schema:
        number = (item.metadata or {}).get(_FIELD)
        if number is not None:
            result[int(number)] = item.name
    return result


def _read_change(table: Table, change: FileChange) -> Iterator[pa.Table]:
    for rows in read_file(table, change.file, None, change.positions):
        weight = pa.repeat(pa.scalar(change.weight, pa.int64()), rows.num_rows)
        yield rows.append_column(WEIGHT, weight)


def _chosen(table: Table, names: Sequence[str] | None) -> Sequence[Column]:
    if names is None:
        return table.columns
    return [c for c in (table.column(n) for n in names) if c is not None]


def _select(rows: pa.Table, table: Table, columns: Sequence[Column]) -> pa.Table:
    schema = plain_schema(table)
    index = {c.id: i for i, c in enumerate(table.columns)}
    arrays = [rows.column(index[c.id]) for c in columns] + [rows.column(ROW_ID)]
    fields = [schema.field(index[c.id]) for c in columns] + [pa.field(ROW_ID, pa.int64())]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
