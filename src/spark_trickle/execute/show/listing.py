"""SHOW and DESCRIBE as small Arrow tables; the catalog alone answers them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol, assert_never

import pyarrow as pa

from spark_trickle.errors import NotFoundError, names_hint
from spark_trickle.execute.show import definitions
from spark_trickle.execute.states import SnapshotState, StatementState, TransactionState, table_name
from spark_trickle.statements import parse as ast
from spark_trickle.statements.text.cursor import Name
from spark_trickle.storage.records import HIDDEN_SCHEMA, Table, TableName, View
from spark_trickle.storage.versions.history import Version, born, history

TABLE, VIEW, STREAM_TABLE = "TABLE", "VIEW", "STREAM TABLE"


class Streams(Protocol):
    """What is known of stream tables, by the uuid of their tables."""

    def kinds(self) -> frozenset[str]:
        """Which tables are stream tables."""

    def details(self, uuid: str) -> list[tuple[str, str | None]]:
        """What DESCRIBE EXTENDED says about one."""

    def definition(self, uuid: str) -> str:
        """The statement that makes it."""


class NoStreams:
    """Of a lake without stream tables."""

    def kinds(self) -> frozenset[str]:
        return frozenset()

    def details(self, uuid: str) -> list[tuple[str, str | None]]:
        raise NotFoundError(f"there is no stream table {uuid}")

    def definition(self, uuid: str) -> str:
        raise NotFoundError(f"there is no stream table {uuid}")


def answer(statement: ast.Listing, state: StatementState, streams: Streams) -> pa.Table:
    match statement:
        case ast.ShowTables():
            return _tables(state, statement, streams)
        case ast.ShowSchemas(like):
            return _text_table({"namespace": [n for n in schemas(state) if fits(n, like)]})
        case ast.ShowColumns(name):
            return _text_table({"col_name": _column_names(state, name)})
        case ast.ShowCreate(name, kind):
            return _text_table({"createtab_stmt": [_create(state, name, kind, streams)]})
        case ast.ShowVersions(of, limit):
            table = None if of is None else state.table(table_name(of))
            return versions_relation(history(state.catalog, table, limit))
        case ast.Describe():
            return _describe(state, statement, streams)
        case _:
            assert_never(statement)


def visible(state: StatementState) -> list[Table]:
    """The tables of users, without private state of stream tables."""
    match state:
        case SnapshotState():
            tables = state.catalog.tables(state.version)
        case TransactionState():
            tables = state.tx.tables()
        case _:
            tables = state.catalog.tables()
    return [table for table in tables if table.schema != HIDDEN_SCHEMA]


def views(state: StatementState) -> list[View]:
    match state:
        case SnapshotState():
            return state.catalog.views(state.version)
        case TransactionState():
            return state.tx.views()
        case _:
            return state.catalog.views()


def view(state: StatementState, name: TableName) -> View | None:
    """The view of that name, or None."""
    return next((v for v in views(state) if v.full_name.key == name.key), None)


def schemas(state: StatementState) -> list[str]:
    match state:
        case SnapshotState():
            found = state.catalog.schemas(state.version)
        case TransactionState():
            found = state.tx.schemas()
        case _:
            found = state.catalog.schemas()
    return [name for name in found if name != HIDDEN_SCHEMA]


def kind_of(thing: Table | View, streams: frozenset[str]) -> str:
    if isinstance(thing, View):
        return VIEW
    return STREAM_TABLE if thing.uuid in streams else TABLE


def fits(name: str, pattern: str | None) -> bool:
    """Whether a name is one that a pattern of SHOW means: * is anything, | parts alternatives."""
    if pattern is None:
        return True
    choices = (
        ".*".join(map(re.escape, re.split(r"[*%]", choice.strip())))
        for choice in pattern.split("|")
    )
    return any(re.fullmatch(choice, name, re.IGNORECASE | re.DOTALL) for choice in choices)


def _tables(state: StatementState, statement: ast.ShowTables, streams: Streams) -> pa.Table:
    things: list[Table | View] = [*views(state)]
    if not statement.views_only:
        things += visible(state)
    if statement.schema is not None:
        wanted = statement.schema.lower()
        known = schemas(state)
        if wanted not in {name.lower() for name in known}:
            raise NotFoundError(
                f"there is no schema {statement.schema}",
                hint=names_hint(statement.schema, known, "schemas"),
            )
        things = [thing for thing in things if thing.schema.lower() == wanted]
    things = [thing for thing in things if fits(thing.name, statement.like)]
    things.sort(key=lambda thing: thing.full_name.key)
    kinds = streams.kinds()
    return _text_table(
        {
            "namespace": [t.schema for t in things],
            "tableName": [t.name for t in things],
            "kind": [kind_of(t, kinds) for t in things],
        }
    )


def _column_names(state: StatementState, name: Name) -> list[str]:
    found = view(state, table_name(name))
    if found is not None:
        return [column for column, _ in definitions.columns_of_view(found, state)]
    return [column.name for column in state.table(table_name(name)).columns]


def _create(state: StatementState, name: Name, kind: str, streams: Streams) -> str:
    wanted = table_name(name)
    found = view(state, wanted)
    if found is not None and kind in (TABLE, VIEW):
        return definitions.of_view(found)
    if kind == VIEW:
        known = [str(v) for v in views(state)]
        raise NotFoundError(
            f"there is no view {wanted}", hint=names_hint(str(wanted), known, "views")
        )
    table = state.table(wanted)
    if table.uuid in streams.kinds():
        return streams.definition(table.uuid)
    if kind == STREAM_TABLE:
        raise NotFoundError(f"{table} is a table, not a stream table")
    return definitions.of_table(table)


_COLUMNS = ("col_name", "data_type", "nullable", "default", "key", "comment")


def _describe(state: StatementState, statement: ast.Describe, streams: Streams) -> pa.Table:
    name = table_name(statement.name)
    found = view(state, name)
    if found is not None and not statement.stream:
        rows: list[list[str | None]] = [
            [column, kind, None, None, None, None]
            for column, kind in definitions.columns_of_view(found, state)
        ]
        details: list[tuple[str, str | None]] = [("Type", VIEW), ("View Text", found.sql)]
        details.append(("Comment", found.comment))
        return _described(rows, found, details if statement.extended else [])
    table = state.table(name)
    is_stream = table.uuid in streams.kinds()
    if statement.stream and not is_stream:
        raise NotFoundError(f"{table} is a table, not a stream table")
    details = []
    if statement.extended:
        details = [("Type", STREAM_TABLE if is_stream else TABLE), *_details(state, table)]
    if is_stream and (statement.extended or statement.stream):
        details += streams.details(table.uuid)
    return _described(_rows_of(table), table, details)


def _described(
    rows: list[list[str | None]], thing: Table | View, details: list[tuple[str, str | None]]
) -> pa.Table:
    """The columns; then, as in Spark, one line for each thing there is to say."""
    if details:
        said: list[tuple[str, str | None]] = [("", None), ("# Detailed Table Information", None)]
        said += [("Database", thing.schema), ("Table", thing.name), *details]
        rows = rows + [[name, value, *[None] * 4] for name, value in said]
    return _text_table({name: [row[i] for row in rows] for i, name in enumerate(_COLUMNS)})


def _rows_of(table: Table) -> list[list[str | None]]:
    def notes(name: str) -> str:
        words = [
            "primary key" if name in table.primary_key else "",
            "cluster by" if name in table.cluster_by else "",
        ]
        return ", ".join(word for word in words if word)

    return [
        [c.name, c.declared, str(c.nullable).lower(), c.default, notes(c.name), c.comment]
        for c in table.columns
    ]


def _details(state: StatementState, table: Table) -> list[tuple[str, str | None]]:
    plan = state.scan(table)
    there = table.id >= 0
    made = born(state.catalog, table) if there else None
    last = history(state.catalog, table, 1) if there else []
    return [
        ("Comment", table.comment),
        ("Primary Key", ", ".join(table.primary_key) or None),
        ("Cluster By", ", ".join(table.cluster_by) or None),
        ("Location", table.location),
        ("Rows", str(plan.rows)),
        ("Files", str(len(plan.files))),
        ("Bytes", str(plan.bytes)),
        ("Created Version", None if made is None else str(made)),
        ("Last Version", str(last[0].version) if last else None),
    ]


_VERSIONS = pa.schema(
    [
        ("version", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("author", pa.string()),
        ("message", pa.string()),
        ("changes", pa.list_(pa.string())),
        ("tables", pa.list_(pa.string())),
        ("rows", pa.int64()),
        ("rows_inserted", pa.int64()),
        ("rows_deleted", pa.int64()),
    ]
)


def versions_relation(versions: Sequence[Version]) -> pa.Table:
    """DESCRIBE HISTORY and SHOW VERSIONS."""
    rows = [{**vars(version), "rows": version.rows} for version in versions]
    return pa.Table.from_pylist(rows, _VERSIONS)


def _text_table(columns: Mapping[str, Sequence[str | None]]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
