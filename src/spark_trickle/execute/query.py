"""Queries: the user's text with table names replaced by views, run by Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_trickle.errors import (
    BindError,
    CycleError,
    NotFoundError,
    Position,
    TrickleError,
    UserError,
    names_hint,
)
from spark_trickle.execute.show import information, listing
from spark_trickle.execute.show.listing import NoStreams, Streams, visible
from spark_trickle.execute.states import SnapshotState, StatementState, table_name, version_at
from spark_trickle.spark.failures import spark_errors
from spark_trickle.spark.frames import Frames
from spark_trickle.spark.sessions.names import view_names
from spark_trickle.statements.conditions import (
    ColumnCondition,
    bound_value,
    conditions_by_place,
)
from spark_trickle.statements.files import Files, parse_files
from spark_trickle.statements.text.cursor import Span
from spark_trickle.statements.text.names import TableReference, cte_names, find_tables
from spark_trickle.statements.text.splices import Splice, Spliced, TextBuilder, splice_names
from spark_trickle.storage.records import Condition, Table, View

if TYPE_CHECKING:
    from spark_trickle.spark.sessions.session import DataFrame, SparkSession

ScanConditions = dict[int, tuple[ColumnCondition, ...]]
"""By the place where a table's name begins."""


def comparable(
    table: Table, conditions: Sequence[ColumnCondition]
) -> list[Mapping[str, Condition]]:
    """Those of the conditions that bounds of the table's columns compare with."""
    found: list[Mapping[str, Condition]] = []
    for condition in conditions:
        column = table.column(condition.column)
        if column is None:
            continue
        if condition.values is not None:
            answers = [bound_value(value, column.type) for value in condition.values]
            if all(known for known, _ in answers):
                found.append({column.name: [value for _, value in answers]})
            continue
        low_known, low = bound_value(condition.low, column.type)
        high_known, high = bound_value(condition.high, column.type)
        if low_known and high_known:
            found.append({column.name: (low, high)})
    return found


@dataclass
class QueryRunner:
    """Runs texts against one source; table names are looked up there first, then by Spark."""

    spark: SparkSession
    frames: Frames
    state: StatementState
    sql: str
    ctes: Span | None = None
    relations: Mapping[str, Callable[[], pa.Table]] = field(default_factory=dict)
    prefixes: dict[tuple[str, ...], str] = field(default_factory=dict)
    replaced: tuple[Splice, ...] = ()
    """Further stretches of the text that Spark gets in other words."""
    sent: Spliced | None = None
    """What Spark was sent."""
    reading: Callable[[Table], None] | None = None
    """Told which tables are read, but not of those at a version of the past."""

    streams: Streams = field(default_factory=NoStreams)
    session_views: Mapping[str, View] = field(default_factory=dict)
    path: tuple[View, ...] = ()
    """The views inside which this is."""

    def __post_init__(self) -> None:
        span = self.ctes
        self._opened = self.frames.bytes_opened
        self._shadowed = cte_names(self.sql, span.start, span.end) if span else frozenset()

    def query(self, body: Span) -> DataFrame:
        """A whole query; ``ctes`` before it, if the statement has some."""
        places = conditions_by_place(self.sql[body.start : body.end])
        shifted = {place + body.start: found for place, found in places.items()}
        builder = self.begin()
        self.user(builder, body, shifted)
        return self.run(builder.build())

    @property
    def reads(self) -> int:
        """Bytes of the files of the lake that its queries read so far."""
        return self.frames.bytes_opened - self._opened

    def begin(self) -> TextBuilder:
        builder = TextBuilder(self.sql)
        if self.ctes is not None:
            self.user(builder, self.ctes)
            builder.own(" ")
        return builder

    def user(
        self, builder: TextBuilder, span: Span, conditions: ScanConditions | None = None
    ) -> TextBuilder:
        """Add a stretch of the user's text, table names replaced."""
        return builder.user(span.start, span.end, self.splices(span, conditions))

    def splices(
        self, span: Span, conditions: ScanConditions | None = None, *, relation: bool = False
    ) -> tuple[Splice, ...]:
        """What to replace in a query or an expression, or in what stands after FROM."""
        conditions = conditions or {}
        inside = self.ctes is not None and span == self.ctes
        shadowed = frozenset[str]() if inside else self._shadowed
        references = find_tables(self.sql, (span.start, span.end), shadowed, relation=relation)
        found = splice_names(
            self.sql,
            references,
            lambda reference: self._view(reference, conditions.get(reference.name.start, ())),
            (span.start, span.end),
            self.prefixes,
        )
        return tuple(sorted((*found, *self.replaced), key=lambda s: (s.start, s.end)))

    def run(self, text: Spliced) -> DataFrame:
        self.sent = text
        try:
            with spark_errors(self.sql, text):
                return self.spark.sql(text.text)
        except NotFoundError as error:
            raise self._explained(error) from None

    def _explained(self, error: NotFoundError) -> UserError:
        """The same error with a hint: tables of the lake and views of the session are in reach."""
        name = error.message.removeprefix("there is no table ")
        known = {*(str(table) for table in visible(self.state)), *view_names(self.spark)}
        if name.lower() in map(str.lower, known):
            return UserError(
                f"{name} is there, but stands where no table's name is looked for",
                position=error.position,
                hint="write the name itself after FROM or JOIN, without IDENTIFIER(…), "
                "and INSERT INTO … SELECT … FROM …, not FROM … INSERT: these forms are not supported",
            )
        return NotFoundError(error.message, position=error.position, hint=names_hint(name, known))

    def _view(
        self, reference: TableReference, conditions: tuple[ColumnCondition, ...]
    ) -> str | None:
        """The view of a table of the lake; None: not ours, Spark may know the name."""
        travels = reference.version is not None or reference.timestamp is not None
        if len(reference.name.parts) > 2:
            return None
        if reference.call is not None:
            return self._files(parse_files(reference.name.parts[0], reference.call))
        name = table_name(reference.name)
        if len(reference.name.parts) == 1 and name.name.lower() in self.session_views:
            return self._of_view(self.session_views[name.name.lower()], self.state)
        if name.schema.lower() == information.SCHEMA:
            found = information.relation(name.name, self.state, self.streams)
            return None if found is None else self.frames.local_view(found)
        if name.schema.lower() == "trickle" and name.name.lower() in self.relations:
            return self.frames.local_view(self.relations[name.name.lower()]())
        own = None
        try:
            seen = self.state
            if travels:
                version = self._version(reference)
                seen = SnapshotState(self.state.catalog, version)
            view = listing.view(seen, name)
            if view is not None:
                return self._of_view(view, seen)
            if travels:
                then = seen.table(name)
                plan = seen.scan(then, comparable(then, conditions))
            else:
                own = self.state.table(name)
                plan = self.state.scan(own, comparable(own, conditions))
                if self.reading is not None:
                    self.reading(plan.table)
        except NotFoundError as error:
            if not travels and own is None:
                return None
            raise self._at(error, reference) from None
        return self.frames.view(plan)

    def _files(self, files: Files) -> str:
        with spark_errors(self.sql):
            reader = self.spark.read.format(files.format).options(**files.options)
            return self.frames.frame_view(reader.load(files.path))

    def _of_view(self, view: View, state: StatementState) -> str:
        """The view of Spark's that stands for one of the lake or of the session."""
        if view in self.path:
            chain = " -> ".join(str(v) for v in (*self.path, view))
            raise CycleError(f"view {view} refers to itself: {chain}")
        if view.dialect != "spark":
            raise UserError(f"view {view} is written in the SQL of {view.dialect}")
        inner = replace(
            self,
            state=state,
            sql=view.sql,
            ctes=None,
            prefixes={},
            replaced=(),
            sent=None,
            path=(*self.path, view),
        )
        try:
            frame = inner.query(Span(0, len(view.sql)))
            return self.frames.frame_view(frame.toDF(*view.columns) if view.columns else frame)
        except TrickleError as error:
            error.message = f"in view {view.name}: {error.message}"
            raise

    def _version(self, reference: TableReference) -> int:
        if reference.version is not None:
            text = reference.version.strip("'\"")
            if not text.isdigit():
                raise BindError(
                    f"a version is a whole number, not {reference.version}",
                    position=self._position(reference),
                )
            return int(text)
        with spark_errors(self.sql):
            text = f"SELECT unix_micros(CAST({reference.timestamp} AS TIMESTAMP)) AS at"
            micros = self.spark.sql(text).toArrow().column("at")[0].as_py()
        if micros is None:
            raise BindError("the timestamp is NULL", position=self._position(reference))
        moment = datetime.fromtimestamp(0, UTC).timestamp() + micros / 1e6
        return version_at(self.state.catalog, datetime.fromtimestamp(moment, UTC))

    def _position(self, reference: TableReference) -> Position:
        return Position.of_span(self.sql, reference.name.start, reference.clause_end)

    def _at(self, error: NotFoundError, reference: TableReference) -> NotFoundError:
        return NotFoundError(error.message, position=self._position(reference), hint=error.hint)
