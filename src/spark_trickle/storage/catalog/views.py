"""Views in the catalog: rows of ``ducklake_view``, which DuckDB lists too."""

from __future__ import annotations

from collections.abc import Mapping

from spark_trickle.errors import CommitConflictError
from spark_trickle.storage.catalog.database import Connection, quoted
from spark_trickle.storage.catalog.ids import CatalogIds
from spark_trickle.storage.catalog.structure import COMMENT, Schema, Structure
from spark_trickle.storage.records import View

Views = Mapping[int, View]


def drop_gone(connection: Connection, old: Views, new: Views, at: int) -> list[str]:
    """End the views that are gone; the entries for the list of changes."""
    gone = [old[number] for number in old if number not in new]
    for view in gone:
        _end(connection, "view", "view_id = ?", (view.id,), at)
        _end(connection, "tag", "object_id = ?", (view.id,), at)
    return [f"dropped_view:{view.id}" for view in gone]


def make_new(
    connection: Connection,
    views: tuple[Views, Views],
    schemas: tuple[Mapping[str, int], Mapping[str, Schema]],
    latest: Structure,
    ids: CatalogIds,
) -> list[str]:
    """Write the views that are new, and what is newly said about others."""
    old, new = views
    numbers, records = schemas
    changes = []
    for view in new.values():
        if view.id < 0:
            key = view.schema.lower()
            schema_there(records[key], latest)
            _create(connection, view, numbers[key], latest, ids)
            changes.append(f"created_view:{quoted(view.schema)}.{quoted(view.name)}")
        elif (
            view != old[view.id]
        ):  # CREATE OR REPLACE makes another one: only the comment can differ
            _end(connection, "tag", "object_id = ? AND key = ?", (view.id, COMMENT), ids.version)
            _tag(connection, view.id, view.comment, ids.version)
            changes.append(f"altered_view:{view.id}")
    return changes


def _create(
    connection: Connection, view: View, schema: int, latest: Structure, ids: CatalogIds
) -> None:
    """Write a new view; CommitConflictError if somebody took the name meanwhile."""
    if view.full_name.key in latest.views or view.full_name.key in latest.tables:
        raise CommitConflictError(f"{view} was created by another transaction")
    number = ids.next_catalog()
    aliases = ",".join(map(quoted, view.columns))
    connection.execute(
        "INSERT INTO ducklake_view VALUES (?, ?, ?, NULL, ?, ?, ?, ?, ?)",
        (number, view.uuid, ids.version, schema, view.name, view.dialect, view.sql, aliases),
    )
    _tag(connection, number, view.comment, ids.version)


def schema_there(schema: Schema, latest: Structure) -> None:
    """CommitConflictError if a schema that this commit did not make is gone, or is another one."""
    now = latest.schemas.get(schema.name.lower())
    if schema.id >= 0 and (now is None or now.id != schema.id):
        raise CommitConflictError(f"schema {schema.name} was dropped by another transaction")


def _tag(connection: Connection, number: int, said: str | None, at: int) -> None:
    if said is not None:
        connection.execute(
            "INSERT INTO ducklake_tag VALUES (?, ?, NULL, ?, ?)", (number, at, COMMENT, said)
        )


def _end(
    connection: Connection, kind: str, where: str, parameters: tuple[int | str, ...], at: int
) -> None:
    connection.execute(
        f"UPDATE ducklake_{kind} SET end_snapshot = ? WHERE {where} AND end_snapshot IS NULL",
        (at, *parameters),
    )
