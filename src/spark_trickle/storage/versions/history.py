"""The versions of a lake: when, by whom, why, and what changed; from the catalog alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from spark_trickle.errors import TrickleError
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.catalog.structure import version_range
from spark_trickle.storage.commits import conflicts
from spark_trickle.storage.records import HIDDEN_SCHEMA, Table

_WORDS = {
    "created_schema": "create schema",
    "dropped_schema": "drop schema",
    "created_table": "create table",
    "dropped_table": "drop table",
    "altered_table": "alter table",
    "created_view": "create view",
    "dropped_view": "drop view",
    "altered_view": "alter view",
    **dict.fromkeys(conflicts.INSERTED, "insert"),
    **dict.fromkeys(conflicts.DELETED, "delete"),
    **dict.fromkeys(conflicts.COMPACTED, "compact"),
}


@dataclass(frozen=True)
class Version:
    """One version of the lake, as ``lake.history()`` and SHOW VERSIONS show it."""

    version: int
    time: datetime
    author: str | None
    message: str | None
    extra: str | None
    changes: tuple[str, ...]
    """What was done: create table, insert, delete, …"""
    tables: tuple[str, ...]
    """The tables, views and schemas that it was done to, under their names of then."""
    rows_inserted: int | None
    """None where the version before has expired."""
    rows_deleted: int | None

    @property
    def rows(self) -> int | None:
        """Rows that came or went; an updated one does both."""
        if self.rows_inserted is None or self.rows_deleted is None:
            return None
        return self.rows_inserted + self.rows_deleted


def history(catalog: Catalog, table: Table | None, limit: int | None) -> list[Version]:
    """The newest versions first: all of them, or those that changed one table."""
    found: list[Version] = []
    with catalog.reading() as connection:
        names = _names(connection.execute(_THINGS))
        for row in _newest_first(connection, table):
            if limit is not None and len(found) >= limit:
                break
            changes = conflicts.entries(row[2])
            if table is None or _about(table, row[0], changes, names):
                found.append(_version(catalog, row, changes, names, table))
    return found


_VERSIONS = (
    "SELECT s.snapshot_id, s.snapshot_time, c.changes_made, c.author, c.commit_message, "
    "c.commit_extra_info FROM ducklake_snapshot s LEFT JOIN ducklake_snapshot_changes c "
    "ON c.snapshot_id = s.snapshot_id WHERE s.snapshot_id < ?"
)
_PAGE = 500


def _newest_first(connection: Connection, table: Table | None) -> Iterator[tuple[Any, ...]]:
    """Page by page; of a table those that may be about it."""
    about, after = "", 1 << 62
    if table is not None:
        about = (
            f" AND (c.changes_made LIKE '%:{table.id}%' OR s.snapshot_id = "
            f"(SELECT min(begin_snapshot) FROM ducklake_table WHERE table_id = {table.id}))"
        )
    while True:
        rows = connection.execute(
            f"{_VERSIONS}{about} ORDER BY s.snapshot_id DESC LIMIT {_PAGE}", (after,)
        )
        yield from rows
        if len(rows) < _PAGE:
            return
        after = rows[-1][0]


def committed_by(connection: Connection, moment: datetime) -> int | None:
    """The newest version that was committed at or before a moment, None if there is none.

    Halving: later versions have later times, but for those of writers whose clocks differ a little.
    """
    low, high = version_range(connection)
    low -= 1
    while low < high:
        middle = (low + high + 1) // 2
        number, when = connection.execute(
            f"{_TIMES} WHERE snapshot_id >= ? ORDER BY snapshot_id LIMIT 1", (middle,)
        )[0]
        if moment_of(when) <= moment:
            low = number
        else:
            high = middle - 1
    around = connection.execute(
        f"{_TIMES} WHERE snapshot_id > ? AND snapshot_id <= ? ORDER BY snapshot_id DESC",
        (low - _PAGE, low + _PAGE),
    )
    return next((int(number) for number, when in around if moment_of(when) <= moment), None)


_TIMES = "SELECT snapshot_id, snapshot_time FROM ducklake_snapshot"


def born(catalog: Catalog, table: Table) -> int | None:
    """The version that made a table, if it is still known."""
    with catalog.reading() as connection:
        rows = connection.execute(
            "SELECT min(begin_snapshot) FROM ducklake_table WHERE table_id = ?", (table.id,)
        )
    return None if rows[0][0] is None else int(rows[0][0])


_THINGS = (
    "SELECT 'table', t.table_id, t.begin_snapshot, s.schema_name, t.table_name "
    "FROM ducklake_table t JOIN ducklake_schema s ON s.schema_id = t.schema_id "
    "UNION ALL SELECT 'view', v.view_id, v.begin_snapshot, s.schema_name, v.view_name "
    "FROM ducklake_view v JOIN ducklake_schema s ON s.schema_id = v.schema_id "
    "UNION ALL SELECT 'schema', schema_id, begin_snapshot, NULL, schema_name FROM ducklake_schema"
)
Names = Mapping[tuple[str, int], list[tuple[int, str | None, str]]]


def _names(rows: list[tuple[Any, ...]]) -> Names:
    """By kind and id: since which version it has which name."""
    found: dict[tuple[str, int], list[tuple[int, str | None, str]]] = {}
    for kind, number, begin, schema, name in rows:
        found.setdefault((kind, number), []).append((begin, schema, name))
    return {key: sorted(known, key=lambda k: k[0]) for key, known in found.items()}


def _about(table: Table, version: int, changes: list[tuple[str, str]], names: Names) -> bool:
    made = names.get(("table", table.id), [])
    return bool(made and made[0][0] == version) or any(
        value == str(table.id) and "view" not in kind and "schema" not in kind
        for kind, value in changes
    )


def _version(
    catalog: Catalog,
    row: tuple[Any, ...],
    changes: list[tuple[str, str]],
    names: Names,
    table: Table | None,
) -> Version:
    number, moment, _, author, message, extra = row
    touched = [_thing(kind, value, names, number) for kind, value in changes]
    shown = [(word, name) for word, schema, name in touched if schema != HIDDEN_SCHEMA]
    inserted, deleted = _rows(catalog, number, changes, table)
    return Version(
        number,
        moment_of(moment),
        author,
        message,
        extra,
        tuple(dict.fromkeys(word for word, _ in shown)),
        tuple(dict.fromkeys(name for _, name in shown if name)),
        inserted,
        deleted,
    )


def _thing(kind: str, value: str, names: Names, version: int) -> tuple[str, str | None, str]:
    """What was done, and the schema and full name of what it was done to."""
    word = _WORDS.get(kind, kind.replace("_", " "))
    if not value.isdigit():
        parts = conflicts.unquoted(value)
        schema = parts[0] if len(parts) > 1 else None
        own = schema is None or schema == "main"
        return word, schema, parts[-1] if own else ".".join(parts)
    what = "view" if "view" in kind else "schema" if "schema" in kind else "table"
    known = names.get((what, int(value)), [])
    # A table that is dropped or renamed had its name before.
    then = [k for k in known if k[0] <= version] or known[:1]
    if not then:
        return word, None, ""
    _, schema, name = then[-1]
    return word, schema, name if schema in (None, "main") else f"{schema}.{name}"


def _rows(
    catalog: Catalog, version: int, changes: list[tuple[str, str]], only: Table | None
) -> tuple[int | None, int | None]:
    ids = {
        int(value)
        for kind, value in changes
        if value.isdigit() and kind in (*conflicts.INSERTED, *conflicts.DELETED)
    }
    inserted = deleted = 0
    for number in ids if only is None else ids & {only.id}:
        try:
            table = catalog.structure(version).by_id(number)
            if table is None or table.schema == HIDDEN_SCHEMA:
                continue
            plan = catalog.changes(table, version - 1, version)
        except TrickleError:
            return None, None
        inserted += plan.inserted_rows
        deleted += plan.deleted_rows
    return inserted, deleted


def moment_of(value: str | datetime) -> datetime:
    """A time of the catalog, with its zone."""
    if isinstance(value, str):
        text = value.strip()
        # DuckDB writes the zone as +00.
        value = datetime.fromisoformat(text + ":00" if text[-3] in "+-" else text)
    return value if value.tzinfo else value.replace(tzinfo=UTC)
