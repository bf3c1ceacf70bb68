"""Runs statements: on the catalog alone where that is enough, otherwise through Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

import pyarrow as pa

from spark_trickle.errors import InvalidDataError, NotFoundError, UserError, names_hint
from spark_trickle.execute import ddl, views
from spark_trickle.execute.defaults import Defaults
from spark_trickle.execute.dml import appended, rows
from spark_trickle.execute.dml.restore import has_null, restore
from spark_trickle.execute.executors import LazyExecutors
from spark_trickle.execute.namespace import Namespace
from spark_trickle.execute.show import listing
from spark_trickle.execute.show.listing import NoStreams, Streams
from spark_trickle.execute.states import StatementState, TransactionState, table_name
from spark_trickle.settings import Settings
from spark_trickle.spark.sessions.facts import Meaning, facts_of
from spark_trickle.spark.sessions.session import SessionHolder
from spark_trickle.statements import parse as ast
from spark_trickle.statements.text.cursor import Span
from spark_trickle.statements.text.splices import quoted
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.files.types import arrow_schema
from spark_trickle.storage.read.reader import read_scan
from spark_trickle.storage.records import (
    HIDDEN_SCHEMA,
    ChangePlan,
    NewColumn,
    ScanPlan,
    Table,
    TableName,
)
from spark_trickle.storage.versions.savepoints import whole
from spark_trickle.storage.versions.transaction import Transaction

if TYPE_CHECKING:
    from spark_trickle.execute.dml.modify import Target
    from spark_trickle.execute.query import QueryRunner
    from spark_trickle.spark.frames import Frames
    from spark_trickle.spark.run import Run
    from spark_trickle.spark.sessions.desks import Desks
    from spark_trickle.spark.sessions.session import DataFrame, SparkSession
    from spark_trickle.spark.writing.write import Writer

ChangingStatement = ast.Insert | ast.Update | ast.Delete | ast.Merge | ast.Truncate | ast.Restore


class Engine:
    """One lake's way to Spark. pyspark is imported and a session started on first need only."""

    def __init__(self, catalog: Catalog, holder: SessionHolder, settings: Settings) -> None:
        self.catalog = catalog
        self.holder = holder
        self.settings = settings
        self.relations: dict[str, Callable[[], pa.Table]] = {}
        """Relations of the schema ``trickle``, made when a query asks for them."""
        self.reading: Callable[[Table], None] | None = None
        """Told which tables users read at their newest version."""
        self.streams: Streams = NoStreams()
        self.names = Namespace(catalog)
        self.executors = LazyExecutors(self._shared)
        self._frames: Frames | None = None
        self._desks: Desks | None = None

    @property
    def defaults(self) -> Defaults:
        return Defaults(self.holder)

    @property
    def frames(self) -> Frames:
        spark = self.holder.spark
        if self._frames is None or self._frames.spark is not spark:
            from spark_trickle.spark.frames import Frames

            self._frames = Frames(self._shared())
        return self._frames

    def _shared(self) -> SparkSession:
        """The session, once it is known to see the lake's files as this process does."""
        from spark_trickle.spark.sessions.storage import check_shared

        check_shared(self.holder.spark, self.catalog.files)
        return self.holder.spark

    def meaning(self, called: Mapping[str, int]) -> Meaning:
        """What the session means by a query that calls these functions beside Spark's own."""
        from spark_trickle.spark.sessions.functions import registered

        spark = self.holder.spark
        return Meaning(facts_of(spark), registered(spark, called) if called else {})

    def run(self, tx: Transaction, meaning: Meaning, called: Mapping[str, int]) -> Run:
        """Views and queries of one refresh inside a transaction, for a query that calls these
        functions beside Spark's own."""
        from spark_trickle.spark.run import Run
        from spark_trickle.spark.sessions.desks import Desks
        from spark_trickle.spark.sessions.functions import check

        if called:
            check(self._shared(), meaning.functions, called)
        if self._desks is None:
            self._desks = Desks(self.holder, self._shared)
        return Run(self._desks, meaning, self.settings, self.catalog.files, tx)

    def close(self) -> None:
        if self._desks is not None:
            self._desks.close()
            self._desks = None
        if self._frames is not None:
            self._frames.close()
            self._frames = None

    def scan(self, plan: ScanPlan, *, newest: bool = True) -> DataFrame:
        from spark_trickle.spark.lazy import translated

        if newest and self.reading is not None:
            self.reading(plan.table)
        return translated(self.frames.scan(plan))

    def changes(self, plan: ChangePlan) -> DataFrame:
        """The plan's rows with ``__weight``, consolidated."""
        from spark_trickle.spark.feed import net_change_frame
        from spark_trickle.spark.lazy import translated

        return translated(net_change_frame(self.holder.spark, plan, self.settings.limits))

    def name_hint(self, name: str, known: Iterable[str]) -> str:
        """What to say when a stream table's query names a table that the lake does not have."""
        if self._is_view(name):
            return (
                f"{name} is a view of the Spark session, whose changes nobody records; "
                "make it a table of the lake: CREATE TABLE … AS SELECT"
            )
        tables = {str(t) for t in self.catalog.tables() if t.schema != HIDDEN_SCHEMA}
        return names_hint(name, {*tables, *known})

    def _is_view(self, name: str) -> bool:
        if not self.holder.started:
            return False
        from spark_trickle.spark.sessions.names import has_view

        return has_view(self.holder.spark, name)

    def query(self, sql: str, statement: ast.Query, state: StatementState) -> DataFrame:
        from spark_trickle.spark.lazy import translated

        runner = self._runner(sql, state)
        return translated(runner.query(statement.body), (sql, runner.sent))

    def listing(self, statement: ast.Listing, state: StatementState) -> pa.Table:
        """SHOW and DESCRIBE, from the catalog alone."""
        return listing.answer(statement, state, self.streams)

    def local(self, rows: pa.Table) -> DataFrame:
        from spark_trickle.spark.lazy import translated

        return translated(self.holder.spark.createDataFrame(rows.combine_chunks()))

    def change(
        self, sql: str, statement: ChangingStatement | ddl.Ddl, state: TransactionState
    ) -> int | list[str] | None:
        """Do the statement inside the transaction: the rows affected, None for DDL, and what a
        CASCADE dropped."""
        tx = state.tx
        for participant in tx.participants:
            participant.before_write(tx, statement)
        with whole(tx):
            return self._changed(sql, statement, state)

    def _changed(
        self, sql: str, statement: ChangingStatement | ddl.Ddl, state: TransactionState
    ) -> int | list[str] | None:
        tx = state.tx
        match statement:
            case ast.Insert():
                return self._insert(sql, statement, state)
            case ast.Update() | ast.Delete() | ast.Merge():
                return self._modify(sql, statement, state)
            case ast.Truncate(name):
                return tx.truncate(tx.table(table_name(name)))
            case ast.Restore():
                return restore(self, statement, state)
            case ast.CreateTable() if statement.query is not None:
                return self._create_as(sql, statement, state)
            case ast.CreateView(temporary=True) | ast.DropView() if self.names.temporary(
                sql, statement
            ):
                return None
            case _:
                lost = views.broken(tx, state)
                asked = partial(has_null, self, state)
                dropped = ddl.apply(state, statement, sql, self.defaults, asked)
                views.refuse_breaking(lost, views.broken(tx, state))
                return dropped

    def rows_of(self, plan: ScanPlan, state: TransactionState, table: Table) -> int:
        """Insert a plan's rows; how many."""
        if plan.rows <= self.settings.inline_row_limit:
            return state.tx.insert_rows(table, read_scan(plan))
        writer = self._writer(state)
        return writer.insert(table, writer.stage(table, self.frames.scan(plan), reads=plan.bytes))

    def append(self, state: TransactionState, name: TableName, data: Any) -> int:
        """Rows from outside, by column name."""
        tx = state.tx
        for participant in tx.participants:
            participant.before_write(tx, name)
        table = tx.table(name)
        arrow = appended.to_arrow(table, data)
        if arrow is not None:
            arrow = appended.stored(table, arrow, self.holder.time_zone, self._instants)
            return tx.insert_rows(table, self._complete(table, arrow))
        if not hasattr(data, "schema") or not hasattr(data, "toArrow"):
            raise InvalidDataError(
                f"{type(data).__name__} cannot be appended to {table}",
                hint="give a Spark DataFrame, a pyarrow Table, a pandas frame or a list of dicts",
            )
        from spark_trickle.execute.dml.insert import stage_by_name

        writer = self._writer(state)
        return writer.insert(table, stage_by_name(writer, data, table))

    def _instants(self, wall: pa.ChunkedArray) -> pa.ChunkedArray:
        from spark_trickle.spark.sessions.zones import instants

        return instants(self.holder.for_changes, wall)

    def _runner(
        self,
        sql: str,
        state: StatementState,
        ctes: Span | None = None,
        frames: Frames | None = None,
    ) -> QueryRunner:
        from spark_trickle.execute.query import QueryRunner

        frames = frames or self.frames
        return QueryRunner(
            frames.spark,
            frames,
            state,
            sql,
            ctes,
            self.relations,
            reading=self.reading,
            streams=self.streams,
            session_views=self.names.views,
        )

    @property
    def _frames_for_changes(self) -> Frames:
        """Those of the session in the lake's zone: a text of a time means one moment."""
        from spark_trickle.spark.frames import Frames

        spark = self.holder.for_changes
        return self.frames if spark is self.holder.spark else Frames(spark)

    def _writer(self, state: TransactionState) -> Writer:
        from spark_trickle.spark.writing.write import Writer

        self._shared()
        return Writer(state.tx, self.settings)

    def _insert(self, sql: str, statement: ast.Insert, state: TransactionState) -> int:
        tx = state.tx
        table = tx.table(table_name(statement.target))
        place = Span(statement.target.start, statement.source.start)
        columns = rows.target_columns(table, statement.columns, sql, place)
        if statement.ctes is None and not statement.by_name:
            plain = rows.literal_rows(table, columns, sql, statement.source, self.holder.time_zone)
            if plain is not None:
                if statement.overwrite:
                    tx.truncate(table)
                records = pa.Table.from_pylist(plain, schema=arrow_schema(table.columns))
                return tx.insert_rows(table, records)
        from spark_trickle.execute.dml.insert import stage_by_name, stage_query

        runner = self._runner(sql, state, statement.ctes, self._frames_for_changes)
        runner.replaced = rows.default_splices(columns, sql, statement.source)
        frame = runner.query(statement.source)
        writer = self._writer(state)
        if statement.by_name:
            staged = stage_by_name(writer, frame, table, runner.reads)
        else:
            place_of = (sql, statement.source)
            staged = stage_query(writer, frame, table, columns, place_of, runner.reads)
        if statement.overwrite:
            tx.truncate(table)
        return writer.insert(table, staged)

    def _modify(
        self, sql: str, statement: ast.Update | ast.Delete | ast.Merge, state: TransactionState
    ) -> int:
        from spark_trickle.execute.dml import modify
        from spark_trickle.execute.dml.merge import MergeRunner

        tx = state.tx
        table = tx.table(table_name(statement.target))
        if isinstance(statement, ast.Delete) and statement.condition is None:
            return tx.truncate(table)
        frames = self._frames_for_changes
        target = self._target(sql, statement, state, table, frames)
        runner = self._runner(sql, state, statement.ctes, frames)
        runner.prefixes[table.full_name.key] = quoted(target.alias)
        match statement:
            case ast.Delete():
                return modify.delete(runner, tx, target, statement, self._writer(state))
            case ast.Update():
                return modify.update(runner, tx, target, statement, self._writer(state))
            case ast.Merge():
                return MergeRunner(runner, tx, target, statement, self._writer(state)).run()
            case _:
                assert_never(statement)

    def _target(
        self,
        sql: str,
        statement: ast.Update | ast.Delete | ast.Merge,
        state: TransactionState,
        table: Table,
        frames: Frames,
    ) -> Target:
        from spark_trickle.execute.dml.modify import open_target

        span = None if isinstance(statement, ast.Merge) else statement.condition
        condition = None if span is None else sql[span.start : span.end]
        alias = statement.alias or table.name
        return open_target(frames, state.scan(table), alias, condition)

    def _create_as(
        self, sql: str, statement: ast.CreateTable, state: TransactionState
    ) -> int | None:
        assert statement.query is not None
        if statement.if_not_exists and ddl.find(state.tx, statement) is not None:
            return None
        if statement.columns:
            raise UserError(
                "CREATE TABLE … AS SELECT takes its columns from the query",
                hint="leave the column list out, or create the table first and INSERT",
            )
        from spark_trickle.execute.dml.insert import stage_query
        from spark_trickle.spark.types import type_text

        runner = self._runner(sql, state, None, self._frames_for_changes)
        frame = runner.query(statement.query)
        columns = [NewColumn(f.name, type_text(f.dataType)) for f in frame.schema]
        table = ddl.create(state.tx, statement, columns)
        if table is None:
            return None
        writer = self._writer(state)
        place = (sql, statement.query)
        staged = stage_query(writer, frame, table, table.columns, place, runner.reads)
        return writer.insert(table, staged)

    def _complete(self, table: Table, data: pa.Table) -> pa.Table:
        """The data's columns under the table's names, defaults for those it lacks."""
        given = {}
        for name in data.column_names:
            column = table.column(name)
            if column is None:
                known = ", ".join(c.name for c in table.columns)
                raise NotFoundError(f"{table} has no column {name}", hint=f"it has {known}")
            given[column.name] = data.column(name)
        for column in table.columns:
            if column.name not in given:
                made = NewColumn(column.name, column.declared, default=column.default)
                value = self.defaults.value(made, table.full_name, ())
                field_type = arrow_schema(table.columns).field(column.name).type
                given[column.name] = pa.array([value] * data.num_rows, field_type)
        return pa.table({c.name: given[c.name] for c in table.columns})
