"""The structure of a lake at one version: its schemas, tables and columns."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from spark_trickle.errors import NotFoundError, names_hint
from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.files.filesystem import FileSystem, as_folder, canonical
from spark_trickle.storage.files.types import spark_text
from spark_trickle.storage.files.values import from_text
from spark_trickle.storage.records import HIDDEN_SCHEMA, Column, Table, TableName, View

PRIMARY_KEY = "trickle.primary_key"
CLUSTER_BY = "trickle.cluster_by"
DEFAULT = "trickle.default."
LENGTH = "trickle.length."
"""Keys of a table's tags that hold what DuckLake has no place for; DEFAULT and LENGTH go before a
column id."""
COMMENT = "comment"
"""The key under which DuckDB keeps comments among the tags of tables and of columns."""

VISIBLE = "begin_snapshot <= ? AND (end_snapshot IS NULL OR end_snapshot > ?)"


def version_range(connection: Connection) -> tuple[int, int]:
    """The oldest and the newest version. Asked together, SQLite would look through all of them."""
    ends = "SELECT (SELECT min(snapshot_id) FROM ducklake_snapshot), (SELECT max(snapshot_id) FROM ducklake_snapshot)"
    oldest, newest = connection.execute(ends)[0]
    return int(oldest), int(newest)


@dataclass(frozen=True)
class Schema:
    """A schema of the lake; ``id`` is negative while it exists in a transaction only."""

    id: int
    name: str
    location: str
    """Folder or URI, ending in ``/``."""
    files: FileSystem = field(default_factory=FileSystem, compare=False, repr=False)


@dataclass(frozen=True)
class Structure:
    """Schemas and tables by name, without regard to case."""

    schemas: Mapping[str, Schema] = field(default_factory=dict)
    tables: Mapping[tuple[str, str], Table] = field(default_factory=dict)
    views: Mapping[tuple[str, str], View] = field(default_factory=dict)

    def schema(self, name: str) -> Schema:
        found = self.schemas.get(name.lower())
        if found is None:
            known = [s.name for s in self.schemas.values() if s.name != HIDDEN_SCHEMA]
            raise NotFoundError(
                f"schema {name} does not exist", hint=names_hint(name, known, "schemas")
            )
        return found

    def table(self, name: str | TableName | Table) -> Table:
        wanted = name.full_name if isinstance(name, Table) else TableName.of(name)
        found = self.tables.get(wanted.key)
        if found is None and wanted.key in self.views:
            raise NotFoundError(f"{wanted} is a view, not a table")
        if found is None:
            known = [str(t) for t in self.tables.values() if t.schema != HIDDEN_SCHEMA]
            raise NotFoundError(
                f"table {wanted} does not exist", hint=names_hint(str(wanted), known)
            )
        return found

    def view(self, name: TableName) -> View:
        found = self.views.get(name.key)
        if found is None:
            known = [str(view) for view in self.views.values()]
            raise NotFoundError(
                f"view {name} does not exist", hint=names_hint(str(name), known, "views")
            )
        return found

    @cached_property
    def _ids(self) -> dict[int, Table]:
        return {table.id: table for table in self.tables.values()}

    @cached_property
    def _uuids(self) -> dict[str, Table]:
        return {table.uuid: table for table in self.tables.values()}

    def by_id(self, table_id: int) -> Table | None:
        return self._ids.get(table_id)

    def find(self, uuid: str) -> Table | None:
        return self._uuids.get(uuid)

    def own(self, table: str | TableName | Table) -> Table:
        """The table of a name; a record itself, whose columns it is then read with, if it is there."""
        if not isinstance(table, Table):
            return self.table(table)
        if self.by_id(table.id) is None:
            raise NotFoundError(f"table {table} does not exist")
        return table


def resolve(path: str | None, relative: Any, base: str) -> str:
    """A path of the catalog made absolute; no path at all means the base itself."""
    if path is None:
        return base
    return base + path if relative else canonical(path)


def load(connection: Connection, version: int, files: FileSystem) -> Structure:
    """Read the structure at a version."""
    at = (version, version)
    schemas = {
        row[0]: Schema(row[0], row[1], as_folder(resolve(row[2], row[3], files.root)), files)
        for row in connection.execute(
            f"SELECT schema_id, schema_name, path, path_is_relative FROM ducklake_schema WHERE {VISIBLE}",
            at,
        )
    }
    columns = _columns(connection, version)
    tags = _table_tags(connection, version)
    versions = _schema_versions(connection, version)
    tables = {}
    for number, uuid, schema_id, name, path, relative in connection.execute(
        "SELECT table_id, table_uuid, schema_id, table_name, path, path_is_relative "
        f"FROM ducklake_table WHERE {VISIBLE}",
        at,
    ):
        schema = schemas[schema_id]
        own = columns.get(number, ())
        table = Table(
            number,
            schema.name,
            name,
            own,
            _key(own, tags.get((number, PRIMARY_KEY))),
            _key(own, tags.get((number, CLUSTER_BY))),
            str(uuid),
            as_folder(resolve(path, relative, schema.location)),
            versions.get(number, 0),
            tags.get((number, COMMENT)),
            files,
        )
        tables[table.full_name.key] = table
    views = _views(connection, version, schemas, tags)
    return Structure({s.name.lower(): s for s in schemas.values()}, tables, views)


def _schema_versions(connection: Connection, version: int) -> dict[int, int]:
    return dict(
        connection.execute(
            "SELECT table_id, max(schema_version) FROM ducklake_schema_versions "
            "WHERE begin_snapshot <= ? GROUP BY table_id",
            (version,),
        )
    )


def _views(
    connection: Connection,
    version: int,
    schemas: Mapping[int, Schema],
    tags: Mapping[tuple[int, str], str],
) -> dict[tuple[str, str], View]:
    rows = connection.execute(
        "SELECT view_id, view_uuid, schema_id, view_name, dialect, sql, column_aliases "
        f"FROM ducklake_view WHERE {VISIBLE}",
        (version, version),
    )
    views = [
        View(
            number,
            schemas[schema].name,
            name,
            sql,
            dialect,
            _aliases(aliases),
            str(uuid),
            tags.get((number, COMMENT)),
        )
        for number, uuid, schema, name, dialect, sql, aliases in rows
    ]
    return {view.full_name.key: view for view in views}


def _aliases(text: str | None) -> tuple[str, ...]:
    """``"a","b"``, as DuckDB keeps them."""
    return tuple(n.replace('""', '"') for n in re.findall(r'"((?:[^"]|"")*)"', text or ""))


def _key(columns: tuple[Column, ...], tag: str | None) -> tuple[str, ...]:
    if tag is None:
        return ()
    names = {c.id: c.name for c in columns}
    return tuple(names[i] for i in json.loads(tag) if i in names)


def _table_tags(connection: Connection, version: int) -> dict[tuple[int, str], str]:
    rows = connection.execute(
        f"SELECT object_id, key, value FROM ducklake_tag WHERE {VISIBLE} AND key IN (?, ?, ?)",
        (version, version, PRIMARY_KEY, CLUSTER_BY, COMMENT),
    )
    return {(number, key): value for number, key, value in rows}


def _columns(
    connection: Connection, version: int, table_id: int | None = None
) -> dict[int, tuple[Column, ...]]:
    only = "" if table_id is None else f" AND table_id = {int(table_id)}"
    tags = {
        (t, key): value
        for t, key, value in connection.execute(
            f"SELECT object_id, key, value FROM ducklake_tag WHERE {VISIBLE} "
            "AND (key LIKE ? OR key LIKE ?)",
            (version, version, DEFAULT + "%", LENGTH + "%"),
        )
    }
    tags |= {
        (t, f"{COMMENT}.{column}"): value
        for t, column, value in connection.execute(
            f"SELECT table_id, column_id, value FROM ducklake_column_tag WHERE {VISIBLE} AND key = ?",
            (version, version, COMMENT),
        )
    }
    rows = connection.execute(
        "SELECT table_id, parent_column, column_id, column_name, column_type, nulls_allowed, "
        "default_value, default_value_type, initial_default "
        f"FROM ducklake_column WHERE {VISIBLE}{only} ORDER BY table_id, column_order",
        (version, version),
    )
    children: dict[tuple[int, int | None], list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        children[row[0], row[1]].append(row)
    return {
        table: tuple(_column(row, children, tags) for row in top)
        for (table, parent), top in children.items()
        if parent is None
    }


def _column(
    row: tuple[Any, ...],
    children: Mapping[tuple[int, int | None], list[tuple[Any, ...]]],
    tags: Mapping[tuple[int, str], str],
) -> Column:
    table, _, number, name, kind, nullable, value, value_type, initial = row
    below = tuple(_column(c, children, tags) for c in children.get((table, number), ()))
    plain = Column(
        number, name, spark_text(kind, below), bool(nullable), children=below, storage_type=kind
    )
    default = tags.get((table, f"{DEFAULT}{number}"))
    length = tags.get((table, f"{LENGTH}{number}"))
    if default is None and value is not None and value != "NULL":
        default = value if value_type == "expression" else _literal(plain, value)
    first = None if initial is None or below else from_text(plain, initial)
    return Column(
        number,
        name,
        plain.type,
        bool(nullable),
        default,
        first,
        below,
        kind,
        tags.get((table, f"{COMMENT}.{number}")),
        None if length is None else int(length),
    )


def _literal(column: Column, text: str) -> str:
    """SQL text of a default that DuckDB keeps as the text of a value."""
    body = "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if column.type == "string":
        return body
    if column.type in ("date", "timestamp", "timestamp_ntz"):
        return f"{column.type.upper()} {body}"
    if column.type in ("float", "double", "binary"):
        return f"CAST({body} AS {column.type.upper()})"
    return text


def columns_at(connection: Connection, table_id: int, schema_version: int) -> tuple[Column, ...]:
    """The columns a table had when its structure got that version: those of its inlined rows."""
    rows = connection.execute(
        "SELECT min(begin_snapshot) FROM ducklake_schema_versions "
        "WHERE table_id = ? AND schema_version = ?",
        (table_id, schema_version),
    )
    begin = rows[0][0]
    if begin is None:
        begin = connection.execute(
            "SELECT min(begin_snapshot) FROM ducklake_table WHERE table_id = ?", (table_id,)
        )[0][0]
    return _columns(connection, begin, table_id).get(table_id, ())
