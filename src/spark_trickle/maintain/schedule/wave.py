"""A wave: stream tables brought to one version of the base tables, each as soon as it can be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Protocol

from spark_trickle.errors import TrickleError
from spark_trickle.execute.engine import Engine
from spark_trickle.maintain.records import graph
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.streams import RefreshReport, StreamTable
from spark_trickle.maintain.schedule.leases import Leases
from spark_trickle.maintain.schedule.select import selected
from spark_trickle.maintain.watch import tracing

SUSPENDED, UPSTREAM_SUSPENDED, UPSTREAM_FAILED = (
    "SUSPENDED",
    "UPSTREAM_SUSPENDED",
    "UPSTREAM_FAILED",
)
BUSY, UPSTREAM_BUSY = "BUSY", "UPSTREAM_BUSY"
"""Codes of the reasons why a stream table was skipped."""
_SUSPENSIONS = (f"{SUSPENDED}:", f"{UPSTREAM_SUSPENDED}:")
_PASSING = (f"{BUSY}:", f"{UPSTREAM_BUSY}:")
_LOOK_AGAIN = 0.1


class Refresh(Protocol):
    """Brings one stream table to the given versions of its sources."""

    def __call__(
        self, stream: StreamTable, *, after: Mapping[str, int] | None = None
    ) -> RefreshReport: ...


@dataclass
class Wave:
    """Runs ``attempt`` for each table once all that it reads within the wave is done."""

    tables: Sequence[StreamTable]
    target: int
    """The version of the base tables."""
    attempt: Callable[[StreamTable, Mapping[str, int], Sequence[RefreshReport]], RefreshReport]
    """Given a table, the versions to read and the reports of what it reads."""
    reports: dict[str, RefreshReport] = field(default_factory=dict)

    def run(self, pool: Executor) -> list[RefreshReport]:
        """The reports, in the order of the dependencies."""
        ordered = [table for level in graph.levels(self.tables) for table in level]
        inside = {table.uuid for table in ordered}
        waiting = {t.uuid: {s.uuid for s in t.sources} & inside for t in ordered}
        running: dict[Future[RefreshReport], str] = {}
        # Siblings that read the same changes one after the other: what was read is at hand.
        queue = sorted(ordered, key=lambda t: sorted(s.uuid for s in t.sources))
        while queue or running:
            ready = [t for t in queue if not waiting[t.uuid]]
            queue = [t for t in queue if waiting[t.uuid]]
            running |= {pool.submit(self._one, table): table.uuid for table in ready}
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                uuid = running.pop(future)
                self.reports[uuid] = future.result()
                for upstream in waiting.values():
                    upstream.discard(uuid)
        return [self.reports[table.uuid] for table in ordered]

    def _one(self, stream: StreamTable) -> RefreshReport:
        with tracing.refreshing(stream.name):
            return self._attempted(stream)

    def _attempted(self, stream: StreamTable) -> RefreshReport:
        upstream = [self.reports[s.uuid] for s in stream.sources if s.uuid in self.reports]
        after = {
            s.name: self.reports[s.uuid].version if s.uuid in self.reports else self.target
            for s in stream.sources
        }
        return self.attempt(stream, after, upstream)


@dataclass(frozen=True)
class Waves:
    """Refreshes many stream tables of one lake on somebody's behalf."""

    engine: Engine
    refresh: Refresh

    def refresh_all(
        self, select: str | Iterable[str] | None = None, *, wait: bool = True
    ) -> list[RefreshReport]:
        chosen = selected(self._load(), select)
        if not chosen:
            return []
        leases = Leases(self.engine.catalog)
        with leases.beating():
            held = _acquire(leases, chosen, wait=wait)
            # Loaded again: others may have refreshed while we waited.
            tables = [table for table in self._load() if table.uuid in chosen]
            target = self.engine.catalog.version()

            def attempt(
                stream: StreamTable, after: Mapping[str, int], upstream: Sequence[RefreshReport]
            ) -> RefreshReport:
                if stream.uuid not in held:
                    return skipped(stream, f"{BUSY}: another process is refreshing it")
                report = self.one(stream, after, upstream)
                settle(leases, stream, report)
                return report

            with ThreadPoolExecutor(self.engine.settings.parallel_refreshes) as pool:
                return Wave(tables, target, attempt).run(pool)

    def one(
        self, stream: StreamTable, after: Mapping[str, int], upstream: Sequence[RefreshReport]
    ) -> RefreshReport:
        """Refresh one table of a wave; an error is a report too."""
        if stream.follows:
            version = max(after.values(), default=0)
            why = "IMMEDIATE: every commit keeps it up to date"
            return RefreshReport(stream.name, "NO_DATA", why, "IMMEDIATE", version=version)
        reason = held_up(upstream)
        if reason is not None and reason.startswith(_PASSING):
            return skipped(stream, reason)
        if reason is None and stream.status == records.SUSPENDED:
            reason = f"{SUSPENDED}: the stream table is suspended"
        if reason is not None:
            return self.note_skip(stream, reason)
        try:
            return self.refresh(stream, after=after)
        except TrickleError as error:
            reason = f"{type(error).__name__}: {error.message}"
            return RefreshReport(
                stream.name, "ERROR", reason, stream.refresh_mode, error=str(error)
            )

    def note_skip(self, stream: StreamTable, reason: str) -> RefreshReport:
        report = skipped(stream, reason)
        with self.engine.catalog.writing() as connection:
            keep = self.engine.settings.history_rows
            records.add_history(connection, stream.uuid, report, keep)
        return report

    def _load(self) -> list[StreamTable]:
        with self.engine.catalog.reading() as connection:
            return records.load(connection)


def _acquire(leases: Leases, wanted: set[str], *, wait: bool) -> set[str]:
    held = leases.claim(wanted, in_order=wait)
    while wait and held != wanted:
        time.sleep(_LOOK_AGAIN)
        held |= leases.claim(wanted - held, in_order=True)
    return held


def settle(leases: Leases, stream: StreamTable, report: RefreshReport) -> int:
    """Give the lease back with what became of the attempt; the failures in a row."""
    tried = report.effective_mode != "SKIPPED"
    computed = report.effective_mode in records.MEASURED
    return leases.release(
        stream.uuid,
        ok=report.effective_mode != "ERROR" if tried else None,
        generation=stream.generation,
        seconds=report.seconds if computed else 0.0,
    )


def skipped(stream: StreamTable, reason: str) -> RefreshReport:
    return RefreshReport(stream.name, "SKIPPED", reason, stream.refresh_mode)


def held_up(upstream: Sequence[RefreshReport]) -> str | None:
    """Why a stream table cannot be refreshed after these; a failure tells more than a suspension."""
    held = [report for report in upstream if report.effective_mode in ("ERROR", "SKIPPED")]
    by_hand = [report for report in held if report.reason.startswith(_SUSPENSIONS)]
    passing = [report for report in held if report.reason.startswith(_PASSING)]
    failed = [report for report in held if report not in (*by_hand, *passing)]
    if failed:
        return f"{UPSTREAM_FAILED}: {failed[0].name} was not refreshed"
    if by_hand:
        return f"{UPSTREAM_SUSPENDED}: {by_hand[0].name} is suspended, or reads one that is"
    if passing:
        return f"{UPSTREAM_BUSY}: {passing[0].name} is being refreshed, or waits for one that is"
    return None
