"""MERGE INTO: one join of target and source in which every row learns which clause it meets.

Law: clauses are tried in order, the first whose condition holds acts, and no row of the target is
acted on twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.errors import BindError, ExecutionError, Position
from spark_trickle.execute.dml.modify import (
    Target,
    add_value,
    assigned_column,
    assignment_map,
)
from spark_trickle.execute.query import QueryRunner
from spark_trickle.spark.bitmaps import KEY
from spark_trickle.spark.failures import spark_errors
from spark_trickle.spark.frames import ROW
from spark_trickle.spark.types import DataType, spark_type, type_text
from spark_trickle.spark.writing.assign import check_storable, misfit, stored
from spark_trickle.spark.writing.holding import held
from spark_trickle.spark.writing.places import Gone, at_places, old_name
from spark_trickle.spark.writing.write import WaitingRows, Writer
from spark_trickle.statements.parse import (
    Merge,
    MergeClause,
    MergeDelete,
    MergeInsert,
    MergeUpdate,
)
from spark_trickle.statements.text.cursor import Span
from spark_trickle.statements.text.splices import TextBuilder, quoted
from spark_trickle.storage.records import Column
from spark_trickle.storage.versions.transaction import Transaction

if TYPE_CHECKING:
    from spark_trickle.spark.sessions.session import DataFrame

_CLAUSE = "__trickle_clause"
_SOURCE = "__trickle_source"
_Value = Callable[[TextBuilder], object]


@dataclass
class MergeRunner:
    """Runs one MERGE statement."""

    runner: QueryRunner
    tx: Transaction
    target: Target
    statement: Merge
    writer: Writer

    def __post_init__(self) -> None:
        self.alias = self.statement.source_alias or _SOURCE
        self.source_columns: dict[str, str] = {}
        self.places = self.target.places(self.tx, self.writer)

    def run(self) -> int:
        if self._numbers(MergeInsert):
            self.tx.assume(self.target.table)  # what was not found must not be there at commit
        self._open_source()
        values = [self._values(clause) for clause in self.statement.clauses]
        frame = self.runner.run(self._text(values).build())
        given = self._check(frame, values)
        acted = self._assigned(frame, given)
        try:
            return self._apply(acted)
        except ExecutionError as error:
            found = (misfit(frame, self.target.table, names, error) for names in given)
            raise next((e for e in found if e is not error), error) from None

    def _open_source(self) -> None:
        frame = self.runner.run(self._source(self.runner.begin().own("SELECT * FROM ")).build())
        self.source_columns = {name.lower(): name for name in frame.columns}

    def _source(self, builder: TextBuilder) -> TextBuilder:
        """The source in brackets, with a mark that tells its rows from padding."""
        builder.own(f"(SELECT *, TRUE AS {quoted(_SOURCE)} FROM ")
        span = self.statement.source
        builder.user(span.start, span.end, self.runner.splices(span, relation=True))
        return builder.own(f") AS {quoted(self.alias)}")

    def _values(self, clause: MergeClause) -> dict[str, _Value]:
        """By column of the target: what writes its new value into the text."""
        columns = self.target.table.columns
        match clause.action:
            case MergeDelete():
                return {}
            case MergeUpdate(assignments=None):
                return {c.name: self._from_source(c) for c in columns}
            case MergeUpdate(assignments=assignments):
                assert assignments is not None
                spans = assignment_map(self.target, assignments, self.runner.sql)
                return {c.name: self._updated(c, spans.get(c.name)) for c in columns}
            case MergeInsert(values=None):
                return {c.name: self._from_source(c) for c in columns}
            case MergeInsert():
                return self._inserted(clause.action)

    def _from_source(self, column: Column) -> _Value:
        name = self.source_columns.get(column.name.lower())
        if name is None:
            raise BindError(
                f"* needs a column {column.name} in the source, which has none",
                hint="name the columns and their values",
            )
        text = f"{quoted(self.alias)}.{quoted(name)}"
        return lambda builder: builder.own(text)

    def _updated(self, column: Column, span: Span | None) -> _Value:
        if span is None:
            return lambda builder: builder.own(self.target.column(column.name))
        return lambda builder: add_value(self.runner, builder, column, span)

    def _inserted(self, action: MergeInsert) -> dict[str, _Value]:
        spans = action.values or ()
        table = self.target.table
        names = (
            [assigned_column(self.target, n, self.runner.sql) for n in action.columns]
            if action.columns is not None
            else list(table.columns)
        )
        if len(names) != len(spans):
            end = spans[-1].end if spans else 0
            raise BindError(
                f"INSERT names {len(names)} columns but has {len(spans)} values",
                position=Position.of_span(self.runner.sql, spans[0].start, end),
            )
        by_name = {c.name: span for c, span in zip(names, spans, strict=True)}
        return {c.name: self._new(c, by_name.get(c.name)) for c in table.columns}

    def _new(self, column: Column, span: Span | None) -> _Value:
        if span is None:
            return lambda builder: builder.own(f"({column.default or 'NULL'})")
        return lambda builder: add_value(self.runner, builder, column, span)

    def _text(self, values: list[dict[str, _Value]]) -> TextBuilder:
        builder = self.runner.begin().own(f"SELECT {self.target.column(KEY)}, ")
        builder.own(self.target.column(ROW))
        if self._reads_old:
            for i, column in enumerate(self.target.table.columns):
                builder.own(f", {self.target.column(column.name)} AS `{old_name(i)}`")
        for k in range(len(self.statement.clauses)):
            self._guard(builder.own(", "), k).own(f" AS `__g{k}`")
            for i, column in enumerate(self.target.table.columns):
                if column.name in values[k]:
                    self._guard(builder.own(", CASE WHEN "), k).own(" THEN ")
                    values[k][column.name](builder)
                    builder.own(f" END AS `__trickle_v{k}_{i}`")
        builder.own(f" FROM {self.target.view} AS {quoted(self.target.alias)} {self._join()} ")
        self._source(builder).own(" ON (")
        return self.runner.user(builder, self.statement.condition).own(")")

    @property
    def _reads_old(self) -> bool:
        """Whether the rows as they were are at hand: some UPDATE keeps columns of the target."""
        actions = (clause.action for clause in self.statement.clauses)
        return any(isinstance(a, MergeUpdate) and a.assignments is not None for a in actions)

    @property
    def _old(self) -> list[str]:
        count = len(self.target.table.columns)
        return [old_name(i) for i in range(count)] if self._reads_old else []

    def _guard(self, builder: TextBuilder, k: int) -> TextBuilder:
        """True where clause k is the one that acts, so that its values are computed only there."""
        clause = self.statement.clauses[k]
        here = f"{self.target.column(ROW)} IS {{}}NULL"
        there = f"{quoted(self.alias)}.{quoted(_SOURCE)} IS {{}}NULL"
        match clause.when:
            case "MATCHED":
                builder.own(f"({here.format('NOT ')} AND {there.format('NOT ')}")
            case "NOT MATCHED":
                builder.own(f"({here.format('')}")
            case _:
                builder.own(f"({there.format('')}")
        for earlier in self.statement.clauses[:k]:
            if earlier.when == clause.when and earlier.condition is not None:
                self.runner.user(builder.own(" AND NOT coalesce("), earlier.condition)
                builder.own(", FALSE)")
        if clause.condition is not None:
            self.runner.user(builder.own(" AND ("), clause.condition).own(")")
        return builder.own(")")

    def _join(self) -> str:
        kinds = {clause.when for clause in self.statement.clauses}
        left, right = "NOT MATCHED BY SOURCE" in kinds, "NOT MATCHED" in kinds
        if left and right:
            return "FULL OUTER JOIN"
        return "LEFT JOIN" if left else "RIGHT JOIN" if right else "INNER JOIN"

    def _check(self, frame: DataFrame, values: list[dict[str, _Value]]) -> list[dict[str, str]]:
        """By clause: the frame's column for each column of the target, types checked."""
        types: dict[str, DataType] = {f.name: f.dataType for f in frame.schema}
        given = []
        for k, chosen in enumerate(values):
            names = {
                c.name: f"__trickle_v{k}_{i}"
                for i, c in enumerate(self.target.table.columns)
                if c.name in chosen
            }
            for column in self.target.table.columns:
                if column.name in names:
                    check_storable(self.target.table, column, types[names[column.name]])
            given.append(names)
        return given

    def _assigned(self, frame: DataFrame, given: list[dict[str, str]]) -> DataFrame:
        """The rows some clause acts on: places, the clause's number, the columns' new values."""
        types: dict[str, DataType] = {f.name: f.dataType for f in frame.schema}
        guards = " ".join(f"WHEN __g{k} THEN {k}" for k in range(len(given)))
        marked = frame.selectExpr("*", f"CASE {guards} END AS {_CLAUSE}")
        columns = []
        for column in self.target.table.columns:
            branches = [
                f"WHEN {k} THEN {stored(names[column.name], types[names[column.name]], column)}"
                for k, names in enumerate(given)
                if column.name in names
            ]
            nothing = f"CAST(NULL AS {type_text(spark_type(column, ids=False))})"
            value = f"CASE {_CLAUSE} {' '.join(branches)} END" if branches else nothing
            columns.append(f"{value} AS {quoted(column.name)}")
        acted = marked.where(f"{_CLAUSE} IS NOT NULL")
        return acted.selectExpr(KEY, ROW, _CLAUSE, *self._old, *columns)

    def _apply(self, acted: DataFrame) -> int:
        rows = self.writer.fetch(acted)
        if rows is not None:
            clauses = rows.column(_CLAUSE)
            deleted = self._delete(rows)
            for kind, keep in ((MergeUpdate, True), (MergeInsert, False)):
                wanted = pa.array(self._numbers(kind), pa.int32())
                part = rows.filter(pc.is_in(clauses, value_set=wanted))
                part = part.drop([KEY, _CLAUSE, *self._old])
                if part.num_rows:
                    staged = WaitingRows(rows=part if keep else part.drop([ROW]))
                    self.writer.insert(self.target.table, staged)
            return deleted + int(rows.column(ROW).null_count)
        with held(acted) as same_rows:
            with spark_errors():
                found = same_rows.groupBy(_CLAUSE).count().collect()
            counts: dict[int, int] = {row[0]: row[1] for row in found}
            new = sum(counts.get(k, 0) for k in self._numbers(MergeInsert))
            there = same_rows.where(f"{ROW} IS NOT NULL")
            gone = self.places.find(there, sum(counts.values()) - new)
            self._check_once(gone)
            self.places.delete(gone)
            for kind, keep in ((MergeUpdate, True), (MergeInsert, False)):
                numbers = self._numbers(kind)
                count = sum(counts.get(k, 0) for k in numbers)
                if count:
                    part = same_rows.where(same_rows[_CLAUSE].isin(numbers))
                    part = part.drop(KEY, _CLAUSE, *self._old, *(() if keep else (ROW,)))
                    files = tuple(self.writer.write_files(self.target.table, part, count))
                    self.writer.insert(self.target.table, WaitingRows(files=files))
        return gone.rows + new

    def _numbers(self, kind: type[MergeUpdate] | type[MergeInsert]) -> list[int]:
        clauses = enumerate(self.statement.clauses)
        return [k for k, clause in clauses if isinstance(clause.action, kind)]

    def _delete(self, rows: pa.Table) -> int:
        located = rows.select([KEY, ROW, *self._old]).filter(pc.is_valid(rows.column(ROW)))
        gone = at_places(located)
        self._check_once(gone)
        return self.places.delete(gone)

    def _check_once(self, gone: Gone) -> None:
        if not gone.once and not self._only_deletes():
            raise BindError(
                f"a row of {self.target.table} is matched by more than one row of the source",
                hint="make the ON condition unique for each row of the target",
            )

    def _only_deletes(self) -> bool:
        """Deleting a row twice is deleting it: several matches do no harm then."""
        return all(
            isinstance(clause.action, MergeDelete | MergeInsert)
            for clause in self.statement.clauses
        )
