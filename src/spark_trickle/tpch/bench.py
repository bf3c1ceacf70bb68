"""The benchmark: every query as twins that are refreshed by deltas and in full, after each cycle.

Twins see the same versions of the same tables in one Java process, one after the other, so their
ratio means the same on a fast and on a slow machine. Beside them, query by query, run those that
recompute over clean files (``opponents``): what a user without stream tables pays. The query by
itself over the lake's tables, its result fetched and nothing kept, is what a SELECT costs.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from spark_trickle.lake import Lake
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.tpch import churn, data, queries
from spark_trickle.tpch.opponents import Opponents

BY_DELTA, IN_FULL, CHOSEN, QUERY = "DIFFERENTIAL", "FULL", "AUTO", "QUERY"
ENDS, SCATTERED = "ends", "scattered"
_SUFFIX = {BY_DELTA: "", IN_FULL: "_full", CHOSEN: "_auto"}


@dataclass(frozen=True)
class BenchOptions:
    """What to measure."""

    scale: float = 1.0
    fraction: float = 0.001
    cycles: int = 3
    numbers: Sequence[int] = tuple(queries.NUMBERS)
    modes: tuple[str, ...] = (BY_DELTA, IN_FULL, CHOSEN)
    """The twins of each query."""
    alone: bool = True
    """Measure the query by itself too."""
    kinds: tuple[str, ...] = (SCATTERED,)
    """What changes, each with a warm-up and cycles of its own. ENDS, which comes first: orders come
    and go (RF1 and RF2). SCATTERED: updates everywhere, too, and in all tables (RF1 to RF4)."""
    warm_up: int = 1
    """Cycles before those that count."""
    warm_opponents: bool = True
    """Opponents warm up, too: where their queries take many seconds they need not."""
    seed: int = 1


@dataclass(frozen=True)
class Measurement:
    """One refresh, or one run of a query by itself."""

    query: int
    cycle: int
    mode: str
    """DIFFERENTIAL, FULL or AUTO as asked; QUERY: the query by itself; PLAIN, DUCKDB: opponents."""
    effective_mode: str
    seconds: float
    reason: str = ""
    delta_rows: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    spark_queries: int = 0
    rows_inserted: int = 0
    rows_deleted: int = 0
    phases: dict[str, float] = field(default_factory=dict)
    kind: str = SCATTERED


@dataclass(frozen=True)
class BenchProgress:
    """Where a run is: what it does now, and how much of that is done."""

    what: str
    done: int
    total: int


Listener = Callable[[BenchProgress], None]


def run(
    lake: Lake,
    folder: Path,
    options: BenchOptions,
    listener: Listener,
    opponents: Opponents | None = None,
) -> list[Measurement]:
    """Load a fresh lake from generated data, make the stream tables, change and measure."""
    data.load(lake, folder, lambda what, done, total: listener(BenchProgress(what, done, total)))
    _create(lake, options, listener)
    each = options.warm_up + options.cycles
    ends = each if ENDS in options.kinds else 0
    changes = churn.Churn(options.scale, options.fraction, options.seed, ends_first=ends)
    measured: list[Measurement] = []
    for place, kind in enumerate(options.kinds):
        for number in range(1, each + 1):
            count = number - options.warm_up
            title = (
                f"{kind}, cycle {count} of {options.cycles}" if count > 0 else f"{kind}, warm up"
            )
            listener(BenchProgress(f"{title}: change", 0, len(options.numbers)))
            for batch in changes.cycle(place * each + number):
                churn.apply(lake, batch)
            others = opponents if count > 0 or options.warm_opponents else None
            found = _cycle(lake, title, options, listener, others)
            measured += [replace(one, cycle=count, kind=kind) for one in found if count > 0]
    return measured


def _cycle(
    lake: Lake, title: str, options: BenchOptions, listener: Listener, opponents: Opponents | None
) -> list[Measurement]:
    """Every query once, in every way."""
    total = len(options.numbers)
    if opponents is not None:
        listener(BenchProgress(f"{title}: export", 0, total))
        opponents.export()
    measured: list[Measurement] = []
    for place, number in enumerate(options.numbers):
        listener(BenchProgress(f"{title}: {queries.name(number)}", place, total))
        measured += _measure(lake, number, options, opponents)
    listener(BenchProgress(title, total, total))
    return measured


def _create(lake: Lake, options: BenchOptions, listener: Listener) -> None:
    total = len(options.numbers) * len(options.modes)
    done = 0
    for number in options.numbers:
        for mode in options.modes:
            name = queries.name(number) + _SUFFIX[mode]
            listener(BenchProgress(f"create {name}", done, total))
            lake.create_stream_table(name, queries.text(number), refresh_mode=mode)
            done += 1
    listener(BenchProgress("created", total, total))


def _measure(
    lake: Lake, number: int, options: BenchOptions, opponents: Opponents | None
) -> list[Measurement]:
    found = []
    for mode in options.modes:
        gc.collect()
        started = time.perf_counter()
        report = lake.refresh_stream_table(queries.name(number) + _SUFFIX[mode])
        found.append(_of(report, number, mode, time.perf_counter() - started))
    for name in () if opponents is None else opponents.names:
        gc.collect()
        assert opponents is not None
        seconds = opponents.seconds(name, queries.text(number))
        found.append(Measurement(number, 0, name, name, seconds))
    if not options.alone:
        return found
    gc.collect()
    started = time.perf_counter()
    rows = lake.sql(queries.text(number)).toArrow().num_rows
    seconds = time.perf_counter() - started
    return [*found, Measurement(number, 0, QUERY, QUERY, seconds, rows_inserted=rows)]


def _of(report: RefreshReport, number: int, mode: str, seconds: float) -> Measurement:
    return Measurement(
        number,
        0,
        mode,
        report.effective_mode,
        seconds,
        report.reason,
        sum(report.delta_rows.values()),
        report.rows_read,
        report.bytes_read,
        report.spark_queries,
        report.rows_inserted,
        report.rows_deleted,
        dict(report.phases),
    )
