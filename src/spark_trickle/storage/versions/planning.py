"""Scan plans: which files, which of their rows and which inlined rows a version of a table has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.errors import CatalogError
from spark_trickle.storage.catalog.database import Connection, in_parts, quoted
from spark_trickle.storage.catalog.structure import VISIBLE, columns_at, resolve
from spark_trickle.storage.files import parquet, positions
from spark_trickle.storage.files.types import arrow_field, arrow_type, leaves, readable
from spark_trickle.storage.files.values import decode
from spark_trickle.storage.manifest.file_list import Dead, FileList
from spark_trickle.storage.manifest.names import Moved, Names, in_doubt, named_columns
from spark_trickle.storage.manifest.pieces import FILE_COLUMNS, DeleteRow, FileRow, Reading
from spark_trickle.storage.manifest.statistics import LazyBounds
from spark_trickle.storage.records import (
    FILE_VERSION,
    ROW_ID,
    WEIGHT,
    Column,
    DataFile,
    ScanPlan,
    Table,
)


@dataclass
class Caches:
    """Facts about files; files never change, so these stay right for ever."""

    deletes: dict[int, tuple[pa.Array, pa.Array | None]] = field(default_factory=dict)
    stats: dict[int, dict[int, tuple[Any, ...]]] = field(default_factory=dict)
    versions: dict[int, dict[int, int]] = field(default_factory=dict)
    row_ids: dict[int, bool] = field(default_factory=dict)
    inlined_columns: dict[tuple[int, int], tuple[Column, ...]] = field(default_factory=dict)
    names: dict[int, frozenset[tuple[int, str]]] = field(default_factory=dict)


def check_readable(table: Table) -> None:
    for column in table.columns:
        if not readable(column):
            raise CatalogError(
                f"column {column.name} of table {table} has the type {column.type}, "
                "which Spark cannot read"
            )


class Planner:
    """Makes plans inside a read transaction of the catalog."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.caches = Caches()

    def scan(self, connection: Connection, table: Table, version: int, files: FileList) -> ScanPlan:
        """A plan of these files and the inlined rows."""
        check_readable(table)
        rows = self.inlined(connection, table, VISIBLE, (version, version))
        return ScanPlan(table, version, files.of(table), rows.drop_columns(list(_TIMES)))

    def advanced(
        self, connection: Connection, plan: ScanPlan, version: int, files: FileList
    ) -> ScanPlan:
        """A plan at a later version, of these files and what became of the inlined rows."""
        came, went = self.moved_inlined(connection, plan.table, plan.version, version)
        stays = pc.invert(pc.is_in(plan.inlined.column(ROW_ID), value_set=went.column(ROW_ID)))
        rows = pa.concat_tables([plan.inlined.filter(stays), came.drop_columns(list(_TIMES))])
        return ScanPlan(plan.table, version, files.of(plan.table), rows.sort_by(ROW_ID))

    def moved_inlined(
        self, connection: Connection, table: Table, before: int, after: int
    ) -> tuple[pa.Table, pa.Table]:
        """The inlined rows that came in the window (before, after] and those that went."""
        came = self.inlined(connection, table, _CAME, (before, after, after))
        return came, self.inlined(connection, table, _WENT, (before, before, after))

    def file_rows(
        self, connection: Connection, table: Table, where: str, parameters: Sequence[Any]
    ) -> list[FileRow]:
        renamed = f"SELECT max(end_snapshot) FROM ducklake_column WHERE table_id = {table.id}"
        sql = f"SELECT {FILE_COLUMNS}, ({renamed}) FROM ducklake_data_file WHERE {where}"
        rows = [FileRow(*r) for r in connection.execute(f"{sql} ORDER BY data_file_id", parameters)]
        for row in rows:
            if row.encryption:
                raise CatalogError(f"the data file {row.path} of table {table} is encrypted")
        return rows

    def files(
        self,
        connection: Connection,
        table: Table,
        rows: Sequence[FileRow],
        version: int,
        dead: Mapping[int, pa.Array],
    ) -> list[DataFile]:
        self._load_stats(connection, [r.id for r in rows])
        self.load_names(connection, {r.mapping for r in rows if r.mapping is not None})
        moved: Moved = ()
        if any(row.renamed is not None for row in rows):
            moved = Names.of(named_columns(connection, table.id)).moved(table.columns)
        none = positions.EMPTY
        return [self._file(table, r, version, dead.get(r.id, none), moved) for r in rows]

    def _file(
        self, table: Table, row: FileRow, version: int, dead: pa.Array, moved: Moved
    ) -> DataFile:
        path = resolve(row.path, row.relative, table.location)
        stats = self.caches.stats.get(row.id, {})
        through = version if row.partial_max is not None and row.partial_max > version else None
        seen = row.rows
        if through is not None:
            seen = self.count(row.id, path, table, None, through)
        missing = frozenset(
            c.id for c in table.columns if stats and not any(x.id in stats for x in leaves(c))
        )
        return DataFile(
            row.id,
            path,
            row.rows,
            row.bytes,
            row.row_id_start,
            row.begin,
            live=seen - len(dead),
            deleted=dead,
            has_row_ids=self.has_row_ids(row, path, table),
            inserted_through=through,
            missing=missing,
            bounds=LazyBounds(table, stats),
            names=self.names(row.mapping),
            doubtful=in_doubt(moved, row.begin, row.by_duckdb),
        )

    def names(self, mapping: int | None) -> frozenset[tuple[int, str]] | None:
        """The columns of a file without field ids, by the names that they have in it."""
        return None if mapping is None else self.caches.names[mapping]

    def has_row_ids(self, row: FileRow, path: str, table: Table) -> bool:
        if row.partial_max is not None or row.row_id_start is None:
            return True
        if not row.by_duckdb:
            return False
        if row.id not in self.caches.row_ids:  # DuckDB gives a start also to files of UPDATE
            self.caches.row_ids[row.id] = parquet.facts(path, (), table).has_row_ids
        return self.caches.row_ids[row.id]

    def _load_stats(self, connection: Connection, ids: Sequence[int]) -> None:
        wanted = [i for i in ids if i not in self.caches.stats]
        if not wanted:
            return
        sql = (
            "SELECT data_file_id, column_id, value_count, null_count, min_value, max_value, "
            "contains_nan FROM ducklake_file_column_stats WHERE "
        )
        found: dict[int, dict[int, tuple[Any, ...]]] = {i: {} for i in wanted}
        for part, marks in in_parts(wanted):
            for row in connection.execute(f"{sql} data_file_id IN ({marks})", part):
                found[row[0]][row[1]] = row[2:]
        self.caches.stats.update(found)

    def load_names(self, connection: Connection, mappings: set[int]) -> None:
        for mapping in mappings - self.caches.names.keys():
            rows = connection.execute(
                "SELECT target_field_id, source_name FROM ducklake_name_mapping "
                "WHERE mapping_id = ? AND parent_column IS NULL",
                (mapping,),
            )
            self.caches.names[mapping] = frozenset((int(i), str(name)) for i, name in rows)

    def dead(
        self, connection: Connection, table: Table, version: int, only: Iterable[int] | None = None
    ) -> dict[int, pa.Array]:
        """Dead positions by file at a version; of all files, or of the given ones."""
        found = self.counted(connection, table, version, only)
        return {file: dead.positions for file, dead in found.items()}

    def counted(
        self, connection: Connection, table: Table, version: int, only: Iterable[int] | None = None
    ) -> dict[int, Dead]:
        """The same; where the catalog says how many there are, the delete file is read later."""
        chosen = None if only is None else list(only)
        rows: dict[int, list[DeleteRow]] = defaultdict(list)
        for row in self._delete_rows(connection, table, version, chosen):
            rows[row.file].append(row)
        inlined = self._inlined_deletes(connection, table, version, chosen)
        result = {}
        for file in rows.keys() | inlined.keys():
            own = rows.get(file, [])
            read = partial(self._positions, own, table, version, inlined.get(file, ()))
            alone = len(own) == 1 and file not in inlined
            if alone and (own[0].partial_max is None or own[0].partial_max <= version):
                result[file] = Dead(own[0].rows, read)
            else:
                result[file] = Dead.of(read())
        return result

    def _positions(
        self, rows: Iterable[DeleteRow], table: Table, version: int, inlined: Sequence[int]
    ) -> pa.Array:
        parts = [positions.of(inlined)]
        for row in rows:
            found, stamps = self.delete_file(row, table)
            parts.append(found if stamps is None else found.filter(pc.less_equal(stamps, version)))
        return positions.union(*parts)

    def _delete_rows(
        self, connection: Connection, table: Table, version: int, only: Sequence[int] | None
    ) -> list[DeleteRow]:
        if only is None:
            return self.delete_rows(connection, table, VISIBLE, (version, version))
        return [
            row
            for part, marks in in_parts(only)
            for row in self.delete_rows(connection, table, f"data_file_id IN ({marks})", part)
            if row.begin <= version and (row.end is None or row.end > version)
        ]

    def _inlined_deletes(
        self, connection: Connection, table: Table, version: int, only: Sequence[int] | None
    ) -> dict[int, list[int]]:
        name = f"ducklake_inlined_delete_{table.id}"
        result: dict[int, list[int]] = defaultdict(list)
        if not connection.has_table(name):
            return result
        sql = f"SELECT file_id, row_id FROM {name} WHERE begin_snapshot <= ?"
        if only is None:
            files = f"SELECT data_file_id FROM ducklake_data_file WHERE table_id = ? AND {VISIBLE}"
            rows = connection.execute(
                f"{sql} AND file_id IN ({files})", (version, table.id, version, version)
            )
        else:
            rows = [
                row
                for part, marks in in_parts(only)
                for row in connection.execute(f"{sql} AND file_id IN ({marks})", (version, *part))
            ]
        for file, position in rows:
            result[file].append(position)
        return result

    def delete_rows(
        self, connection: Connection, table: Table, where: str, parameters: Sequence[Any]
    ) -> list[DeleteRow]:
        rows = connection.execute(
            "SELECT delete_file_id, data_file_id, path, path_is_relative, begin_snapshot, "
            "end_snapshot, partial_max, delete_count, format, encryption_key "
            "FROM ducklake_delete_file "
            f"WHERE table_id = ? AND {where} ORDER BY delete_file_id",
            (table.id, *parameters),
        )
        result = []
        for number, file, path, relative, begin, end, latest, count, form, key in rows:
            full = resolve(path, relative, table.location)
            if (form or "parquet") != "parquet" or key:
                raise CatalogError(
                    f"the delete file {full} of table {table} is {'encrypted' if key else form}; "
                    "only plain Parquet delete files are supported"
                )
            result.append(DeleteRow(number, file, full, begin, end, latest, count))
        return result

    def delete_file(self, row: DeleteRow, table: Table) -> tuple[pa.Array, pa.Array | None]:
        """Positions of a delete file and, of a partial one, the version of each."""
        if row.id not in self.caches.deletes:
            parts = list(parquet.batches(row.path, table))
            rows = pa.Table.from_batches(parts) if parts else None
            found = positions.EMPTY if rows is None else rows.column("pos").combine_chunks()
            stamps = None
            if rows is not None and FILE_VERSION in rows.column_names:
                stamps = rows.column(FILE_VERSION).combine_chunks()
            self.caches.deletes[row.id] = (found, stamps)
        return self.caches.deletes[row.id]

    def count(
        self, file: int, path: str, table: Table, after: int | None, through: int | None
    ) -> int:
        """How many rows of a file were inserted in (after, through]."""
        if file not in self.caches.versions:
            counts: dict[int, int] = defaultdict(int)
            for batch in parquet.batches(path, table, [FILE_VERSION]):
                for item in pc.value_counts(batch.column(0)).to_pylist():
                    counts[item["values"]] += item["counts"]
            self.caches.versions[file] = dict(counts)
        return sum(
            n
            for version, n in self.caches.versions[file].items()
            if (after is None or version > after) and (through is None or version <= through)
        )

    def inlined(
        self, connection: Connection, table: Table, where: str, parameters: Sequence[Any]
    ) -> pa.Table:
        """Inlined rows: the table's columns, ROW_ID, and the versions of their insert and delete."""
        parts = []
        for name, schema_version in connection.execute(
            "SELECT table_name, schema_version FROM ducklake_inlined_data_tables "
            "WHERE table_id = ? ORDER BY schema_version",
            (table.id,),
        ):
            columns = self._inlined_columns(connection, table.id, schema_version)
            names = "".join(f", {quoted(c.name)}" for c in columns)
            rows = connection.execute(
                f"SELECT row_id, begin_snapshot, end_snapshot{names} FROM {quoted(name)} "
                f"WHERE {where} ORDER BY row_id",
                parameters,
            )
            if rows:
                parts.append(_inlined_part(rows, columns, table))
        schema = inlined_schema(table)
        return pa.concat_tables(parts).cast(schema) if parts else schema.empty_table()

    def _inlined_columns(
        self, connection: Connection, table_id: int, schema_version: int
    ) -> tuple[Column, ...]:
        key = (table_id, schema_version)
        if key not in self.caches.inlined_columns:
            self.caches.inlined_columns[key] = columns_at(connection, *key)
        return self.caches.inlined_columns[key]


_CAME = "begin_snapshot > ? AND begin_snapshot <= ? AND (end_snapshot IS NULL OR end_snapshot > ?)"
_WENT = "begin_snapshot <= ? AND end_snapshot > ? AND end_snapshot <= ?"
_TIMES = ("__trickle_begin", "__trickle_end")


def inlined_schema(table: Table) -> pa.Schema:
    schema = plain_schema(table)
    for name in (ROW_ID, *_TIMES):
        schema = schema.append(pa.field(name, pa.int64()))
    return schema


def plain_schema(table: Table) -> pa.Schema:
    """The Arrow schema of the table's rows; nothing is declared NOT NULL."""
    return _nullable(table.columns)


def _nullable(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([arrow_field(c).with_nullable(True) for c in columns])


def _inlined_part(
    rows: Sequence[tuple[Any, ...]], columns: tuple[Column, ...], table: Table
) -> pa.Table:
    values = list(zip(*rows, strict=True))
    arrays = [decode(v, c, table) for v, c in zip(values[3:], columns, strict=True)]
    found = pa.table(arrays, names=[str(c.id) for c in columns])
    result = conform(found, table.columns)
    for name, items in zip((ROW_ID, *_TIMES), values[:3], strict=True):
        result = result.append_column(name, pa.array(items, pa.int64()))
    return result


def weighted(table: Table, parts: Sequence[tuple[pa.Table, int]]) -> pa.Table:
    """Inlined rows with their weights, as ``ChangePlan.inlined`` has them."""
    names = [c.name for c in table.columns]
    schema = plain_schema(table).append(pa.field(ROW_ID, pa.int64()))
    schema = schema.append(pa.field(WEIGHT, pa.int64()))
    tables = []
    for rows, weight in parts:
        arrays = [rows.column(i) for i in range(len(names))]
        arrays.append(rows.column(ROW_ID))
        arrays.append(pa.chunked_array([pa.repeat(pa.scalar(weight, pa.int64()), rows.num_rows)]))
        tables.append(pa.Table.from_arrays(arrays, schema=schema))
    return pa.concat_tables(tables) if tables else schema.empty_table()


def conform(rows: pa.Table, columns: Sequence[Column], length: int | None = None) -> pa.Table:
    """Rows whose columns are named by column id, as a table of ``columns``.

    A column the rows lack has its initial default; types are widened where the table's are wider.
    ``length`` is needed where the rows may have no column at all.
    """
    count = rows.num_rows if length is None else length
    arrays = [conformed(rows, column, count) for column in columns]
    if not arrays:
        return rows.select([])
    return pa.Table.from_arrays(arrays, schema=_nullable(columns))


def conformed(rows: pa.Table, column: Column, length: int) -> pa.ChunkedArray:
    """One column of such a table."""
    kind, at = arrow_type(column), rows.schema.get_field_index(str(column.id))
    if at < 0:
        return pa.chunked_array([constant(column, length)], kind)
    array = rows.column(at)
    return array if array.type == kind else array.cast(kind)


def constant(column: Column, length: int) -> pa.Array:
    """``length`` times the value that rows older than the column have."""
    value = pa.scalar(column.initial_default, arrow_type(column))
    return pa.repeat(value, length)
