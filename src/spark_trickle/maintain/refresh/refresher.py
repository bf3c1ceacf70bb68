"""One refresh: pin versions, choose a mode, compute, and commit contents, state, frontier and history.

Invariant: after the commit, contents = result of the query at the versions in the frontier. The
report says what was really done. Whatever fails leaves contents and frontier as they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from spark_trickle.compile import CompiledQuery, functions_called
from spark_trickle.delta.segment import RESULT
from spark_trickle.delta.support import FullOnly
from spark_trickle.errors import (
    BindError,
    CommitConflictError,
    CommitUnknownError,
    InvariantError,
    NotFoundError,
    SourceChangedError,
    TrickleError,
    UnsupportedQueryError,
)
from spark_trickle.execute.engine import Engine
from spark_trickle.ir.types import Version
from spark_trickle.lower.query import TableNames
from spark_trickle.maintain.apply.delta import Applied, Stored, apply_delta
from spark_trickle.maintain.define.compiling import Compiler
from spark_trickle.maintain.define.layout import stored_parts
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.streams import RefreshReport, StreamTable
from spark_trickle.maintain.refresh.by_text import text_frame
from spark_trickle.maintain.refresh.compute import FEW, Computation
from spark_trickle.maintain.refresh.outcome import (
    Filled,
    Phases,
    bugs_told,
    first_report,
    followed_report,
    may_differ,
    moved_record,
    same_columns,
    save_refresh,
)
from spark_trickle.maintain.refresh.pinned import Pinned, pinned_source, source_size
from spark_trickle.maintain.refresh.reserve import reserve_of
from spark_trickle.maintain.refresh.strategy import Choice, choose
from spark_trickle.spark.facts import Meaning
from spark_trickle.storage.faults import reach
from spark_trickle.storage.records import Table
from spark_trickle.storage.versions.state import State
from spark_trickle.storage.versions.transaction import Connection, Transaction

if TYPE_CHECKING:
    from spark_trickle.spark.run import Run

ATTEMPTS = 5
NOTHING = Choice("NO_DATA", "NO_CHANGES", "no source changed")


@dataclass
class Refresher:
    """Refreshes stream tables of one lake."""

    engine: Engine

    def __post_init__(self) -> None:
        self.compiler = Compiler(self.engine.name_hint, lambda: self.engine.holder.ansi)

    def refresh(
        self,
        stream: StreamTable,
        *,
        asked: str | None = None,
        after: Mapping[str, int] | None = None,
    ) -> RefreshReport:
        """Bring one stream table up to the versions ``after`` of its sources (default: newest)."""
        if stream.refresh_mode == "IMMEDIATE":
            if after is not None:  # of a wave: every commit has brought it up to date
                return followed_report(stream, max(after.values(), default=0))
            asked = "FULL"
        for attempt in range(ATTEMPTS):
            try:
                return self._attempt(stream, asked or stream.refresh_mode, after or {})
            except CommitConflictError:
                if attempt == ATTEMPTS - 1:
                    raise
                stream = self.reload(stream)
            except CommitUnknownError:
                raise  # it may have succeeded: no failure to note
            except TrickleError as error:
                self.note_failure(stream, asked or stream.refresh_mode, error)
                raise
        raise AssertionError("unreachable")

    def reload(self, stream: StreamTable) -> StreamTable:
        with self.engine.catalog.reading() as connection:
            found = records.load_one(connection, stream.uuid)
        if found is None:
            raise NotFoundError(
                f"stream table {stream.name} was dropped or replaced meanwhile",
                hint="look it up again with SHOW STREAM TABLES",
            )
        return found

    def _must_be_current(self, stream: StreamTable) -> None:
        """The record was read before the transaction began, and is the same now: so it was then.

        With an older frontier, changes that the contents have already would be applied again.
        """
        if replace(self.reload(stream), last_error=stream.last_error) != stream:
            raise CommitConflictError(
                f"stream table {stream.name} was refreshed or changed by somebody else meanwhile",
                hint="refresh it again",
            )

    def _attempt(self, stream: StreamTable, asked: str, after: Mapping[str, int]) -> RefreshReport:
        phases = Phases()
        tx = self.engine.catalog.begin()
        try:
            self._must_be_current(stream)
            compiled = self.compile(stream)
            phases.end("compile")
            pinned = self._pin(stream, compiled, asked, tx.base, after)
            if stream.refresh_mode == "IMMEDIATE":
                for source in pinned.values():
                    tx.read(source.table)
            phases.end("pin")
            report = replace(first_report(stream, asked, pinned, phases), version=tx.base)
            reach("refresh-pinned")
            if self._idle(stream, asked, compiled.volatile, pinned):
                tx.rollback()
                report = replace(report, effective_mode=NOTHING.mode, reason=NOTHING.reason)
                return self._settle(stream, moved_record(stream, pinned), report, phases)
            return self._compute(stream, asked, compiled, tx, pinned, report, phases)
        except BaseException:
            tx.rollback()
            raise

    def expected(self, stream: StreamTable) -> Choice:
        """What a refresh would do now, and why; reads metadata only."""
        version = self.engine.catalog.version()
        compiled = self.compile(stream)
        pinned = self._pin(stream, compiled, stream.refresh_mode, version, {})
        report = first_report(stream, stream.refresh_mode, pinned, Phases())
        if self._idle(stream, stream.refresh_mode, compiled.volatile, pinned):
            return NOTHING
        return self._choose(stream, stream.refresh_mode, compiled, pinned, report)

    def _idle(
        self, stream: StreamTable, asked: str, volatile: bool, pinned: Mapping[str, Pinned]
    ) -> bool:
        """Whether nothing can have changed: neither a source nor what the clock says."""
        moved = volatile or any(map(may_differ, pinned.values()))
        return stream.populated and asked != "FULL" and not moved

    def pinned(self, stream: StreamTable, state: State | None = None) -> dict[str, Pinned]:
        """Every source in one state, or else at the version that the contents reflect."""
        catalog, compiled = self.engine.catalog, self.compile(stream)
        return {
            s.name: pinned_source(stream, compiled, s, state or catalog.at(s.version))
            for s in stream.sources
        }

    def _pin(
        self,
        stream: StreamTable,
        compiled: CompiledQuery,
        asked: str,
        base: int,
        after: Mapping[str, int],
    ) -> dict[str, Pinned]:
        """Every source at the version of the frontier and at the one to move to."""
        catalog = self.engine.catalog
        pinned = {}
        for source in stream.sources:
            target = max(after.get(source.name, base), source.version)
            found = pinned_source(stream, compiled, source, catalog.at(target))
            changes = None
            try:
                changes = catalog.changes(found.table, source.version, target)
            except SourceChangedError as error:
                if asked == "DIFFERENTIAL" and stream.populated:
                    raise SourceChangedError(
                        f"stream table {stream.name} cannot be refreshed by deltas: {error.message}",
                        hint=f"run repair_stream_table({stream.name!r})",
                    ) from None
            pinned[source.name] = replace(found, before=catalog.at(source.version), changes=changes)
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

    def _compute(
        self,
        stream: StreamTable,
        asked: str,
        compiled: CompiledQuery,
        tx: Transaction,
        pinned: Mapping[str, Pinned],
        report: RefreshReport,
        phases: Phases,
    ) -> RefreshReport:
        choice = self._choose(stream, asked, compiled, pinned, report)
        phases.end("choose")
        with self.running(stream, tx) as run:
            phases.end("start")
            filled = self.fill(stream, compiled, choice, tx, run, pinned, phases, report)
            if filled.changed or not stream.populated:
                return self._commit(stream, filled.stream, tx, filled.report, phases)
            tx.rollback()
            return self._settle(stream, filled.stream, filled.report, phases)

    def running(self, stream: StreamTable, tx: Transaction) -> AbstractContextManager[Run]:
        """Spark at work for one transaction, under what the stream table's query means."""
        return closing(self.run(tx, stream.query, stream.dialect, stream.meaning))

    def run(self, tx: Transaction, query: str, dialect: str, meaning: Meaning | None) -> Run:
        """A run under the stored meaning; the session's, where none was stored."""
        called = functions_called(query, dialect)
        return self.engine.run(tx, meaning or self.engine.meaning(called), called)

    def fill(
        self,
        stream: StreamTable,
        compiled: CompiledQuery,
        choice: Choice,
        tx: Transaction,
        run: Run,
        pinned: Mapping[str, Pinned],
        phases: Phases,
        report: RefreshReport | None = None,
    ) -> Filled:
        """Compute and stage in the way that was chosen."""
        report = report or first_report(stream, stream.refresh_mode, pinned, phases)
        stored = stored_parts(tx, stream, compiled)
        whole = any(segment.whole for segment in stream.segments)
        reason = choice.reason
        source_rows, source_bytes = source_size(pinned)
        if choice.mode == "FULL":
            run.reads(source_bytes)
        if isinstance(compiled.verdict, FullOnly):
            with bugs_told(stream, compiled):
                applied = {RESULT: self._rerun(stream, tx, run, pinned, stored[RESULT])}
        else:
            work = Computation(
                self.engine.catalog, tx, run, compiled, pinned, stored, reserve_of(compiled), whole
            )
            by_delta = choice.mode != "FULL"
            with bugs_told(stream, compiled):
                work.differential() if by_delta else work.full()
            applied, whole = work.applied, work.whole
            reason = work.refilled or reason
        phases.end("compute")
        reach("refresh-computed")
        result = applied.get(RESULT, Applied())
        report = replace(
            report,
            effective_mode=choice.mode,
            reason=reason,
            rows_inserted=result.inserted,
            rows_deleted=result.deleted,
            rows_read=run.rows_read,
            bytes_read=run.bytes_read,
            spark_queries=run.spark_queries,
            engine="spark" if run.spark_queries else "local",
            source_rows=source_rows,
        )
        changed = any(part != Applied() for part in applied.values())
        moved = replace(moved_record(stream, pinned, whole=whole), meaning=run.meaning)
        return Filled(moved, report, changed)

    def names_after(
        self,
        run: Run,
        tx: Transaction,
        tables: Mapping[str, Table],
        pinned: Mapping[str, Pinned],
    ) -> TableNames:
        """Views of the sources and of the parts made so far."""

        def name(source: str, _: Version) -> exp.Table:
            if source in tables:
                view = run.scan(tx.scan(tables[source]))
            else:
                view = run.scan(pinned[source].after.scan(pinned[source].table))
            return exp.Table(this=exp.Identifier(this=view, quoted=True))

        return name

    def _choose(
        self,
        stream: StreamTable,
        asked: str,
        compiled: CompiledQuery,
        pinned: Mapping[str, Pinned],
        report: RefreshReport,
    ) -> Choice:
        judged = compiled.verdict
        if not stream.populated:
            return Choice("FULL", "INITIALIZE", "the stream table has no contents yet")
        if asked == "FULL":
            return Choice("FULL", "ASKED", "FULL was asked for")
        if isinstance(judged, FullOnly):
            if asked == "DIFFERENTIAL":
                raise UnsupportedQueryError(
                    judged.message, code=judged.code, position=judged.position, hint=judged.hint
                )
            return Choice("FULL", judged.code, judged.message)
        if any(source.changes is None for source in pinned.values()):
            return Choice("FULL", "HISTORY_EXPIRED", "the changes of a source are gone")
        mode = "TOPK" if compiled.topk is not None else "DIFFERENTIAL"
        if asked == "DIFFERENTIAL":
            return Choice(mode, "ASKED", "DIFFERENTIAL was asked for")
        with self.engine.catalog.reading() as connection:
            history = records.measured(connection, stream.uuid)
        choice = choose(history, sum(report.delta_rows.values()), source_size(pinned)[0])
        return replace(choice, mode=mode) if choice.mode == "DIFFERENTIAL" else choice

    def _rerun(
        self,
        stream: StreamTable,
        tx: Transaction,
        run: Run,
        pinned: Mapping[str, Pinned],
        stored: Stored,
    ) -> Applied:
        """A query that has no plan: its own text again, and the difference to what is stored."""
        frame = text_frame(self.engine, run, stream.query, stream.dialect, pinned)
        same_columns(stream, stored.table, [name for name, _ in run.shape(frame)])
        spilled = run.spill_difference(frame, tx.scan(stored.table))
        return apply_delta(run, tx, stored, run.small(spilled, FEW))

    def _commit(
        self,
        stream: StreamTable,
        moved: StreamTable,
        tx: Transaction,
        report: RefreshReport,
        phases: Phases,
    ) -> RefreshReport:
        final = report

        def record(connection: Connection, version: int) -> None:
            nonlocal final
            phases.end("stage")
            final = replace(
                report, version=version, seconds=phases.total, phases=dict(phases.seconds)
            )
            save_refresh(connection, stream, moved, final, self.engine.settings.history_rows)
            reach("refresh-recorded")

        tx.record(record)
        reach("refresh-before-commit")
        tx.commit(f"refresh {stream.name}")
        reach("refresh-committed")
        return final

    def _settle(
        self, stream: StreamTable, moved: StreamTable, report: RefreshReport, phases: Phases
    ) -> RefreshReport:
        """Move the frontier where no row changed: no new version of the lake."""
        with self.engine.catalog.writing() as connection:
            final = replace(report, seconds=phases.total, phases=dict(phases.seconds))
            save_refresh(connection, stream, moved, final, self.engine.settings.history_rows)
        return final

    def note_failure(self, stream: StreamTable, asked: str, error: TrickleError) -> None:
        """Remember the error; a breach of an invariant takes the table out of service."""
        broken = isinstance(error, InvariantError)
        with self.engine.catalog.writing() as connection:
            known = records.load_one(connection, stream.uuid)
            if known is None:
                return
            changed = replace(known, last_error=error.message)
            if broken:
                changed = replace(changed, status=records.ERROR, populated=False)
            records.save(connection, changed)
            report = RefreshReport(
                stream.name,
                "ERROR",
                f"{type(error).__name__}: {error.message}",
                asked,
                error=str(error),
            )
            keep = self.engine.settings.history_rows
            records.add_history(connection, stream.uuid, report, keep)
