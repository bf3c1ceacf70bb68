"""A refresh as data: the sources that it goes from at their pinned versions, shown as the query knows
them, the way it goes, its seconds by phase, and what it leaves behind: a report and the record of the
stream table.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from spark_trickle.compile import CompiledQuery
from spark_trickle.delta.reserve import RESERVE_PART
from spark_trickle.delta.support import FullOnly
from spark_trickle.errors import (
    CommitConflictError,
    InternalError,
    InvariantError,
    NotFoundError,
    SourceChangedError,
    TrickleError,
    UnsupportedQueryError,
)
from spark_trickle.execute.states import Conditions, met
from spark_trickle.ir.types import Side
from spark_trickle.maintain.define.compiling import columns_used
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.history import RefreshReport, add_histories
from spark_trickle.maintain.records.streams import Dependency, StreamTable
from spark_trickle.maintain.timed.clocks import Clocks
from spark_trickle.maintain.watch import tracing
from spark_trickle.settings import Limits
from spark_trickle.sources.protocol import Position, Source
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.read.reader import decoded_bytes
from spark_trickle.storage.records import ChangePlan, ScanPlan, Table, TableName
from spark_trickle.storage.versions.state import State
from spark_trickle.storage.versions.transaction import Connection


@dataclass(frozen=True)
class Choice:
    """What to run and why: a stable code and a sentence."""

    mode: str
    code: str
    text: str
    budget: float | None = None
    """Seconds after which a delta is cancelled."""

    @property
    def reason(self) -> str:
        return f"{self.code}: {self.text}"


@dataclass(frozen=True)
class Pinned:
    """A source of one refresh, at the two positions it moves between."""

    source: Source[Any]
    table: Table
    before: Position
    after: Position
    changes: ChangePlan | None
    """None: the change is not known, only a full run can tell."""
    name: str
    """What the source is called now; ``table`` shows it as the query knows it."""

    def relation(self, side: Side = Side.AFTER) -> ScanPlan:
        """Its rows before or after."""
        return self.source.relation(self.table, self.before if side is Side.BEFORE else self.after)

    @property
    def changed_rows(self) -> int:
        plan = self.changes
        return plan.inserted_rows + plan.deleted_rows if plan is not None else 0

    def few(self, limits: Limits) -> bool:
        """Whether the changes may be read in this process."""
        if self.changes is None:
            return True
        many = len(self.changes.files) > limits.read_files
        if many or self.changed_rows > limits.delta_rows:
            return False
        return decoded_bytes(self.changes) <= limits.delta_bytes


def pinned_source(
    stream: StreamTable,
    compiled: CompiledQuery,
    read: Dependency,
    source: Source[State],
    state: State,
) -> Pinned:
    """A source in one state; SourceChangedError if it no longer fits."""
    table = source.schema(state)
    if table is None:
        raise _gone(stream, read, state)
    faults = read.bound.retyped(table)
    faults += [
        f"column {name} was dropped"
        for name in read.bound.lacking(table, columns_used(compiled, read))
    ]
    if faults:
        raise SourceChangedError(
            f"{table}, which stream table {stream.name} reads, changed: {', '.join(faults)}",
            hint=f"run repair_stream_table({stream.name!r}) if the query still has a meaning, or "
            f"give it another one with ALTER STREAM TABLE {stream.name} AS SELECT …",
        )
    return Pinned(source, read.bound.show(read.name, table), state, state, None, str(table))


def _gone(stream: StreamTable, read: Dependency, state: State) -> SourceChangedError:
    try:
        state.table(read.name)
    except NotFoundError:
        return SourceChangedError(
            f"{read.name}, which stream table {stream.name} reads, is gone",
            hint=f"give it another query with ALTER STREAM TABLE {stream.name} AS SELECT …",
        )
    return SourceChangedError(
        f"{read.name} is not the table that stream table {stream.name} was made over",
        hint=f"run repair_stream_table({stream.name!r})",
    )


def ruled(
    stream: StreamTable, asked: str, compiled: CompiledQuery, pinned: Mapping[str, Pinned]
) -> Choice | None:
    """The way that has to be gone, whatever it costs; None: it is a question of cost."""
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
    if asked == "DIFFERENTIAL":
        return Choice(delta_mode(compiled), "ASKED", "DIFFERENTIAL was asked for")
    return None


def delta_mode(compiled: CompiledQuery) -> str:
    """What a refresh by deltas is called."""
    return "TOPK" if compiled.topk is not None else "DIFFERENTIAL"


class PinnedState:
    """The pinned sources as a state of the lake that a query can read."""

    def __init__(self, catalog: Catalog, pinned: Mapping[str, Pinned]) -> None:
        self.catalog = catalog
        self._pinned = {source.table.full_name.key: source for source in pinned.values()}

    def table(self, name: TableName) -> Table:
        source = self._pinned.get(name.key)
        if source is None:
            raise NotFoundError(f"there is no table {name}")
        return source.table

    def scan(self, table: Table, conditions: Conditions = ()) -> ScanPlan:
        source = self._pinned[table.full_name.key]
        return met(source.source.relation(table, source.after), conditions)


def source_size(pinned: Mapping[str, Pinned]) -> tuple[int, int]:
    """The rows and the bytes of all sources."""
    plans = [source.relation() for source in pinned.values()]
    return sum(plan.rows for plan in plans), sum(plan.bytes for plan in plans)


class Phases:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.started_at = time.time()
        self._begun = self._last = time.perf_counter()
        self.seconds: dict[str, float] = {}

    def end(self, phase: str) -> None:
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        tracing.phase(phase, now - self._last)
        self._last = now

    @property
    def total(self) -> float:
        return time.perf_counter() - self._begun

    def timed(self, staged: StagedRefresh) -> StagedRefresh:
        """With the seconds so far."""
        report = replace(staged.report, seconds=self.total, phases=dict(self.seconds))
        return replace(staged, report=report)


@contextmanager
def bugs_told(stream: StreamTable, compiled: CompiledQuery) -> Iterator[None]:
    """What is neither an error of ours nor of the machine is a fault of ours; told with the plan."""
    try:
        yield
    except (TrickleError, OSError, MemoryError):
        raise
    except Exception as error:
        raise InternalError(
            f"computing {stream.name} failed by a bug: {type(error).__name__}: {error}",
            hint="nothing was changed; please report it with this plan:\n"
            + compiled.explain("normalized"),
        ) from error


Final = tuple[StreamTable, StreamTable, RefreshReport]
"""A stream table as it was read and as it is from now on, and what was done."""


@dataclass(frozen=True)
class StagedRefresh:
    """A refresh whose rows wait in a transaction; somebody commits it, perhaps with others."""

    stream: StreamTable
    """As it was read."""
    moved: StreamTable
    """As it will be."""
    report: RefreshReport
    changed: bool
    """Whether any row of any part changes."""

    @property
    def wrote(self) -> bool:
        """Whether the contents are another answer than before, or one for the first time."""
        return self.changed or not self.stream.populated

    def committed(self, version: int, written: Collection[str], seconds: float) -> Final:
        """Record and report, once it is known which version the transaction becomes.

        ``written``: the tables that the same transaction wrote; what was read of them is that
        version. ``seconds``: this refresh's share of the commit.
        """
        names = {s.name for s in self.moved.sources if s.uuid in written}
        report = self.report
        return (
            self.stream,
            self.moved.at(version, written),
            replace(
                report,
                version=version if self.changed else report.version,
                sources={
                    name: (before, version if name in names else after)
                    for name, (before, after) in report.sources.items()
                },
                seconds=report.seconds + seconds,
                phases={**report.phases, "stage": seconds},
            ),
        )


def same_columns(stream: StreamTable, table: Table, found: list[str]) -> None:
    """SourceChangedError if the query gives other columns than are stored: SELECT * sees new ones."""
    made = [column.name for column in table.columns]
    if found != made:
        raise SourceChangedError(
            f"the columns of stream table {stream.name} were {', '.join(made)}, but its sources "
            f"changed and its query now gives {', '.join(found)}",
            hint=f"run repair_stream_table({stream.name!r}), or name the columns in the query",
        )


def moved_record(
    stream: StreamTable,
    pinned: Mapping[str, Pinned],
    *,
    whole: bool | None = None,
    clock: int | None = None,
) -> StreamTable:
    """The record after a refresh that brought the sources to their pinned versions, and the clock
    of temporal filters to a moment."""
    sources = tuple(replace(s, version=pinned[s.name].after.version) for s in stream.sources)
    segments = stream.segments
    if whole is not None:
        segments = tuple(
            replace(s, whole=whole) if s.part == RESERVE_PART else s for s in stream.segments
        )
    clock = stream.clock if clock is None else clock
    moved = replace(stream, sources=sources, segments=segments, clock=clock)
    return replace(moved, populated=True, last_error=None)


def unmoved(connection: Connection, streams: Sequence[StreamTable]) -> list[StreamTable]:
    """The records as they are now; CommitConflictError if one is not as it was read.

    With an older frontier, changes that the contents have already would be applied again.
    """
    only = streams[0].uuid if len(streams) == 1 else None
    now = {stream.uuid: stream for stream in records.load(connection, only)}
    for stream in streams:
        known = now.get(stream.uuid)
        if known is None or replace(known, last_error=stream.last_error) != stream:
            raise CommitConflictError(
                f"stream table {stream.name} was refreshed or changed by somebody else meanwhile",
                hint="refresh it again",
            )
    return [now[stream.uuid] for stream in streams]


def save_refreshes(connection: Connection, finals: Sequence[Final], keep: int) -> None:
    """Write frontiers and history, unless somebody else moved a stream table since it was read.

    ``keep``: how many lines of history of each stay.
    """
    if not finals:
        return
    known = unmoved(connection, [stream for stream, _, _ in finals])
    for before, (_, moved, _) in zip(known, finals, strict=True):
        records.move(connection, before, moved)
    add_histories(connection, [(stream.uuid, report) for stream, _, report in finals], keep)


def first_report(
    stream: StreamTable, asked: str, pinned: Mapping[str, Pinned], phases: Phases
) -> RefreshReport:
    """What can be said before anything was computed."""
    return RefreshReport(
        stream.name,
        "NO_DATA",
        "",
        asked,
        sources={p.name: (p.before.version, p.after.version) for p in pinned.values()},
        delta_rows={p.name: p.changed_rows for p in pinned.values() if p.changed_rows},
        started_at=phases.started_at,
    )


def with_clocks(
    report: RefreshReport, pinned: Mapping[str, Pinned], moved: Clocks
) -> RefreshReport:
    """What the clock adds: the moments, and about how many rows crossed between them."""
    rows = dict(report.delta_rows)
    plans = {shown.source: pinned[shown.source] for shown in moved.shown.values()}
    scanned = {name: source.relation() for name, source in plans.items()}
    for name, crossed in moved.crossing(scanned).items():
        rows[pinned[name].name] = rows.get(pinned[name].name, 0) + crossed
    return replace(report, clock=moved.told, delta_rows=rows, spark_queries=moved.spark_queries)


def may_differ(source: Pinned) -> bool:
    """Whether the source may have changed."""
    return source.changes is None or not source.changes.empty


def followed_report(stream: StreamTable, version: int) -> RefreshReport:
    """Of a stream table that every commit keeps up to date, at a version of its sources."""
    reason = "IMMEDIATE: every commit keeps it up to date"
    return RefreshReport(stream.name, "NO_DATA", reason, stream.refresh_mode, version=version)


def failed(stream: StreamTable, asked: str, error: Exception) -> RefreshReport:
    """Of a refresh that came to nothing."""
    message = error.message if isinstance(error, TrickleError) else str(error)
    reason = f"{type(error).__name__}: {message}"
    return RefreshReport(stream.name, "ERROR", reason, asked, error=str(error))


def out_of_service(stream: StreamTable) -> InvariantError:
    return InvariantError(
        f"stream table {stream.name} is out of service: {stream.last_error}",
        hint=f"run repair_stream_table({stream.name!r})",
    )


NOTHING = Choice("NO_DATA", "NO_CHANGES", "no source changed")
"""Nor did a row cross the edge of a temporal filter."""


def nothing(
    stream: StreamTable,
    pinned: Mapping[str, Pinned],
    moved: Clocks,
    report: RefreshReport,
    phases: Phases,
) -> StagedRefresh:
    """No row changes; the frontier moves."""
    report = replace(report, effective_mode=NOTHING.mode, reason=NOTHING.reason)
    kept = moved_record(stream, pinned, clock=moved.after)
    return phases.timed(StagedRefresh(stream, kept, report, False))
