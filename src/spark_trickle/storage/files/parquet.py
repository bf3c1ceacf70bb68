"""Parquet files: written with field ids by pyarrow, their statistics read from footers."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_trickle.errors import InvalidDataError
from spark_trickle.storage.files import disk, footers
from spark_trickle.storage.files.filesystem import FileSystem
from spark_trickle.storage.files.types import arrow_field, arrow_schema, leaves
from spark_trickle.storage.files.values import TEMPORAL, ColumnStats, plain_value, texts
from spark_trickle.storage.records import (
    FILE_ROW_ID,
    FILE_ROW_ID_FIELD,
    FILE_VERSION,
    FILE_VERSION_FIELD,
    Column,
    DataFile,
    Table,
)

ROW_GROUP = 128 * 1024
_FIELD = b"PARQUET:field_id"


@dataclass(frozen=True)
class FileFacts:
    """What a footer tells about a file."""

    path: str
    rows: int
    bytes: int
    footer: int
    stats: dict[int, ColumnStats] = field(default_factory=dict)
    """By column id, one for every flat column the file has."""
    has_row_ids: bool = False
    names: dict[int, str] = field(default_factory=dict)
    """By column id."""


def file_schema(
    columns: Sequence[Column], row_ids: bool = False, versions: bool = False
) -> pa.Schema:
    """The schema of a data file: the columns with field ids, then our hidden columns."""
    schema = arrow_schema(columns, field_ids=True)
    if row_ids:
        schema = schema.append(_hidden(FILE_ROW_ID, FILE_ROW_ID_FIELD))
    if versions:
        schema = schema.append(_hidden(FILE_VERSION, FILE_VERSION_FIELD))
    return schema


def _hidden(name: str, number: int) -> pa.Field:
    return pa.field(name, pa.int64(), False, {"PARQUET:field_id": str(number)})


OPTIONS = {"compression": "zstd", "store_decimal_as_integer": True, "coerce_timestamps": "us"}


def new_path(table: Table) -> str:
    """A path for a new data file of the table."""
    return f"{table.location}trickle-{uuid.uuid4()}.parquet"


def write(files: FileSystem, path: str, rows: pa.Table) -> None:
    """Write a file; the schema of ``rows`` carries the field ids."""
    with files.output(path) as sink:
        pq.write_table(rows, sink, row_group_size=ROW_GROUP, **OPTIONS)


def facts(path: str, columns: Sequence[Column], table: Table) -> FileFacts:
    """Read a footer. InvalidDataError if the file does not fit the table."""
    with disk.reading(path, table):
        size = table.files.size(path)
        metadata = table.files.footer(path)
        schema = metadata.schema.to_arrow_schema()
    by_id = {_field_id(f): f for f in schema}
    known = {c.id: c for c in columns}
    foreign = [f.name for n, f in by_id.items() if n is None]
    if foreign:
        raise InvalidDataError(f"the file {path} has a column without field id: {foreign[0]}")
    indexes = leaf_indexes(schema)
    stats = {}
    for column in known.values():
        if column.id not in by_id:
            continue
        first = indexes[schema.get_field_index(by_id[column.id].name)]
        for offset, leaf in enumerate(leaves(column)):
            chunks = [
                metadata.row_group(g).column(first + offset) for g in range(metadata.num_row_groups)
            ]
            stats[leaf.id] = column_stats(chunks, leaf, leaf is column)
    return FileFacts(
        path,
        metadata.num_rows,
        size,
        metadata.serialized_size,
        stats,
        FILE_ROW_ID_FIELD in by_id,
        {number: f.name for number, f in by_id.items() if number is not None},
    )


def names_by_id(schema: pa.Schema, file: DataFile) -> dict[int, str]:
    """The names that columns have in a file, by column id."""
    if file.names is not None:
        lowered = {n.lower(): n for n in schema.names}
        return {i: lowered[n.lower()] for i, n in file.names if n.lower() in lowered}
    result = {}
    for item in schema:
        number = (item.metadata or {}).get(_FIELD)
        if number is not None:
            result[int(number)] = item.name
    return result


def _field_id(item: pa.Field) -> int | None:
    text = (item.metadata or {}).get(_FIELD)
    return None if text is None else int(text)


def leaf_indexes(schema: pa.Schema) -> list[int]:
    """For each column the place of its first flat column among all flat columns of the file."""
    result, at = [], 0
    for item in schema:
        result.append(at)
        at += _count_leaves(item.type)
    return result


def column_bytes(footer: Any, groups: Iterable[int], names: Iterable[str]) -> int:
    """What columns take in some row groups of a file."""
    schema = footer.schema.to_arrow_schema()
    ends = [*leaf_indexes(schema), footer.num_columns]
    places = [schema.get_field_index(name) for name in names]
    leaves = [leaf for place in places for leaf in range(ends[place], ends[place + 1])]
    chosen = [footer.row_group(number) for number in groups]
    return sum(g.column(leaf).total_compressed_size for g in chosen for leaf in leaves)


_REPEATED = 2
"""A text that takes no more bytes, before they are packed, is a number in a short dictionary."""


def repeated_texts(footer: Any) -> list[str]:
    """The columns of a file whose texts are few; judged by the first row group."""
    if not footer.num_row_groups:
        return []
    schema, group = footer.schema.to_arrow_schema(), footer.row_group(0)
    texts = [
        (field.name, group.column(leaf))
        for field, leaf in zip(schema, leaf_indexes(schema), strict=True)
        if pa.types.is_string(field.type)
    ]
    return [
        name
        for name, chunk in texts
        if chunk.has_dictionary_page
        and chunk.total_uncompressed_size <= _REPEATED * chunk.num_values
    ]


def _count_leaves(kind: pa.DataType) -> int:
    if pa.types.is_struct(kind):
        return sum(_count_leaves(kind.field(i).type) for i in range(kind.num_fields))
    if pa.types.is_map(kind):
        return _count_leaves(kind.key_type) + _count_leaves(kind.item_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _count_leaves(kind.value_type)
    return 1


def column_stats(groups: Sequence[Any], column: Column, flat: bool) -> ColumnStats:
    """The statistics of a flat column from those of its chunks, one in each row group."""
    size = sum(g.total_compressed_size for g in groups)
    parts = [g.statistics for g in groups]
    if any(p is None or not p.has_null_count for p in parts):
        return ColumnStats(size, None, None)
    nulls = sum(p.null_count for p in parts)
    values = sum(g.num_values for g in groups) - nulls
    nan = None if column.type in ("float", "double") and values else False
    bounded = [p for p in parts if p.has_min_max]
    with_values = [p for g, p in zip(groups, parts, strict=True) if g.num_values > p.null_count]
    if not flat or not bounded or len(bounded) < len(with_values) or column.type == "binary":
        return ColumnStats(size, values, nulls, nan=nan)
    try:
        low = min(_end(p, column, "min") for p in bounded)
        high = max(_end(p, column, "max") for p in bounded)
    except (OverflowError, ValueError):
        return ColumnStats(size, values, nulls, nan=nan)
    return ColumnStats(size, values, nulls, *texts(column, low, high), nan)


def _end(stats: Any, column: Column, which: str) -> Any:
    """The min or max of a chunk as a plain value."""
    if column.type in TEMPORAL and stats.physical_type in ("INT32", "INT64"):
        unit = json.loads(stats.logical_type.to_json()).get("timeUnit", "microseconds")
        if unit == "microseconds":
            return getattr(stats, f"{which}_raw")
    return plain_value(getattr(stats, which))


def with_nans(found: FileFacts, columns: Sequence[Column], rows: pa.Table) -> FileFacts:
    """Facts of a file of these rows (columns named by id), with what footers do not tell: NaN."""
    stats = dict(found.stats)
    for column in columns:
        if column.type in ("float", "double"):
            has_nan = bool(pc.any(pc.is_nan(rows.column(str(column.id)))).as_py())
            stats[column.id] = replace(stats[column.id], nan=has_nan)
    return replace(found, stats=stats)


def with_inner_ids(path: str, table: Table, target: str) -> str:
    """The path of a file that has field ids inside nested columns too: this one or a copy of it.

    Spark gives no ids to array elements and to keys and values of maps; DuckDB needs them. Of a
    local file the footer is written anew. In a store nothing can be changed: there the rows are
    copied, and where nested columns are laid out in another way than Spark does by itself.
    """
    if not any(c.children for c in table.columns):
        return path
    with disk.reading(path, table), table.files.parquet(path) as source:
        schema = source.schema_arrow
        if _has_ids(schema, table):
            return path
        if not table.files.stored(path):
            _give_ids(path, table, source.metadata.serialized_size)
            if _has_ids(pq.read_schema(path), table):
                return path
        wanted: dict[int | None, Column] = {c.id: c for c in table.columns}
        made = [
            arrow_field(wanted[n], True) if n in wanted else f
            for f in schema
            for n in (_field_id(f),)
        ]
        _copy(source, table.files, target, pa.schema(made))
    return target


def _has_ids(schema: pa.Schema, table: Table) -> bool:
    fields = {_field_id(f): f for f in schema}
    nested = [c for c in table.columns if c.children and c.id in fields]
    return all(_ids_complete(fields[c.id].type, c) for c in nested)


def _give_ids(path: str, table: Table, length: int) -> None:
    with disk.writing(path), open(path, "r+b") as file:
        start = file.seek(-length - 8, os.SEEK_END)
        end = footers.replaced(file.read(), table.columns)
        file.seek(start)
        file.write(end)
        file.truncate()


def _ids_complete(kind: pa.DataType, column: Column) -> bool:
    inner = (
        [kind.key_field, kind.item_field]
        if pa.types.is_map(kind)
        else [kind.field(i) for i in range(kind.num_fields)]
    )
    return all(
        _field_id(f) == c.id and (not c.children or _ids_complete(f.type, c))
        for f, c in zip(inner, column.children, strict=True)
    )


def _copy(source: pq.ParquetFile, files: FileSystem, target: str, schema: pa.Schema) -> None:
    with files.output(target) as sink, pq.ParquetWriter(sink, schema, **OPTIONS) as out:
        for group in range(source.num_row_groups):
            rows = source.read_row_group(group)
            arrays = [c.cast(f.type) for c, f in zip(rows.columns, schema, strict=True)]
            out.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=ROW_GROUP)


def batches(
    path: str, table: Table, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, row group by row group; columns by their names in the file."""
    with disk.reading(path, table), table.files.parquet(path) as file:
        for group in range(file.num_row_groups):
            yield from file.read_row_group(group, columns).to_batches()
