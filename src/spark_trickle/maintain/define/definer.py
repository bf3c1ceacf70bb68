"""Making, changing and dropping stream tables: every step one commit, all of it or nothing.

Each is staged in a transaction whose base is no older than the record that it goes from; who commits
it (``committed``) does so again, from the start, after each conflict.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from spark_trickle.compile import CompiledQuery, functions_called, render
from spark_trickle.delta.segment import RESULT, Part
from spark_trickle.delta.support import FullOnly
from spark_trickle.errors import (
    AlreadyExistsError,
    DependencyError,
    NotFoundError,
    SourceChangedError,
    UserError,
)
from spark_trickle.maintain.define.catching_up import Made
from spark_trickle.maintain.define.compiling import tables_read
from spark_trickle.maintain.define.definition import Definition, check
from spark_trickle.maintain.define.holding import (
    nobody_else,
    same_shape,
    sources_remain,
    unread,
)
from spark_trickle.maintain.define.layout import (
    create_alone,
    create_parts,
    names_after,
    segments_of,
)
from spark_trickle.maintain.records import graph, own, view_uses
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.bound import Binding
from spark_trickle.maintain.records.history import RefreshReport, add_history
from spark_trickle.maintain.records.streams import ACTIVE, Dependency, StreamTable
from spark_trickle.maintain.refresh.by_text import text_frame
from spark_trickle.maintain.refresh.filling import RefreshJob, fill
from spark_trickle.maintain.refresh.job import Choice, Phases, Pinned, first_report
from spark_trickle.maintain.refresh.refresher import Refresher
from spark_trickle.maintain.timed.asking import by_spark
from spark_trickle.maintain.timed.clocks import clocks
from spark_trickle.sources.lake_table import LakeTable
from spark_trickle.storage.commits import retrying
from spark_trickle.storage.records import HIDDEN_SCHEMA, Table, TableName
from spark_trickle.storage.versions.transaction import Connection, Record, Transaction

if TYPE_CHECKING:
    from spark_trickle.spark.run import Run


@dataclass
class Definer:
    """Creates and removes stream tables of one lake."""

    refresher: Refresher

    def committed(self, work: Callable[[Transaction], Made | None]) -> RefreshReport | None:
        """Do the work in a transaction and commit it, again after each conflict; at last, if it is
        quick, while other writers wait. The report of the fill, if there was one."""
        catalog = self.refresher.engine.catalog
        made = retrying.committed(catalog.begin, work, catalog.settings, self._commit)
        if made is None:
            return None
        made.warn()
        return made.report

    def _commit(self, tx: Transaction, made: Made | None) -> None:
        if made is None:
            tx.commit()
        else:
            made.commit(self.refresher, tx)

    def create(self, wanted: Definition, known: list[StreamTable], tx: Transaction) -> Made:
        """Make the tables, fill them unless told not to, and remember the definition."""
        return self._define(tx, wanted, known, None, Choice("FULL", "INITIALIZE", "it is new"))

    def redefine(
        self,
        stream: StreamTable,
        wanted: Definition,
        known: list[StreamTable],
        choice: Choice,
        tx: Transaction,
    ) -> Made:
        """Give a stream table another query, bound now; dependents see the net difference.

        ``stream`` is the record as it was read, its generation one more.
        """
        return self._define(tx, wanted, known, stream, choice)

    def rebuild(
        self,
        stream: StreamTable,
        wanted: Definition,
        known: list[StreamTable],
        choice: Choice,
        tx: Transaction,
    ) -> Made:
        """As ``redefine``, but the query goes on to mean what it did, if its sources still allow."""
        try:
            bound = self.refresher.pinned(stream, self.refresher.engine.catalog.at(tx.base))
        except SourceChangedError:
            bound = None
        return self._define(tx, wanted, known, stream, choice, bound)

    def means_the_same(self, stream: StreamTable) -> bool:
        """Whether the query, bound now, would read the same columns under the same names, and the
        session, if there is one, means the same by it."""
        engine = self.refresher.engine
        called = functions_called(stream.query, stream.dialect)
        if engine.holder.started and stream.meaning not in (None, engine.meaning(called)):
            return False
        catalog = engine.catalog
        tables = tables_read(catalog, stream.query, stream.dialect, catalog.version())
        now = {(name, table.uuid, Binding.of(table)) for name, table in tables.items()}
        return now == {(source.name, source.uuid, source.bound) for source in stream.sources}

    def _define(
        self,
        tx: Transaction,
        wanted: Definition,
        known: list[StreamTable],
        there: StreamTable | None,
        choice: Choice,
        bound: dict[str, Pinned] | None = None,
    ) -> Made:
        phases, began = Phases(), time.monotonic()
        run = self.refresher.run(tx, wanted.query, wanted.dialect, wanted.meaning)
        phases.end("start")
        try:
            pinned = self._sources(wanted, tx, there) if bound is None else bound
            compiled = self.compile(replace(wanted, meaning=run.meaning), pinned)
            uuids = {source.table.uuid for source in pinned.values()}
            if there is not None:
                graph.refuse_cycle(known, there.uuid, there.name, uuids)
            stream = self._make(wanted, compiled, pinned, tx, run, there, known)
            report = None
            if wanted.initialize:
                moved = clocks(compiled.timed, None, stream.clock or 0, partial(by_spark, run))
                report = first_report(stream, stream.refresh_mode, pinned, phases)
                job = RefreshJob(stream, compiled, choice, pinned, phases, report, moved)
                filled = fill(self.refresher.engine, job, tx, run)
                stream, report = filled.moved, filled.report
            elif there is not None:
                tx.truncate(TableName.of(stream.name))
        finally:
            run.close()
        made = Made(stream, compiled, pinned, there, report, time.monotonic() - began)
        made.hold(tx)
        self._remember(made, tx, phases, wanted.views)
        return made

    def compile(self, wanted: Definition, pinned: Mapping[str, Pinned]) -> CompiledQuery:
        """Compile, and refuse what the asked mode cannot do."""
        tables = [source.table for source in pinned.values()]
        compiled = self.refresher.compiler.compile(
            wanted.query, wanted.dialect, tables, wanted.meaning
        )
        check(wanted, compiled)
        return compiled

    def drop(self, tx: Transaction, streams: list[StreamTable]) -> None:
        """Stage the removal of stream tables and their private state."""
        for stream in streams:
            tx.drop_table(TableName.of(stream.name))
            for segment in stream.segments:
                tx.drop_table(TableName.of(segment.name))

        def record(connection: Connection, _: int) -> None:
            for stream in streams:
                records.forget(connection, stream.uuid)
                own.gone(connection, stream.uuid)
            for stream in streams:
                unread(connection, stream)

        tx.record(record)

    def empty(self, stream: StreamTable, tx: Transaction) -> None:
        """No rows and no state; ``stream`` is the record to be kept, its generation one more."""
        for name in stream.tables:
            tx.truncate(name)

        def record(connection: Connection, version: int) -> None:
            nobody_else(connection, stream)
            records.save(connection, stream)
            own.wrote(connection, [stream.uuid], version)

        _records(tx, record, f"empty {stream.name}")

    def rename(self, stream: StreamTable, to: TableName, tx: Transaction) -> None:
        """Those that read it go on under the name that their queries have for it."""
        table = tx.rename_table(TableName.of(stream.name), to)
        renamed = replace(stream, name=str(table), generation=stream.generation + 1)

        def record(connection: Connection, _: int) -> None:
            nobody_else(connection, renamed)
            records.save(connection, renamed)

        _records(tx, record, f"rename {stream.name}")

    def _sources(
        self, wanted: Definition, tx: Transaction, there: StreamTable | None
    ) -> dict[str, Pinned]:
        """What the query names, as it is now."""
        if there is None and _exists(tx, wanted.name):
            raise AlreadyExistsError(
                f"there is already a table {wanted.name}",
                hint="choose another name for the stream table",
            )
        catalog = self.refresher.engine.catalog
        tables = tables_read(catalog, wanted.query, wanted.dialect, tx.base)
        for table in tables.values():
            if table.schema == HIDDEN_SCHEMA:
                raise UserError(f"{table} is private state of a stream table and cannot be read")
        now = catalog.at(tx.base)
        return {
            name: Pinned(LakeTable(catalog, table.uuid), table, now, now, None, name)
            for name, table in tables.items()
        }

    def _make(
        self,
        wanted: Definition,
        compiled: CompiledQuery,
        pinned: Mapping[str, Pinned],
        tx: Transaction,
        run: Run,
        there: StreamTable | None,
        known: list[StreamTable],
    ) -> StreamTable:
        """The tables of all parts; the result keeps its table where its columns stay the same."""
        engine = self.refresher.engine
        shape = run.shape(text_frame(engine, run, wanted.query, wanted.dialect, pinned))
        made: dict[str, Table] = {}
        timed = {each.name: pinned[each.source] for each in compiled.timed}
        if there is not None:
            _clear(tx, there, shape, known, made)

        def types(part: Part) -> list[tuple[str, str]]:
            names = names_after(run, tx, made, {**pinned, **timed})
            found = run.analyze(render(compiled.full_query(part, names)))
            if part.name == RESULT:
                same_shape(shape, found)
            return found

        if isinstance(compiled.verdict, FullOnly) or (wanted.by_text and not compiled.timed):
            if RESULT not in made:
                made[RESULT] = create_alone(tx, wanted.name, compiled, shape, wanted.cluster_by)
        else:
            create_parts(tx, wanted.name, compiled, types, made, wanted.cluster_by)
        clock = self.refresher.now() if compiled.clocked else None
        stream = _record(wanted, made, _read(pinned, tx.base), there)
        return replace(stream, meaning=run.meaning, clock=clock)

    def _remember(
        self, made: Made, tx: Transaction, phases: Phases, views: tuple[str, ...] | None
    ) -> None:
        there = made.there

        def record(connection: Connection, version: int) -> None:
            stream = made.stream
            sources_remain(connection, stream, made.compiled)
            used = views
            if used is None and there is not None:
                used = tuple(view_uses.of_stream(connection, there.uuid))
            view_uses.save(connection, stream.uuid, used or ())
            if there is not None:
                nobody_else(connection, there)
                records.succeed(connection, there.uuid, stream.uuid)
                own.gone(connection, there.uuid)
            records.save(connection, stream)
            own.wrote(connection, [stream.uuid], version)
            if made.report is not None:
                made.report = replace(
                    made.report, version=version, seconds=phases.total, phases=dict(phases.seconds)
                )
                keep = self.refresher.engine.settings.history_rows
                add_history(connection, stream.uuid, made.report, keep)

        _records(tx, record, f"create stream table {made.stream.name}")


def _records(tx: Transaction, record: Record, message: str) -> None:
    tx.record(record)
    tx.said = replace(tx.said, message=message)


def _exists(tx: Transaction, name: TableName) -> bool:
    try:
        tx.table(name)
    except NotFoundError:
        return False
    return True


def _clear(
    tx: Transaction,
    there: StreamTable,
    shape: list[tuple[str, str]],
    known: list[StreamTable],
    made: dict[str, Table],
) -> None:
    """Drop the private state, and the result too unless its columns stay as they are."""
    for segment in there.segments:
        tx.drop_table(TableName.of(segment.name))
    table = tx.table(TableName.of(there.name))
    if [(column.name, column.type) for column in table.columns] == shape:
        made[RESULT] = table
        return
    used_by = graph.dependents(known, there.uuid)
    if used_by:
        names = ", ".join(other.name for other in used_by)
        raise DependencyError(
            f"the columns of {there.name} would change, and {names} depend on them",
            hint="drop those first, or keep the names and types of the columns",
        )
    tx.drop_table(table)


def _read(pinned: Mapping[str, Pinned], version: int) -> tuple[Dependency, ...]:
    return tuple(
        Dependency(source.table.uuid, name, version, Binding.of(source.table))
        for name, source in sorted(pinned.items())
    )


def _record(
    wanted: Definition,
    made: Mapping[str, Table],
    sources: tuple[Dependency, ...],
    there: StreamTable | None,
) -> StreamTable:
    """A stream table that is new, or defined anew."""
    return StreamTable(
        made[RESULT].uuid,
        str(wanted.name),
        wanted.query,
        wanted.dialect,
        wanted.schedule,
        wanted.refresh_mode,
        status=there.status if there is not None else ACTIVE,
        segments=segments_of(made),
        generation=there.generation if there is not None else 0,
        sources=sources,
        fast_path=wanted.fast_path,
    )
