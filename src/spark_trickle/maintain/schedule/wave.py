"""A wave: stream tables brought to one version of the base tables, each as soon as it can be.

Law: whoever reads sees all tables of a group before the wave or all of them after it. A group is
what belongs together (``graph.together``); its refreshes are staged in one transaction, over what
is staged there for the tables they read, and are committed as one version. A refresh that fails
takes those that read it out of the commit, and no others. Where the commit itself is refused, as by
an IMMEDIATE table that cannot follow, or loses to others each time, each is committed alone: one in the
way stops nobody else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from spark_trickle.errors import (
    CommitConflictError,
    CommitUnknownError,
    NotFoundError,
    TrickleError,
)
from spark_trickle.maintain.immediate.followers import Followers
from spark_trickle.maintain.records import graph
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.refresh.job import (
    StagedRefresh,
    failed,
    followed_report,
    out_of_service,
)
from spark_trickle.maintain.refresh.refresher import AT_LAST, ATTEMPTS
from spark_trickle.maintain.schedule import skips
from spark_trickle.maintain.watch import tracing
from spark_trickle.storage.versions.transaction import Transaction


@dataclass(frozen=True)
class Told:
    """All that there is to be said of a stream table in this wave."""

    stream: StreamTable
    report: RefreshReport


@dataclass(frozen=True)
class Failed:
    """A refresh that came to nothing."""

    stream: StreamTable
    error: Exception
    refresh_id: str = ""

    @property
    def report(self) -> RefreshReport:
        return failed(self.stream, self.stream.refresh_mode, self.error)


StepResult = StagedRefresh | Failed | Told


@dataclass(frozen=True)
class Spent:
    """When the work on a group began, and how long it took: no member is seen any sooner."""

    began: float
    seconds: float


class Conductor(Protocol):
    """On whose behalf a wave runs."""

    def barred(self, stream: StreamTable) -> str | None:
        """Why this one may not be refreshed, if so."""

    def stopped(self, group: Sequence[StreamTable]) -> str | None:
        """Why the group is not to be begun, if so."""

    def settle(self, told: Sequence[Told], spent: Spent) -> None:
        """These are over."""


@dataclass
class Wave:
    """One run over some stream tables."""

    tables: Sequence[StreamTable]
    target: int
    """The version of the base tables."""
    followers: Followers
    conductor: Conductor
    reports: dict[str, RefreshReport] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._refresher = self.followers.refresher
        self._engine = self._refresher.engine
        self._clock = self._refresher.now()  # one for all temporal filters of the wave

    def run(self, pool: Executor) -> list[RefreshReport]:
        """The reports, in the order of the dependencies."""
        ordered = [table for level in graph.levels(self.tables) for table in level]
        groups = graph.together(self._busy(ordered))
        if len(groups) == 1:
            self._ride(groups[0], self.target, pool)
        elif groups:
            most = self._engine.settings.parallel_refreshes
            with ThreadPoolExecutor(min(len(groups), most), "trickle-group") as riders:
                try:
                    list(riders.map(lambda group: self._ride(group, self.target, pool), groups))
                except BaseException:  # Ctrl-C: what is not committed yet is given up
                    self._over.set()
                    raise
        return [self.reports[table.uuid] for table in ordered]

    # What has nothing to do

    def _busy(self, ordered: Sequence[StreamTable]) -> list[StreamTable]:
        """Those that may have something to do; all others are over, in one step."""
        idle: dict[str, StagedRefresh] = {}
        quiet: set[str] = set()
        inside = {table.uuid for table in ordered}
        broken = self._refresher.breaches(ordered, self._engine.catalog.at(self.target))
        for stream in ordered:
            if (
                stream.uuid in broken
                or not {source.uuid for source in stream.sources} & inside <= quiet
            ):
                continue
            with tracing.refreshing(stream.name):
                found = None if stream.follows else self._idle(stream)
            if found is not None:
                idle[stream.uuid] = found
            if found is not None or stream.follows:
                quiet.add(stream.uuid)
        if idle and not self._moved(list(idle.values())):
            return list(ordered)
        return [stream for stream in ordered if stream.uuid not in idle]

    def _idle(self, stream: StreamTable) -> StagedRefresh | None:
        if stream.status != records.ACTIVE or self.conductor.barred(stream) is not None:
            return None
        try:
            return self._refresher.idle(stream, self.target, self._clock)
        except Exception:  # it comes again, and is told, when the table is refreshed
            return None

    def _moved(self, idle: Sequence[StagedRefresh]) -> bool:
        """Move the frontiers; False if somebody else moved one, and all are to be looked at."""
        began, tx = time.time(), self._engine.catalog.begin()
        try:
            self._settle(self._committed(tx, idle), began)
        except CommitConflictError:
            return False
        finally:
            tx.rollback()
        return True

    # A group

    def _ride(self, group: Sequence[StreamTable], target: int, pool: Executor) -> None:
        began = time.time()
        stopped = self._interrupted() or self.conductor.stopped(group)
        if stopped is not None:
            self._settle([Told(stream, skips.skipped(stream, stopped)) for stream in group], began)
            return
        for left in reversed(range(ATTEMPTS)):
            try:
                outcomes = self._attempt(group, target, pool, newest=left <= AT_LAST)
            except (TrickleError, OSError, MemoryError) as error:
                if left and isinstance(error, CommitConflictError):
                    # What somebody else refreshed meanwhile reflects more than the old target.
                    group, target = self._reloaded(group, began), self._engine.catalog.version()
                    continue
                if len(group) > 1 and not isinstance(error, CommitUnknownError):
                    for stream in group:  # after those that it reads
                        self._ride([stream], self._engine.catalog.version(), pool)
                    return
                outcomes = [Failed(stream, error) for stream in group]
            self._settle(outcomes, began)
            return

    def _reloaded(self, group: Sequence[StreamTable], began: float) -> list[StreamTable]:
        """As they are now; one that is gone is over."""
        with self._engine.catalog.reading() as connection:
            now = {stream.uuid: stream for stream in records.load(connection)}
        lost = [stream for stream in group if stream.uuid not in now]
        gone = [Failed(s, NotFoundError(f"stream table {s.name} was dropped")) for s in lost]
        self._settle(gone, began)
        return [now[stream.uuid] for stream in group if stream.uuid in now]

    def _attempt(
        self, group: Sequence[StreamTable], target: int, pool: Executor, *, newest: bool
    ) -> list[StepResult]:
        outcomes: dict[str, StepResult] = {}
        checked = [stream for stream in group if not stream.follows]  # those move by themselves
        with self._refresher.together(checked) as tx:
            work = partial(self._outcome, tx, target, outcomes)
            self._by_readiness(group, pool, work)
            interrupted = self._interrupted()
            if interrupted is not None:
                return [Told(stream, skips.skipped(stream, interrupted)) for stream in group]
            staged = [each for each in outcomes.values() if isinstance(each, StagedRefresh)]
            followers = {s.uuid for s in group if s.follows and tx.staged_in(s.uuid)}
            done = self._committed(tx, staged, followers, newest=newest) if staged else []
            refused = next((each.error for each in done if isinstance(each, Failed)), None)
            if refused is not None and len(group) > 1:
                raise refused
        outcomes |= {each.stream.uuid: each for each in done}
        return list(outcomes.values())

    def _by_readiness(
        self,
        group: Sequence[StreamTable],
        pool: Executor,
        work: Callable[[StreamTable], None],
    ) -> None:
        """Each as soon as all that it reads within the group is done."""
        inside = {table.uuid for table in group}
        waiting = {t.uuid: {s.uuid for s in t.sources} & inside for t in group}
        running: dict[Future[None], str] = {}
        # Siblings that read the same changes one after the other: what was read is at hand.
        queue = sorted(group, key=lambda t: sorted(s.uuid for s in t.sources))
        try:
            while queue or running:
                ready = [t for t in queue if not waiting[t.uuid]]
                queue = [t for t in queue if waiting[t.uuid]]
                running |= {pool.submit(work, table): table.uuid for table in ready}
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    uuid = running.pop(future)
                    future.result()
                    for upstream in waiting.values():
                        upstream.discard(uuid)
        finally:  # after an error: they write into the transaction that is about to be given up
            for future in running:
                future.cancel()
            wait(running)

    def _outcome(
        self, tx: Transaction, target: int, outcomes: dict[str, StepResult], stream: StreamTable
    ) -> None:
        with tracing.refreshing(stream.name):
            try:
                outcomes[stream.uuid] = self._one(stream, tx, target, outcomes)
            except CommitConflictError:
                raise
            except Exception as error:
                tracing.failed(error)
                for name in stream.tables:
                    with suppress(NotFoundError):
                        tx.forget(tx.table(name))
                outcomes[stream.uuid] = Failed(stream, error, tracing.refresh_id())

    def _one(
        self, stream: StreamTable, tx: Transaction, target: int, outcomes: Mapping[str, StepResult]
    ) -> StepResult:
        why_not = self._interrupted() or self.conductor.barred(stream)
        if why_not is None and stream.follows:
            return self._followed(stream, tx)
        if why_not is None:
            why_not = self._held_up(stream, outcomes)
        if why_not is not None:
            return Told(stream, skips.skipped(stream, why_not))
        if stream.status == records.ERROR:
            raise out_of_service(stream)
        staged = self._refresher.stage(stream, stream.refresh_mode, tx, self._clock, target)
        tracing.spanned(staged.report)
        return staged

    def _held_up(self, stream: StreamTable, outcomes: Mapping[str, StepResult]) -> str | None:
        done = {**self.reports, **{uuid: each.report for uuid, each in outcomes.items()}}
        held = skips.held_up([done[s.uuid] for s in stream.sources if s.uuid in done])
        if held is None and stream.status == records.SUSPENDED:
            return f"{skips.SUSPENDED}: the stream table is suspended"
        return held

    def _followed(self, stream: StreamTable, tx: Transaction) -> StepResult:
        """One that every commit keeps up to date, this one too; those that read it see it so."""
        if tx.writes:
            with self._engine.catalog.reading() as connection:
                following = records.load_some(connection, lambda each: each.follows)
            self.followers.bring_up(tx, following, stream.uuid)
        return Told(stream, followed_report(stream, self.target))

    def _interrupted(self) -> str | None:
        return f"{skips.BUSY}: it was interrupted" if self._over.is_set() else None

    # What becomes of it

    def _committed(
        self,
        tx: Transaction,
        staged: Sequence[StagedRefresh],
        followers: Iterable[str] = (),
        *,
        newest: bool = False,
    ) -> list[StepResult]:
        try:
            reports = self._refresher.commit(tx, staged, set(followers), newest=newest)
        except CommitConflictError:
            raise
        except Exception as error:
            return [Failed(each.stream, error, each.report.refresh_id) for each in staged]
        return [Told(each.stream, report) for each, report in zip(staged, reports, strict=True)]

    def _settle(self, outcomes: Iterable[StepResult], began: float) -> None:
        told = [Told(each.stream, self._noted(each)) for each in outcomes]
        self.reports |= {each.stream.uuid: each.report for each in told}
        for each in told:
            tracing.told(each.report)
        self.conductor.settle(told, Spent(began, time.time() - began))

    def _noted(self, outcome: StepResult) -> RefreshReport:
        """The report; a failure or a skip is written down."""
        report = outcome.report
        if isinstance(outcome, Failed) and not isinstance(outcome.error, CommitUnknownError):
            with tracing.under(outcome.refresh_id):
                asked = outcome.stream.refresh_mode
                return self._refresher.note_failure(outcome.stream, asked, outcome.error)
        if report.effective_mode == "SKIPPED" and not skips.passing(report.reason):
            skips.note(self._engine, outcome.stream, report)
        return report
