"""Computes a refresh in the way that was chosen, and stages it; commits nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_trickle.calls import interrupted
from spark_trickle.compile import CompiledQuery
from spark_trickle.delta.segment import RESULT
from spark_trickle.delta.support import FullOnly
from spark_trickle.errors import InvariantError, TrickleError
from spark_trickle.execute.engine import Engine
from spark_trickle.maintain.apply.delta import Applied, StoredPart, apply_delta, stored_parts
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.refresh.compute import Computation
from spark_trickle.maintain.refresh.job import (
    NOTHING,
    Choice,
    Phases,
    Pinned,
    StagedRefresh,
    bugs_told,
    may_differ,
    moved_record,
    source_size,
)
from spark_trickle.maintain.refresh.whole import by_text
from spark_trickle.maintain.timed.clocks import Clocks
from spark_trickle.storage.faults import reach
from spark_trickle.storage.versions.transaction import Transaction

if TYPE_CHECKING:
    from spark_trickle.spark.run import Run


@dataclass(frozen=True)
class RefreshJob:
    """What a refresh is to do: for which stream table, over which sources, and how."""

    stream: StreamTable
    compiled: CompiledQuery
    choice: Choice
    pinned: Mapping[str, Pinned]
    phases: Phases
    report: RefreshReport
    """What is known before anything is computed."""
    moved: Clocks = Clocks()
    """Of temporal filters."""

    @property
    def by_text(self) -> bool:
        """Whether the query's own text is run, and not a plan of ours."""
        full_only = isinstance(self.compiled.verdict, FullOnly)
        return full_only or (self.stream.by_text and not self.compiled.timed)


@dataclass(frozen=True)
class _Done:
    """What became of it, part by part."""

    applied: Mapping[str, Applied]
    mode: str
    reason: str
    whole: bool
    """Whether the reserve of a TopK holds all rows there are."""


def fill(engine: Engine, job: RefreshJob, tx: Transaction, run: Run) -> StagedRefresh:
    """Compute and stage in the way that was chosen."""
    source_rows, source_bytes = source_size(job.pinned)
    if job.choice.mode == "FULL":
        run.reads(source_bytes)
    done = (_by_text if job.by_text else _by_parts)(engine, job, tx, run)
    job.phases.end("compute")
    reach("refresh-computed")
    result = done.applied.get(RESULT, Applied())
    queries = run.spark_queries + job.moved.spark_queries
    report = replace(
        job.report,
        clock=job.moved.told if job.compiled.timed else None,
        effective_mode=done.mode,
        reason=done.reason,
        rows_inserted=result.inserted,
        rows_deleted=result.deleted,
        rows_read=run.rows_read,
        bytes_read=run.bytes_read,
        spark_queries=queries,
        engine="spark" if queries else "local",
        source_rows=source_rows,
    )
    changed = any(part != Applied() for part in done.applied.values())
    kept = moved_record(job.stream, job.pinned, whole=done.whole, clock=job.moved.after)
    return StagedRefresh(job.stream, replace(kept, meaning=run.meaning), report, changed)


def _by_text(engine: Engine, job: RefreshJob, tx: Transaction, run: Run) -> _Done:
    stored = _stored(job, tx)
    with bugs_told(job.stream, job.compiled):
        rows = by_text(engine, run, tx, job.stream, job.compiled, job.pinned)
        applied = {RESULT: apply_delta(run, tx, stored[RESULT], rows)}
    return _Done(applied, job.choice.mode, job.choice.reason, _whole(job.stream))


def _by_parts(engine: Engine, job: RefreshJob, tx: Transaction, run: Run) -> _Done:
    compiled, whole = job.compiled, _whole(job.stream)
    stored = _stored(job, tx)
    work = Computation(
        engine.catalog,
        tx,
        run,
        compiled,
        job.pinned,
        stored,
        compiled.reserve,
        whole,
        job.moved.shown,
    )
    with bugs_told(job.stream, compiled):
        work.full() if job.choice.mode == "FULL" else work.differential()
    if work.idle and not any(map(may_differ, job.pinned.values())):
        return _Done(work.applied, NOTHING.mode, NOTHING.reason, work.whole)
    return _Done(work.applied, job.choice.mode, work.refilled or job.choice.reason, work.whole)


def _stored(job: RefreshJob, tx: Transaction) -> dict[str, StoredPart]:
    """Where the parts are kept. What a full run takes away is what it found there, however often: its
    rows are looked for as a whole, also in a table whose keys should be unique and are not."""
    parts = stored_parts(tx, job.stream, job.compiled)
    if job.choice.mode != "FULL":
        return dict(parts)
    return {name: replace(part, unique=False) for name, part in parts.items()}


def _whole(stream: StreamTable) -> bool:
    return any(segment.whole for segment in stream.segments)


def bounded(
    choice: Choice,
    run: Run,
    work: Callable[[Choice], StagedRefresh],
    give_up: Callable[[], None],
) -> StagedRefresh:
    """Go the way that was chosen; a delta that overruns its budget is given up for a full run."""
    if choice.budget is None:
        return work(choice)
    from spark_trickle.spark.budget import Budget

    with Budget(choice.budget) as budget:
        run.budget = budget
        try:
            return work(choice)
        except InvariantError:
            raise
        except TrickleError:
            if interrupted() or not budget.over:
                raise
        finally:
            run.budget = None
    give_up()
    told = f"the delta was cancelled after {choice.budget:.1f} s; it was chosen by {choice.reason}"
    return work(Choice("FULL", "OVERRUN", told))
