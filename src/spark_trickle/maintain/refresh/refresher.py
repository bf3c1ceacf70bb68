"""One refresh: pin versions, choose a mode, compute, and commit contents, state, frontier and history.

Invariant: after the commit, contents = result of the query at the versions in the frontier. The
report says what was really done. Whatever fails leaves contents and frontier as they were.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from spark_trickle.compile import CompiledQuery, functions_called
from spark_trickle.errors import (
    BindError,
    CommitConflictError,
    CommitUnknownError,
    InvariantError,
    NotFoundError,
    SourceChangedError,
    TrickleError,
)
from spark_trickle.execute.engine import Engine
from spark_trickle.maintain.define.compiling import Compiler
from spark_trickle.maintain.gather.finding import Distinct
from spark_trickle.maintain.records import own
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.history import RefreshReport, add_history
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.refresh.filling import RefreshJob, bounded, fill
from spark_trickle.maintain.refresh.job import (
    NOTHING,
    Choice,
    Phases,
    Pinned,
    StagedRefresh,
    failed,
    first_report,
    may_differ,
    nothing,
    pinned_source,
    ruled,
    save_refreshes,
    unmoved,
    with_clocks,
)
from spark_trickle.maintain.refresh.strategy import CANCELLED, cheapest
from spark_trickle.maintain.timed.asking import clocks_by
from spark_trickle.maintain.timed.clocks import EPOCH, Clocks, clocks
from spark_trickle.maintain.timed.here import NotHere, by_rule
from spark_trickle.sources.lake_table import LakeTable
from spark_trickle.spark.sessions.facts import Meaning
from spark_trickle.storage.commits import retrying
from spark_trickle.storage.faults import reach
from spark_trickle.storage.read.column_cache import Taken
from spark_trickle.storage.versions.state import State
from spark_trickle.storage.versions.transaction import Connection, Transaction

if TYPE_CHECKING:
    from spark_trickle.spark.run import Run

ATTEMPTS, AT_LAST = 5, 1
"""So often a refresh is tried; the last times, what follows it may be computed under the lock."""
_NAMED = 5
"""So many stream tables are named in the message of a commit."""


@dataclass
class Refresher:
    """Refreshes stream tables of one lake."""

    engine: Engine

    def __post_init__(self) -> None:
        self.compiler = Compiler(self.engine.name_hint, lambda: self.engine.holder.ansi)

    def refresh(self, stream: StreamTable, *, asked: str | None = None) -> RefreshReport:
        """Bring one stream table up to the newest version of its sources, and to the clock."""
        clock = self.now()
        follows = stream.refresh_mode == "IMMEDIATE"
        asked = "FULL" if follows else asked or stream.refresh_mode
        try:
            return (self._resynced if follows else self._refreshed)(stream, asked, clock)
        except (CommitConflictError, CommitUnknownError):
            raise  # it may have succeeded, or will: no failure to note
        except TrickleError as error:
            self.note_failure(stream, asked, error)
            raise

    def _refreshed(self, stream: StreamTable, asked: str, clock: int) -> RefreshReport:
        for left in reversed(range(ATTEMPTS)):
            try:
                with self.together([stream]) as tx:
                    staged = self.stage(stream, asked, tx, clock)
                    (report,) = self.commit(tx, [staged], newest=left <= AT_LAST)
                return report
            except CommitConflictError:
                if not left:
                    raise
                stream = self.reload(stream)
        raise AssertionError("unreachable")

    def _resynced(self, stream: StreamTable, asked: str, clock: int) -> RefreshReport:
        """Of one whose sources must not move before it is committed: at last the others wait."""

        def work(tx: Transaction) -> list[RefreshReport]:
            now = self.reload(stream)
            tx.rebase()
            with self.engine.catalog.reading() as connection:
                unmoved(connection, [now])
            return self._recorded(tx, [self.stage(now, asked, tx, clock)])

        catalog = self.engine.catalog
        settings = catalog.settings
        (report,) = retrying.committed(catalog.begin, work, settings, lambda tx, _: tx.commit())
        return report

    def now(self) -> int:
        """What the lake's clock says, in microseconds since 1970."""
        return micros(self.engine.settings.clock())

    def reload(self, stream: StreamTable) -> StreamTable:
        with self.engine.catalog.reading() as connection:
            found = records.load_one(connection, stream.uuid)
        if found is None:
            raise NotFoundError(
                f"stream table {stream.name} was dropped or replaced meanwhile",
                hint="look it up again with SHOW STREAM TABLES",
            )
        return found

    @contextmanager
    def together(self, streams: Sequence[StreamTable]) -> Iterator[Transaction]:
        """A transaction to refresh in; what is not committed at its end is forgotten.

        The records were read before it began, and are the same now: so they were then.
        """
        tx = self.engine.catalog.begin()
        try:
            with self.engine.catalog.reading() as connection:
                unmoved(connection, streams)
            yield tx
        finally:
            tx.rollback()

    def stage(
        self,
        stream: StreamTable,
        asked: str,
        tx: Transaction,
        clock: int,
        target: int | None = None,
    ) -> StagedRefresh:
        """Compute a refresh into a transaction, over what is staged there for its sources.

        ``clock``: what temporal filters go by. ``target``: the version of all other sources; none: the one the transaction began from.
        """
        phases = Phases()
        if asked != "FULL":
            for breach in self.breaches([stream], tx).values():
                raise breach
        compiled = self.compile(stream)
        phases.end("compile")
        pinned = self._pin(stream, compiled, asked, tx.base if target is None else target, tx)
        if stream.refresh_mode == "IMMEDIATE":
            for source in pinned.values():
                tx.read(source.table)
        phases.end("pin")
        report = replace(first_report(stream, asked, pinned, phases), version=tx.base)
        reach("refresh-pinned")
        moved = Clocks()
        if compiled.timed:
            before, running = _clock(stream), partial(self.running, stream, tx)
            moved = clocks_by(compiled.timed, before, clock, stream.meaning, running)
            report = with_clocks(report, pinned, moved)
        if self._idle(stream, asked, compiled.volatile, pinned) and not report.delta_rows:
            return nothing(stream, pinned, moved, report, phases)
        taken = Taken()
        choice = self._choose(stream, asked, compiled, pinned, report, self._counted(taken))
        phases.end("choose")
        with self.running(stream, tx) as run:
            run.note_read(taken.rows, taken.bytes)
            phases.end("start")
            job = RefreshJob(stream, compiled, choice, pinned, phases, report, moved)
            work = partial(_filled, self.engine, job, tx, run)
            filled = bounded(choice, run, work, lambda: _give_up(stream, tx, phases))
        return phases.timed(filled)

    def breaches(self, streams: Sequence[StreamTable], state: State) -> dict[str, InvariantError]:
        """Those of them whose tables somebody else wrote, by uuid."""
        with self.engine.catalog.reading() as connection:
            return own.breaches(
                connection, self.engine.catalog, streams, lambda s: map(state.table, s.tables)
            )

    def idle(self, stream: StreamTable, target: int, clock: int) -> StagedRefresh | None:
        """A refresh that has nothing to do; None if it may have."""
        phases = Phases()
        asked, compiled = stream.refresh_mode, self.compile(stream)
        pinned = self._pin(stream, compiled, asked, target)
        if not self._idle(stream, asked, compiled.volatile, pinned):
            return None
        try:
            moved = clocks(compiled.timed, _clock(stream), clock, by_rule(stream.meaning))
        except NotHere:
            return None
        report = replace(first_report(stream, asked, pinned, phases), version=target)
        report = with_clocks(report, pinned, moved)
        return None if report.delta_rows else nothing(stream, pinned, moved, report, phases)

    def commit(
        self,
        tx: Transaction,
        staged: Sequence[StagedRefresh],
        followers: Collection[str] = (),
        *,
        newest: bool = False,
    ) -> list[RefreshReport]:
        """Commit refreshes together: all of them are seen, or none; no row, no new version.

        ``followers``: what is staged beside them and kept up to date by the commit itself.
        ``newest``: these may be computed anew under the lock, unless a refresh has read one of them,
        or sources must not move.
        """
        reports = self._recorded(tx, staged, followers)
        read = {source.uuid for each in staged for source in each.stream.sources}
        bound = read & {*followers} or any(s.stream.refresh_mode == "IMMEDIATE" for s in staged)
        tx.commit(newest=newest and not bound)
        reach("refresh-committed")
        return reports

    def _recorded(
        self, tx: Transaction, staged: Sequence[StagedRefresh], followers: Collection[str] = ()
    ) -> list[RefreshReport]:
        """Have the transaction write frontiers and history; the reports, once it is committed."""
        reports: list[RefreshReport] = []
        written = {*followers, *(each.stream.uuid for each in staged if each.changed)}
        began = time.perf_counter()

        def record(connection: Connection, version: int) -> None:
            share = (time.perf_counter() - began) / len(staged)
            finals = [each.committed(version, written, share) for each in staged]
            save_refreshes(connection, finals, self.engine.settings.history_rows)
            own.wrote(connection, [s.stream.uuid for s in staged if s.wrote], version)
            if self.engine.catalog.distinct.unsaved:
                self.engine.catalog.distinct.save(connection)
            reports[:] = [report for _, _, report in finals]
            reach("refresh-recorded")

        tx.record(record)
        reach("refresh-before-commit")
        names = [each.stream.name for each in staged if each.changed]
        few = len(names) <= _NAMED
        told = f"refresh {', '.join(names)}" if few else f"refresh {len(names)} stream tables"
        tx.said = replace(tx.said, message=told)
        return reports

    def expected(self, stream: StreamTable) -> Choice:
        """What a refresh would do now, and why; reads metadata only."""
        version = self.engine.catalog.version()
        compiled = self.compile(stream)
        pinned = self._pin(stream, compiled, stream.refresh_mode, version)
        known = self.engine.catalog.distinct.known
        report = first_report(stream, stream.refresh_mode, pinned, Phases())
        try:
            moved = clocks(compiled.timed, _clock(stream), self.now(), by_rule(stream.meaning))
        except NotHere:  # nothing is asked of Spark for this: rows may have crossed
            return self._choose(stream, stream.refresh_mode, compiled, pinned, report, known)
        report = with_clocks(report, pinned, moved)
        idle = self._idle(stream, stream.refresh_mode, compiled.volatile, pinned)
        if idle and not report.delta_rows:
            return NOTHING
        return self._choose(stream, stream.refresh_mode, compiled, pinned, report, known)

    def _idle(
        self, stream: StreamTable, asked: str, volatile: bool, pinned: Mapping[str, Pinned]
    ) -> bool:
        """Whether nothing can have changed, unless rows crossed the edge of a temporal filter."""
        moved = volatile or any(map(may_differ, pinned.values()))
        return stream.populated and asked != "FULL" and not moved

    def pinned(self, stream: StreamTable, state: State | None = None) -> dict[str, Pinned]:
        """Every source in one state, or else at the version that the contents reflect."""
        catalog, compiled = self.engine.catalog, self.compile(stream)
        return {
            s.name: pinned_source(stream, compiled, s, source, state or source.at(s.version))
            for s in stream.sources
            for source in (LakeTable(catalog, s.uuid),)
        }

    def _pin(
        self,
        stream: StreamTable,
        compiled: CompiledQuery,
        asked: str,
        target: int,
        tx: Transaction | None = None,
    ) -> dict[str, Pinned]:
        """Every source at the version of the frontier and in the state to move to: at the target,
        or as the transaction has it."""
        catalog = self.engine.catalog
        pinned = {}
        for read in stream.sources:
            source = LakeTable(catalog, read.uuid)
            before, after = source.at(read.version), source.reached(max(target, read.version), tx)
            found = pinned_source(stream, compiled, read, source, after)
            changes = None
            try:
                changes = source.changes(found.table, before, after)
            except SourceChangedError as error:
                if asked == "DIFFERENTIAL" and stream.populated:
                    raise SourceChangedError(
                        f"stream table {stream.name} cannot be refreshed by deltas: {error.message}",
                        hint=f"run repair_stream_table({stream.name!r})",
                    ) from None
            pinned[read.name] = replace(found, before=before, changes=changes)
        return pinned

    def compile(self, stream: StreamTable) -> CompiledQuery:
        """The query as it was bound; SourceChangedError if a source was gone before it could be."""
        try:
            return self.compiler.stream(stream)
        except BindError as error:
            raise SourceChangedError(
                f"the query of stream table {stream.name} no longer fits its sources: {error.message}",
                hint=f"give it another query with ALTER STREAM TABLE {stream.name} AS SELECT …",
            ) from None

    def running(self, stream: StreamTable, tx: Transaction) -> AbstractContextManager[Run]:
        """Spark at work for one transaction, under what the stream table's query means."""
        return closing(self.run(tx, stream.query, stream.dialect, stream.meaning))

    def run(self, tx: Transaction, query: str, dialect: str, meaning: Meaning | None) -> Run:
        """A run under the stored meaning; the session's, where none was stored."""
        called = functions_called(query, dialect)
        return self.engine.run(tx, meaning or self.engine.meaning(called), called)

    def _choose(
        self,
        stream: StreamTable,
        asked: str,
        compiled: CompiledQuery,
        pinned: Mapping[str, Pinned],
        report: RefreshReport,
        distinct: Distinct,
    ) -> Choice:
        found = ruled(stream, asked, compiled, pinned)
        return found or cheapest(self.engine.catalog, stream, compiled, pinned, report, distinct)

    def _counted(self, taken: Taken) -> Distinct:
        """Counts the values of a column; what it reads for that is added to ``taken``."""
        catalog = self.engine.catalog
        most = catalog.settings.limits.sampled_bytes
        return lambda plan, column: catalog.distinct.count(plan, column, most, taken)

    def note_failure(self, stream: StreamTable, asked: str, error: Exception) -> RefreshReport:
        """Remember the error; a breach of an invariant takes the table out of service that it is of,
        which may be one that follows this one."""
        report = failed(stream, asked, error)
        message = report.reason.partition(": ")[2]
        with self.engine.catalog.writing() as connection:
            broken = error.stream or stream.uuid if isinstance(error, InvariantError) else None
            for uuid in {stream.uuid, broken or stream.uuid}:
                known = records.load_one(connection, uuid)
                if known is None:
                    continue
                changed = replace(known, last_error=message)
                if uuid == broken:
                    changed = replace(changed, status=records.ERROR, populated=False)
                records.save(connection, changed)
                told = replace(report, name=known.name)
                add_history(connection, uuid, told, self.engine.settings.history_rows)
        return report


def micros(moment: datetime) -> int:
    """Microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def _filled(
    engine: Engine, job: RefreshJob, tx: Transaction, run: Run, way: Choice
) -> StagedRefresh:
    return fill(engine, replace(job, choice=way), tx, run)


def _give_up(stream: StreamTable, tx: Transaction, phases: Phases) -> None:
    """Forget what a delta staged that was cancelled."""
    phases.end(CANCELLED)
    for name in stream.tables:
        tx.forget(tx.table(name))


def _clock(stream: StreamTable) -> int | None:
    """The one that the contents reflect."""
    return stream.clock if stream.populated else None
