"""UPDATE and DELETE: select the affected rows with their places, then delete and insert by place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame

from spark_trickle.errors import BindError, ExecutionError, Position
from spark_trickle.spark.assign import assign, misfit
from spark_trickle.spark.bitmaps import KEY
from spark_trickle.spark.failures import spark_errors
from spark_trickle.spark.frames import ROW, FileKeys, Frames
from spark_trickle.spark.queries import QueryRunner, pruned
from spark_trickle.spark.write import Staged, Writer
from spark_trickle.sql.statement_conditions import condition_list
from spark_trickle.sql.statement_cursor import Name, Span
from spark_trickle.sql.statement_splices import TextBuilder, quoted
from spark_trickle.sql.statements import Assignment, Delete, Update
from spark_trickle.storage.preimages import FILE, POSITION, remember
from spark_trickle.storage.records import ROW_ID, Column, ScanPlan, Table
from spark_trickle.storage.transaction import Transaction


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


def open_target(frames: Frames, plan: ScanPlan, alias: str, condition: str | None) -> Target:
    names = frozenset({alias.lower()})
    conditions = condition_list(condition, names) if condition else ()
    plan = pruned(plan, conditions)
    view = frames.view(plan, located=True)
    return Target(plan.table, plan, view, alias, selective=bool(conditions))


OLD = "__old"


class Places:
    """Deletes rows of one scan by the places that a query brought along."""

    def __init__(self, tx: Transaction, plan: ScanPlan) -> None:
        self._tx = tx
        self._plan = plan
        self._keys = FileKeys(plan.files)

    def delete(self, located: pa.Table) -> int:
        """``located`` has KEY and ROW; every row once.

        Columns that start with OLD are the rows as they were: the change feed is spared reading them.
        """
        keys = located.column(KEY).combine_chunks()
        rows = located.column(ROW).combine_chunks()
        inlined = pc.is_null(keys)
        in_files = located.filter(pc.invert(inlined))
        keys = keys.filter(pc.invert(inlined))
        self._remember(in_files, keys)
        return self._tx.delete_rows(
            self._plan.table, self._keys.by_file(keys), rows.filter(inlined)
        )

    def _remember(self, located: pa.Table, keys: pa.Array) -> None:
        columns = self._plan.table.columns
        names = [old_name(i) for i in range(len(columns))]
        if not located.num_rows or not set(names) <= set(located.column_names):
            return
        files, positions = self._keys.decode(keys)
        kept = {FILE: files, POSITION: positions, ROW_ID: located.column(ROW)}
        for column, name in zip(columns, names, strict=True):
            kept[column.name] = located.column(name)
        remember(self._tx, self._plan.table, pa.table(kept))


def old_name(index: int) -> str:
    """The hidden column with the value that the table's column had before."""
    return f"{OLD}{index}"


def affected_once(located: pa.Table) -> bool:
    """Whether no row is named twice."""
    keys = located.select([KEY, ROW]).group_by([KEY, ROW]).aggregate([])
    return bool(keys.num_rows == located.num_rows)


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
            builder.own(f" AS `__c{i}`")
    return builder.own(f" FROM {target.view} AS {quoted(target.alias)}")


def delete(
    runner: QueryRunner, tx: Transaction, target: Target, statement: Delete, writer: Writer
) -> int:
    assert statement.condition is not None
    builder = _selection(runner, target, {}).own(" WHERE (")
    frame = runner.run(runner.user(builder, statement.condition).own(")").build())
    located = None
    with spark_errors(runner.sql):
        # Reading whole rows is cheap only where few are looked at.
        if target.selective:
            located = writer.fetch(frame, target.plan.rows)
        if located is None:
            located = frame.select(KEY, ROW).toArrow()
    return Places(tx, target.plan).delete(located)


def update(
    runner: QueryRunner, tx: Transaction, target: Target, statement: Update, writer: Writer
) -> int:
    values = assignment_map(target, statement.assignments, runner.sql)
    builder = _selection(runner, target, values)
    if statement.condition is not None:
        runner.user(builder.own(" WHERE ("), statement.condition).own(")")
    frame = runner.run(builder.build())
    given = {
        column.name: f"__c{i}" if column.name in values else old_name(i)
        for i, column in enumerate(target.table.columns)
    }
    located, staged = affected(writer, frame, target, given)
    if not affected_once(located):
        raise BindError(
            "a row would be updated more than once",
            hint="the values of SET must be one for each row: no generator functions",
        )
    Places(tx, target.plan).delete(located)
    return writer.insert(target.table, staged)


def affected(
    writer: Writer, frame: DataFrame, target: Target, given: dict[str, str]
) -> tuple[pa.Table, Staged]:
    """The places of affected rows and their staged new versions."""
    old = tuple(old_name(i) for i in range(len(target.table.columns)))
    try:
        rows = writer.fetch(
            assign(frame, target.table, given, keep=(KEY, ROW, *old)), target.plan.rows
        )
        if rows is not None:
            return rows.select([KEY, ROW, *old]), Staged(rows=rows.drop([KEY, *old]))
        changed = assign(frame, target.table, given, keep=(KEY, ROW))
        with held(changed) as same_rows:
            with spark_errors():
                located = same_rows.select(KEY, ROW).toArrow()
            files = writer.write_files(target.table, same_rows.drop(KEY), located.num_rows)
        return located, Staged(files=tuple(files))
    except ExecutionError as error:
        raise misfit(frame, target.table, given, error) from None


@contextmanager
def held(frame: DataFrame) -> Iterator[DataFrame]:
    """The frame with its rows kept: what reads it twice must see the same rows twice."""
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()
