"""Statements that change structure; none of them starts Spark unless a default must be computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, assert_never

from spark_trickle.errors import (
    AlreadyExistsError,
    BindError,
    InvalidDataError,
    NotFoundError,
    Position,
    UserError,
)
from spark_trickle.execute import views
from spark_trickle.execute.defaults import Defaults
from spark_trickle.execute.states import TransactionState, table_name
from spark_trickle.statements import parse as ast
from spark_trickle.statements.text.cursor import Name
from spark_trickle.storage.files.types import parse_spark
from spark_trickle.storage.records import NewColumn, Table, TableName, View
from spark_trickle.storage.versions.transaction import Transaction

HasNull = Callable[[Table, str], bool]
"""Whether a row of the table is NULL in a column."""
Ask = Callable[[ast.ColumnDefinition], Any]
"""Looks at a column's DEFAULT; what it answers is for the rows that are there already."""

Alteration = ast.AddColumns | ast.DropColumns | ast.RenameColumn | ast.RenameTable | ast.AlterColumn
Ddl = (
    ast.CreateSchema
    | ast.DropSchema
    | ast.CreateTable
    | ast.DropTable
    | ast.Comment
    | ast.CreateView
    | ast.DropView
    | Alteration
)


def apply(
    state: TransactionState, statement: Ddl, sql: str, defaults: Defaults, has_null: HasNull
) -> list[str] | None:
    """Do it; with CASCADE, the names of what was dropped."""
    tx = state.tx
    match statement:
        case ast.CreateSchema(name, if_not_exists):
            tx.create_schema(name, if_not_exists=if_not_exists)
        case ast.DropSchema(name, if_exists, cascade):
            things: list[Table | View] = [*tx.tables(), *tx.views()]
            inside = [str(t) for t in things if t.schema.lower() == name.lower()]
            tx.drop_schema(name, if_exists=if_exists, cascade=cascade)
            return inside if cascade else None
        case ast.CreateView():
            _create_view(state, statement, sql)
        case ast.DropView(name, if_exists):
            if not if_exists or tx.view(table_name(name)) is not None:
                tx.drop_view(table_name(name))
        case ast.CreateTable(like=Name() as like):
            _create_like(tx, statement, tx.table(table_name(like)))
        case ast.CreateTable():
            _create_table(tx, statement, sql, defaults)
        case ast.DropTable():
            table = find(tx, statement)
            if table is not None:
                tx.drop_table(table)
        case ast.Comment():
            _comment(tx, statement)
        case ast.AlterColumn():
            _alter_column(tx, statement, defaults, has_null)
        case _:
            _alter(tx, statement, sql, defaults)
    return None


Named = ast.AddColumns | ast.DropColumns | ast.RenameColumn | ast.RenameTable


def _alter(tx: Transaction, statement: Named, sql: str, defaults: Defaults) -> None:
    match statement:
        case ast.AddColumns(name, added):
            table = tx.table(table_name(name))
            names = [c.name for c in table.columns] + [c.name for c in added]
            ask = partial(defaults.value, table=table.full_name, names=names)
            for column in added:
                if not (column.if_not_exists and table.column(column.name) is not None):
                    table = tx.add_column(table, _new(column, sql, ask))
        case ast.DropColumns():
            _drop_columns(tx, statement)
        case ast.RenameColumn(name, column_name, to):
            tx.rename_column(tx.table(table_name(name)), column_name, to)
        case ast.RenameTable(name, new_name):
            _rename_table(tx, tx.table(table_name(name)), new_name)
        case _:
            assert_never(statement)


def _create_table(
    tx: Transaction, statement: ast.CreateTable, sql: str, defaults: Defaults
) -> None:
    names = [column.name for column in statement.columns]
    ask = partial(defaults.check, table=table_name(statement.name), names=names)
    known = statement.if_not_exists and find(tx, statement) is not None
    columns = [_new(column, sql, None if known else ask) for column in statement.columns]
    create(tx, statement, columns)


def _create_like(tx: Transaction, statement: ast.CreateTable, model: Table) -> None:
    columns = [
        NewColumn(c.name, c.declared, c.nullable, c.default, None, c.comment) for c in model.columns
    ]
    wanted = replace(statement, primary_key=model.primary_key, cluster_by=model.cluster_by)
    create(tx, replace(wanted, comment=model.comment), columns)


def _alter_column(
    tx: Transaction, statement: ast.AlterColumn, defaults: Defaults, has_null: HasNull
) -> None:
    table = tx.table(table_name(statement.name))
    column = table.column(statement.column)
    if statement.action == "SET DEFAULT" and column is not None:
        wanted = NewColumn(column.name, column.declared, column.nullable, statement.value)
        defaults.check(wanted, table.full_name, [c.name for c in table.columns])
    if statement.action == "SET NOT NULL" and column is not None:
        if has_null(table, statement.column):
            raise InvalidDataError(
                f"column {statement.column} of {table} cannot become NOT NULL: it has rows with NULL",
                hint=f"UPDATE {table} SET {statement.column} = … WHERE {statement.column} IS NULL",
            )
        tx.read(table)  # a NULL that somebody inserts meanwhile must not slip in
    tx.alter_column(table, statement.column, statement.action, statement.value)


def _comment(tx: Transaction, statement: ast.Comment) -> None:
    name = table_name(statement.name)
    view = tx.view(name) if statement.column is None else None
    if view is not None:
        tx.comment_view(view, statement.comment)
    else:
        tx.comment(tx.table(name), statement.comment, statement.column)


def _create_view(state: TransactionState, statement: ast.CreateView, sql: str) -> None:
    tx, name = state.tx, table_name(statement.name)
    body = sql[statement.query.start : statement.query.end]
    there = tx.view(name)
    if there is not None and statement.if_not_exists:
        return
    if statement.altered:
        there = tx.view_there(name)
    wanted = View(0, name.schema, name.name, body, "spark", statement.columns)
    kept = there.comment if statement.altered and there is not None else None
    wanted = replace(wanted, comment=statement.comment or kept)
    if there is not None and statement.or_replace:
        tx.drop_view(name)
        wanted = replace(wanted, uuid=there.uuid)
    views.compiled(tx.create_view(wanted), state)


def _rename_table(tx: Transaction, table: Table, to: Name) -> None:
    target = table_name(to)
    if len(to.parts) == 1:  # a bare name stays in the schema that the table is in
        target = TableName(table.schema, target.name)
    tx.rename_table(table, target)


def find(tx: Transaction, statement: ast.DropTable | ast.CreateTable) -> Table | None:
    """The table, or None where the statement allows that there is none."""
    try:
        return tx.table(table_name(statement.name))
    except NotFoundError:
        if isinstance(statement, ast.DropTable) and not statement.if_exists:
            raise
        return None


def create(tx: Transaction, statement: ast.CreateTable, columns: list[NewColumn]) -> Table | None:
    """The new table, or None when IF NOT EXISTS finds one."""
    existing = find(tx, statement)
    if existing is not None:
        if statement.if_not_exists:
            return None
        if not statement.or_replace:
            raise AlreadyExistsError(
                f"there is a table {existing} already",
                hint="use CREATE TABLE IF NOT EXISTS or CREATE OR REPLACE TABLE",
            )
        tx.drop_table(existing)
    return tx.create_table(
        table_name(statement.name),
        columns,
        primary_key=statement.primary_key,
        cluster_by=statement.cluster_by,
        comment=statement.comment,
    )


def _new(column: ast.ColumnDefinition, sql: str, ask: Ask | None) -> NewColumn:
    position = Position.of_span(sql, column.span.start, column.span.end)
    try:
        parse_spark(column.type)
        initial = None if ask is None else ask(column)
    except UserError as error:
        raise type(error)(error.message, position=position, hint=error.hint) from None
    return NewColumn(
        column.name, column.type, column.nullable, column.default, initial, column.comment
    )


def _drop_columns(tx: Transaction, statement: ast.DropColumns) -> None:
    table = tx.table(table_name(statement.name))
    for name in statement.columns:
        if table.column(name) is None:
            if statement.if_exists:
                continue
            known = ", ".join(c.name for c in table.columns)
            raise BindError(f"{table} has no column {name}", hint=f"it has {known}")
        table = tx.drop_column(table, name)
