"""UPDATE and DELETE: select the affected rows with their places, then delete and insert by place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_trickle.errors import BindError, ExecutionError, Position
from spark_trickle.execute.query import QueryRunner, comparable
from spark_trickle.execute.states import met
from spark_trickle.spark.bitmaps import KEY
from spark_trickle.spark.failures import spark_errors
from spark_trickle.spark.frames import ROW, Frames
from spark_trickle.spark.writing.assign import assign, misfit
from spark_trickle.spark.writing.holding import held
from spark_trickle.spark.writing.places import Gone, Places, at_places, old_name
from spark_trickle.spark.writing.write import WaitingRows, Writer
from spark_trickle.statements.conditions import condition_list
from spark_trickle.statements.parse import Assignment, Delete, Update
from spark_trickle.statements.text.cursor import Name, Span
from spark_trickle.statements.text.splices import TextBuilder, quoted
from spark_trickle.storage.records import Column, ScanPlan, Table
from spark_trickle.storage.versions.transaction import Transaction

if TYPE_CHECKING:
    from spark_trickle.spark.sessions.session import DataFrame


@dataclass(frozen=True)
class Target:
    """The table that a statement changes: its plan, the view of it and the alias in the text."""

    table: Table
    plan: ScanPlan
    view: str
    alias: str
    selective: bool = False
    """The statement's own condition says by column values which rows it means."""

    def column(self, name: str) -> str:
        return f"{quoted(self.alias)}.{quoted(name)}"

    def places(self, tx: Transaction, writer: Writer) -> Places:
        return Places(tx, self.plan, writer.settings)


def open_target(frames: Frames, plan: ScanPlan, alias: str, condition: str | None) -> Target:
    names = frozenset({alias.lower()})
    conditions = condition_list(condition, names) if condition else ()
    plan = met(plan, comparable(plan.table, conditions))
    view = frames.view(plan, located=True)
    return Target(plan.table, plan, view, alias, selective=bool(conditions))


def assigned_column(target: Target, name: Name, sql: str) -> Column:
    """The column that ``SET name = …`` means."""
    parts = name.parts
    own = {target.alias.lower(), target.table.name.lower()}
    if len(parts) > 1 and parts[-2].lower() in own:
        parts = parts[-1:]
    column = target.table.column(parts[0])
    position = Position.of_span(sql, name.start, name.end)
    if column is None:
        known = ", ".join(c.name for c in target.table.columns)
        raise BindError(
            f"{target.table} has no column {name}", position=position, hint=f"it has {known}"
        )
    if len(parts) > 1:
        raise BindError(
            f"a field inside column {column.name} cannot be assigned on its own",
            position=position,
            hint="assign the whole column, for example with named_struct(…)",
        )
    return column


def assignment_map(
    target: Target, assignments: tuple[Assignment, ...], sql: str
) -> dict[str, Span]:
    found: dict[str, Span] = {}
    for assignment in assignments:
        column = assigned_column(target, assignment.column, sql)
        if column.name in found:
            raise BindError(
                f"column {column.name} is assigned twice",
                position=Position.of_span(sql, assignment.column.start, assignment.column.end),
            )
        found[column.name] = assignment.value
    return found


def add_value(runner: QueryRunner, builder: TextBuilder, column: Column, value: Span) -> None:
    """A value of SET or VALUES; DEFAULT stands for the column's default."""
    if runner.sql[value.start : value.end].upper() == "DEFAULT":
        builder.own(f"({column.default or 'NULL'})")
    else:
        runner.user(builder.own("("), value).own(")")


def _selection(runner: QueryRunner, target: Target, values: dict[str, Span]) -> TextBuilder:
    """SELECT of places, old values and, for UPDATE, new ones."""
    builder = runner.begin().own(f"SELECT {target.column(KEY)}, {target.column(ROW)}")
    for i, column in enumerate(target.table.columns):
        builder.own(f", {target.column(column.name)} AS `{old_name(i)}`")
    for i, column in enumerate(target.table.columns):
        if column.name in values:
            add_value(runner, builder.own(", "), column, values[column.name])
            builder.own(f" AS `__trickle_c{i}`")
    return builder.own(f" FROM {target.view} AS {quoted(target.alias)}")


def delete(
    runner: QueryRunner, tx: Transaction, target: Target, statement: Delete, writer: Writer
) -> int:
    assert statement.condition is not None
    builder = _selection(runner, target, {}).own(" WHERE (")
    frame = runner.run(runner.user(builder, statement.condition).own(")").build())
    places = target.places(tx, writer)
    located = None
    with spark_errors(runner.sql):
        # Reading whole rows is cheap only where few are looked at.
        if target.selective:
            located = writer.fetch(frame, target.plan.rows)
        return places.delete(places.find(frame) if located is None else at_places(located))


def update(
    runner: QueryRunner, tx: Transaction, target: Target, statement: Update, writer: Writer
) -> int:
    values = assignment_map(target, statement.assignments, runner.sql)
    builder = _selection(runner, target, values)
    if statement.condition is not None:
        runner.user(builder.own(" WHERE ("), statement.condition).own(")")
    frame = runner.run(builder.build())
    given = {
        column.name: f"__trickle_c{i}" if column.name in values else old_name(i)
        for i, column in enumerate(target.table.columns)
    }
    places = target.places(tx, writer)
    gone, staged = affected(writer, frame, target, given, places)
    if not gone.once:
        raise BindError(
            "a row would be updated more than once",
            hint="the values of SET must be one for each row: no generator functions",
        )
    places.delete(gone)
    return writer.insert(target.table, staged)


def affected(
    writer: Writer, frame: DataFrame, target: Target, given: dict[str, str], places: Places
) -> tuple[Gone, WaitingRows]:
    """The affected rows and their staged new versions."""
    old = tuple(old_name(i) for i in range(len(target.table.columns)))
    try:
        rows = writer.fetch(
            assign(frame, target.table, given, keep=(KEY, ROW, *old)), target.plan.rows
        )
        if rows is not None:
            gone = at_places(rows.select([KEY, ROW, *old]))
            return gone, WaitingRows(rows=rows.drop([KEY, *old]))
        with held(frame) as same_rows:
            with spark_errors():
                count = same_rows.count()
            gone = places.find(same_rows, count)
            changed = assign(same_rows, target.table, given, keep=(ROW,))
            files = writer.write_files(target.table, changed, count)
        return gone, WaitingRows(files=tuple(files))
    except ExecutionError as error:
        raise misfit(frame, target.table, given, error) from None
