"""Writes the difference of two structures of a lake into the catalog."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from spark_trickle.errors import CommitConflictError
from spark_trickle.storage.catalog import views
from spark_trickle.storage.catalog.database import Connection, quoted
from spark_trickle.storage.catalog.ids import CatalogIds
from spark_trickle.storage.catalog.structure import (
    CLUSTER_BY,
    COMMENT,
    DEFAULT,
    LENGTH,
    PRIMARY_KEY,
    Schema,
    Structure,
)
from spark_trickle.storage.files.types import walk
from spark_trickle.storage.files.values import can_inline, sql_type, to_text
from spark_trickle.storage.records import Column, Table, View

N = TypeVar("N", Table, View)
Key = tuple[str, str]
_VERSIONED = (
    "table",
    "column",
    "column_tag",
    "data_file",
    "delete_file",
    "sort_info",
    "partition_info",
)


@dataclass
class WrittenDdl:
    """What was written: the ids that new tables got, and the entries for the list of changes."""

    tables: dict[int, Table] = field(default_factory=dict)
    """By id in the transaction: the table with its real id."""
    changes: list[str] = field(default_factory=list)


def apply(
    connection: Connection, before: Structure, after: Structure, latest: Structure, ids: CatalogIds
) -> WrittenDdl:
    """Write all differences; ``latest`` is the structure that is there now."""
    applied = WrittenDdl()
    old = {t.id: t for t in before.tables.values()}
    new = {t.id: t for t in after.tables.values()}
    old_schemas = {s.id: s for s in before.schemas.values()}
    new_schemas = {s.id: s for s in after.schemas.values()}
    old_views = {v.id: v for v in before.views.values()}
    new_views = {v.id: v for v in after.views.values()}
    if (old, old_schemas, old_views) == (new, new_schemas, new_views):
        return WrittenDdl(dict(new))
    ids.schema_version += 1
    for table in (old[i] for i in old if i not in new):
        _drop_table(connection, table, ids.version)
        applied.changes.append(f"dropped_table:{table.id}")
    applied.changes += views.drop_gone(connection, old_views, new_views, ids.version)
    for schema in (old_schemas[i] for i in old_schemas if i not in new_schemas):
        _drop_schema(connection, schema, latest, ids.version, old.keys() | old_views.keys())
        applied.changes.append(f"dropped_schema:{schema.id}")
    latest = _without_given_up(latest, (old, new), (old_views, new_views))
    schema_ids = {key: schema.id for key, schema in after.schemas.items()}
    for key, schema in after.schemas.items():
        if schema.id < 0:
            schema_ids[key] = _create_schema(connection, schema, latest, ids)
            applied.changes.append(f"created_schema:{quoted(schema.name)}")
    for table in new.values():
        applied.tables[table.id] = table
        if table.id < 0:
            made = _create_table(connection, table, (schema_ids, after.schemas), latest, ids)
            applied.tables[table.id] = made
            applied.changes.append(f"created_table:{quoted(table.schema)}.{quoted(table.name)}")
        elif table != old[table.id]:
            applied.tables[table.id] = _alter_table(connection, old[table.id], table, latest, ids)
            applied.changes.append(f"altered_table:{table.id}")
    schemas = schema_ids, after.schemas
    applied.changes += views.make_new(connection, (old_views, new_views), schemas, latest, ids)
    return applied


Changed = tuple[Mapping[int, N], Mapping[int, N]]
"""Tables or views by id, before and after."""


def _without_given_up(latest: Structure, tables: Changed[Table], views: Changed[View]) -> Structure:
    """The structure without names that this very commit drops or renames: they are free. Names that
    others gave to what it leaves as it is are not."""
    return replace(latest, tables=_left(latest.tables, tables), views=_left(latest.views, views))


def _left(latest: Mapping[Key, N], changed: Changed[N]) -> dict[Key, N]:
    old, new = changed
    named = {i for i in old.keys() & new.keys() if old[i].full_name.key == new[i].full_name.key}
    return {k: each for k, each in latest.items() if each.id not in old or each.id in named}


def _create_schema(
    connection: Connection, schema: Schema, latest: Structure, ids: CatalogIds
) -> int:
    if schema.name.lower() in latest.schemas:
        raise CommitConflictError(f"schema {schema.name} was created by another transaction")
    number = ids.next_catalog()
    folder = schema.location.rstrip("/").rsplit("/", 1)[-1] + "/"
    connection.execute(
        "INSERT INTO ducklake_schema VALUES (?, ?, ?, NULL, ?, ?, ?)",
        (number, str(uuid.uuid4()), ids.version, schema.name, folder, True),
    )
    return number


def _drop_schema(
    connection: Connection,
    schema: Schema,
    latest: Structure,
    version: int,
    mine: Collection[int],
) -> None:
    there: list[Table | View] = [*latest.tables.values(), *latest.views.values()]
    for each in there:
        if each.schema == schema.name and each.id not in mine:
            raise CommitConflictError(f"another transaction created {each} in schema {schema.name}")
    connection.execute(
        "UPDATE ducklake_schema SET end_snapshot = ? WHERE schema_id = ? AND end_snapshot IS NULL",
        (version, schema.id),
    )


def _create_table(
    connection: Connection,
    table: Table,
    schemas: tuple[Mapping[str, int], Mapping[str, Schema]],
    latest: Structure,
    ids: CatalogIds,
) -> Table:
    numbers, records = schemas
    key = table.schema.lower()
    _not_taken(table, latest)
    views.schema_there(records[key], latest)
    made = replace(table, id=ids.next_catalog(), schema_version=ids.schema_version)
    folder = table.location.removeprefix(records[key].location)
    connection.execute(
        "INSERT INTO ducklake_table VALUES (?, ?, ?, NULL, ?, ?, ?, ?)",
        (made.id, table.uuid, ids.version, numbers[key], table.name, folder, True),
    )
    for column in table.columns:
        _insert_column(connection, made.id, column, ids.version)
    positions = {c.name: c.id for c in table.columns}
    for tag, names in ((PRIMARY_KEY, table.primary_key), (CLUSTER_BY, table.cluster_by)):
        if names:
            value = json.dumps([positions[n] for n in names])
            connection.execute(
                "INSERT INTO ducklake_tag VALUES (?, ?, NULL, ?, ?)",
                (made.id, ids.version, tag, value),
            )
    _comment_table(connection, made, ids.version)
    connection.execute("INSERT INTO ducklake_table_stats VALUES (?, 0, 0, 0)", (made.id,))
    _new_structure(connection, made, ids)
    return made


def _not_taken(table: Table, latest: Structure) -> None:
    if table.full_name.key in latest.tables or table.full_name.key in latest.views:
        raise CommitConflictError(f"table {table} was created by another transaction")


def _new_structure(connection: Connection, table: Table, ids: CatalogIds) -> None:
    """Every structure of a table has a version, and a table of inlined rows if it can."""
    connection.execute(
        "INSERT INTO ducklake_schema_versions VALUES (?, ?, ?)",
        (ids.version, ids.schema_version, table.id),
    )
    if can_inline(table.columns):
        create_inlined(connection, replace(table, schema_version=ids.schema_version))


def create_inlined(connection: Connection, table: Table) -> str:
    """Make and register the table of inlined rows for the table's structure; its name."""
    name = f"ducklake_inlined_data_{table.id}_{table.schema_version}"
    body = ", ".join(f"{quoted(c.name)} {sql_type(c, connection.kind)}" for c in table.columns)
    connection.execute(
        f"CREATE TABLE {name} (row_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT, {body})"
    )
    # A group that is folded into has a row of each of its versions: the living one is asked for.
    connection.execute(f"CREATE INDEX {name}_row_id ON {name} (row_id, end_snapshot)")
    connection.execute(f"CREATE INDEX {name}_begin_snapshot ON {name} (begin_snapshot)")
    # Without the living rows: there are many, and a row that ends is found by its id.
    connection.execute(
        f"CREATE INDEX {name}_ended ON {name} (end_snapshot) WHERE end_snapshot IS NOT NULL"
    )
    connection.execute(
        "INSERT INTO ducklake_inlined_data_tables VALUES (?, ?, ?)",
        (table.id, name, table.schema_version),
    )
    return name


def _insert_column(connection: Connection, table: int, column: Column, version: int) -> None:
    stack: list[tuple[Column, int | None]] = [(column, None)]
    while stack:
        item, parent = stack.pop(0)
        connection.execute(
            "INSERT INTO ducklake_column VALUES (?, ?, NULL, ?, ?, ?, ?, ?, ?, ?, ?, 'literal', 'duckdb')",
            (
                item.id,
                version,
                table,
                item.id,
                item.name,
                item.storage_type,
                to_text(item.initial_default, item.type),
                _literal(item),
                item.nullable,
                parent,
            ),
        )
        stack += [(child, item.id) for child in item.children]
    _tags(connection, table, column, version)
    _comment_column(connection, table, column, version)


def _tags(connection: Connection, table: int, column: Column, version: int) -> None:
    """What DuckLake has no place for."""
    length = None if column.length is None else str(column.length)
    for tag, value in ((DEFAULT, column.default), (LENGTH, length)):
        if value is not None:
            connection.execute(
                "INSERT INTO ducklake_tag VALUES (?, ?, NULL, ?, ?)",
                (table, version, f"{tag}{column.id}", value),
            )


def _comment_table(connection: Connection, table: Table, at: int) -> None:
    _end(connection, "tag", "object_id = ? AND key = ?", (table.id, COMMENT), at)
    if table.comment is not None:
        connection.execute(
            "INSERT INTO ducklake_tag VALUES (?, ?, NULL, ?, ?)",
            (table.id, at, COMMENT, table.comment),
        )


def _comment_column(connection: Connection, table: int, column: Column, at: int) -> None:
    named = "table_id = ? AND column_id = ? AND key = ?"
    _end(connection, "column_tag", named, (table, column.id, COMMENT), at)
    if column.comment is not None:
        connection.execute(
            "INSERT INTO ducklake_column_tag VALUES (?, ?, ?, NULL, ?, ?)",
            (table, column.id, at, COMMENT, column.comment),
        )


def _literal(column: Column) -> str:
    """The default as DuckDB keeps literals; a default that is no plain literal it shall not see."""
    text = (column.default or "").strip()
    numeric = column.type.startswith("decimal") or column.type in (
        "tinyint", "smallint", "int", "bigint", "float", "double",
    )  # fmt: skip
    if numeric and re.fullmatch(r"-?\d+(\.\d+)?", text):
        return text
    if column.type == "string" and re.fullmatch(r"'[^'\\]*'", text):
        return text[1:-1]
    return "NULL"


def _alter_table(
    connection: Connection, old: Table, new: Table, latest: Structure, ids: CatalogIds
) -> Table:
    at = ids.version
    if new.full_name.key != old.full_name.key:
        _not_taken(new, latest)
    if new.full_name != old.full_name:
        connection.execute(
            "INSERT INTO ducklake_table SELECT table_id, table_uuid, CAST(? AS BIGINT), NULL, schema_id, "
            "CAST(? AS VARCHAR), path, path_is_relative FROM ducklake_table "
            "WHERE table_id = ? AND end_snapshot IS NULL",
            (at, new.name, old.id),
        )
        _end(connection, "table", "table_id = ? AND begin_snapshot < ?", (old.id, at), at)
    olds, news = {c.id: c for c in old.columns}, {c.id: c for c in new.columns}
    for column in old.columns:
        if column.id not in news:
            for item in walk(column):
                _end_column(connection, old.id, item.id, at)
    for column in new.columns:
        if column.id not in olds:
            _insert_column(connection, old.id, column, at)
        elif _differs(column, olds[column.id]):
            _change_column(connection, old.id, column, at)
        if column.id in olds and column.comment != olds[column.id].comment:
            _comment_column(connection, old.id, column, at)
    if new.comment != old.comment:
        _comment_table(connection, new, at)
    if [(c.id, c.name, c.type) for c in old.columns] == [
        (c.id, c.name, c.type) for c in new.columns
    ]:
        return new
    made = replace(new, schema_version=ids.schema_version)
    _new_structure(connection, made, ids)
    return made


def _differs(column: Column, old: Column) -> bool:
    """Whether the catalog's own row of a column changes; comments are kept elsewhere."""
    return replace(column, comment=None) != replace(old, comment=None)


def _change_column(connection: Connection, table: int, column: Column, at: int) -> None:
    connection.execute(
        "INSERT INTO ducklake_column SELECT column_id, CAST(? AS BIGINT), NULL, table_id, column_order, "
        "CAST(? AS VARCHAR), CAST(? AS VARCHAR), initial_default, CAST(? AS VARCHAR), "
        f"CAST(? AS {'BIGINT' if connection.kind == 'sqlite' else 'BOOLEAN'}), parent_column, "
        "default_value_type, default_value_dialect FROM ducklake_column "
        "WHERE table_id = ? AND column_id = ? AND end_snapshot IS NULL",
        (
            *(at, column.name, column.storage_type, _literal(column), column.nullable),
            *(table, column.id),
        ),
    )
    for tag in (DEFAULT, LENGTH):
        _end(connection, "tag", "object_id = ? AND key = ?", (table, f"{tag}{column.id}"), at)
    _tags(connection, table, column, at)
    _end(
        connection,
        "column",
        "table_id = ? AND column_id = ? AND begin_snapshot < ?",
        (table, column.id, at),
        at,
    )


def _end_column(connection: Connection, table: int, column: int, at: int) -> None:
    for kind in ("column", "column_tag"):
        _end(connection, kind, "table_id = ? AND column_id = ?", (table, column), at)
    for tag in (DEFAULT, LENGTH):
        _end(connection, "tag", "object_id = ? AND key = ?", (table, f"{tag}{column}"), at)


def _end(
    connection: Connection, kind: str, where: str, parameters: tuple[int | str, ...], at: int
) -> None:
    connection.execute(
        f"UPDATE ducklake_{kind} SET end_snapshot = ? WHERE {where} AND end_snapshot IS NULL",
        (at, *parameters),
    )


def _drop_table(connection: Connection, table: Table, at: int) -> None:
    for kind in _VERSIONED:
        _end(connection, kind, "table_id = ?", (table.id,), at)
    _end(connection, "tag", "object_id = ?", (table.id,), at)
