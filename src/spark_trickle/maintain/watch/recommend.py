"""Advice from history: which mode, clustering key or schedule would be cheaper, with the figures."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from spark_trickle.maintain.records.history import MEASURED, RefreshReport
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.schedule.due import FULL_LOAD
from spark_trickle.storage.records import Table

ENOUGH = 3
"""Measurements of a kind that advice is given on."""
MUCH_READ = 20.0
"""Rows read for each changed row from which on a clustering key is worth a thought."""
IDLE = 0.9


@dataclass(frozen=True)
class Recommendation:
    about: str
    """refresh_mode, cluster_by, schedule."""
    advice: str
    because: str
    """The figures."""


def recommend(
    stream: StreamTable,
    history: Sequence[RefreshReport],
    interval: float | None,
    sources: Sequence[Table],
) -> list[Recommendation]:
    """What would make the stream table cheaper to keep; nothing without enough measurements."""
    return [
        *_mode(stream, history),
        *_schedule(history, interval),
        *_clustering(history, sources),
    ]


def _mode(stream: StreamTable, history: Sequence[RefreshReport]) -> list[Recommendation]:
    by_delta = [r.seconds for r in history if r.effective_mode in ("DIFFERENTIAL", "TOPK")]
    in_full = [r.seconds for r in history if r.effective_mode == "FULL"]
    if len(by_delta) < ENOUGH or not in_full:
        return []
    delta, full = statistics.median(by_delta), statistics.median(in_full)
    figures = (
        f"the median of {len(by_delta)} refreshes by deltas is {delta:.3f} s, of {len(in_full)} "
        f"full ones {full:.3f} s"
    )
    if stream.refresh_mode == "FULL" and delta < full:
        return [Recommendation("refresh_mode", "use AUTO or DIFFERENTIAL", figures)]
    if stream.refresh_mode == "DIFFERENTIAL" and full < delta and len(in_full) >= ENOUGH:
        return [Recommendation("refresh_mode", "use AUTO or FULL", figures)]
    return []


def _schedule(history: Sequence[RefreshReport], interval: float | None) -> list[Recommendation]:
    runs = [r for r in history if r.effective_mode in (*MEASURED, "NO_DATA")]
    if interval is None or len(runs) < ENOUGH:
        return []
    seconds = sorted(r.seconds for r in runs if r.effective_mode in MEASURED)
    if seconds:
        slow = seconds[min(len(seconds) - 1, int(len(seconds) * 0.95))]
        if slow > FULL_LOAD * interval:
            because = f"95 % of {len(seconds)} refreshes take up to {slow:.1f} s, the interval is {interval:g} s"
            longer = f"a schedule of {max(1, round(1.5 * slow))}s or longer"
            return [Recommendation("schedule", longer, because)]
    idle = sum(r.effective_mode == "NO_DATA" for r in runs) / len(runs)
    if idle >= IDLE and len(runs) >= 10 * ENOUGH:
        because = f"{idle:.0%} of {len(runs)} refreshes found no change"
        return [Recommendation("schedule", "a longer schedule, or a cron line", because)]
    return []


def _clustering(history: Sequence[RefreshReport], sources: Sequence[Table]) -> list[Recommendation]:
    """A table that is read almost whole for a few changes should be sorted by what joins it."""
    measured = [
        (r.rows_read / changed, r.rows_read, changed)
        for r in history
        if r.effective_mode in ("DIFFERENTIAL", "TOPK") and (changed := sum(r.delta_rows.values()))
    ]
    if len(measured) < ENOUGH:
        return []
    ratio = statistics.median(share for share, _, _ in measured)
    unsorted = [table for table in sources if not table.sort_key]
    if ratio < MUCH_READ or not unsorted:
        return []
    names = ", ".join(str(table) for table in unsorted)
    return [
        Recommendation(
            "cluster_by",
            f"make {names} with PRIMARY KEY or CLUSTER BY the columns the query joins or groups by",
            f"the median refresh reads {ratio:.0f} rows for each changed row, over "
            f"{len(measured)} refreshes",
        )
    ]
