"""What a refresh leaves behind: its report, its seconds by phase, and the record of the stream table."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from spark_trickle.compile import CompiledQuery
from spark_trickle.errors import (
    CommitConflictError,
    InternalError,
    SourceChangedError,
    TrickleError,
)
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.streams import RefreshReport, StreamTable
from spark_trickle.maintain.refresh.pinned import Pinned
from spark_trickle.maintain.refresh.reserve import RESERVE_PART
from spark_trickle.maintain.watch import tracing
from spark_trickle.storage.records import Table
from spark_trickle.storage.versions.transaction import Connection


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


@dataclass(frozen=True)
class Filled:
    """What a computation leads to, once it is committed."""

    stream: StreamTable
    report: RefreshReport
    changed: bool
    """Whether any row of any part changes."""


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
    stream: StreamTable, pinned: Mapping[str, Pinned], *, whole: bool | None = None
) -> StreamTable:
    """The record after a refresh that brought the sources to their pinned versions."""
    sources = tuple(replace(s, version=pinned[s.name].after.version) for s in stream.sources)
    segments = stream.segments
    if whole is not None:
        segments = tuple(
            replace(s, whole=whole) if s.part == RESERVE_PART else s for s in stream.segments
        )
    return replace(stream, sources=sources, segments=segments, populated=True, last_error=None)


def save_refresh(
    connection: Connection,
    stream: StreamTable,
    moved: StreamTable,
    report: RefreshReport,
    keep: int,
) -> None:
    """Write frontier and history, unless somebody else moved the stream table since it was read.

    ``keep``: how many lines of history stay.
    """
    known = records.load_one(connection, stream.uuid)
    if known is None or replace(known, last_error=stream.last_error) != stream:
        raise CommitConflictError(
            f"stream table {stream.name} was refreshed or changed by somebody else meanwhile",
            hint="refresh it again",
        )
    records.move(connection, known, moved)
    records.add_history(connection, stream.uuid, report, keep)


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


def may_differ(source: Pinned) -> bool:
    """Whether the source may have changed."""
    return source.changes is None or not source.changes.empty


def followed_report(stream: StreamTable, version: int) -> RefreshReport:
    """Of a stream table that every commit keeps up to date, at a version of its sources."""
    reason = "IMMEDIATE: every commit keeps it up to date"
    return RefreshReport(stream.name, "NO_DATA", reason, stream.refresh_mode, version=version)
