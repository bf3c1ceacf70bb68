"""The queries derived from TPC-H against what a user would run instead, at two scales.

``tpch``: scale factor 1, 0.1 % of every table changed. ``large``: scale factor 10, where orders come and
go, and then with 0.1 % scattered over every table; three quarters of an hour.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import spark_trickle
from bench.figures import Figure, console
from spark_trickle.tpch import data, results
from spark_trickle.tpch.bench import (
    BY_DELTA,
    ENDS,
    IN_FULL,
    SCATTERED,
    BenchOptions,
    BenchProgress,
    Measurement,
)
from spark_trickle.tpch.bench import run as measure
from spark_trickle.tpch.opponents import Opponents
from spark_trickle.tpch.results import geometric_mean

MEMORY = {"spark.driver.memory": os.environ.get("TRICKLE_BENCH_MEMORY", "12g")}
"""Plain Spark runs out of 4 GB at scale factor 10."""
LARGE = float(os.environ.get("TRICKLE_LARGE_SCALE", "10"))
RESULTS = Path(__file__).parent / "results"


def run(folder: Path) -> list[Figure]:
    options = BenchOptions(cycles=2, modes=(BY_DELTA, IN_FULL), alone=False)
    found = results.lines(_measured(folder / "tpch", options))
    plain = [_known(line.plain_ratio) for line in found]
    to_plain = geometric_mean([_known(line.full_to_plain) for line in found])
    title = "scale factor 1, 0.1 % changed"
    return [
        _ratio(f"{title}: FULL / plain Spark", to_plain, 1.25, at_least=False),
        _ratio(f"{title}: plain Spark / DIFFERENTIAL", geometric_mean(plain), 6),
        _ratio(f"{title}: the same, the least of 22", min(plain), 2),
    ]


def run_large(folder: Path) -> list[Figure]:
    options = BenchOptions(
        scale=LARGE,
        cycles=1,
        modes=(BY_DELTA,),
        alone=False,
        kinds=(ENDS, SCATTERED),
        warm_opponents=False,
    )
    measured = _measured(folder / "large", options)
    bars = {ENDS: (25, 18), SCATTERED: (8, 10)}
    return [
        figure
        for kind, (mean, wins) in bars.items()
        for figure in _large(measured, kind, mean, wins)
    ]


def _large(measured: Sequence[Measurement], kind: str, mean: float, wins: int) -> list[Figure]:
    found = results.lines([one for one in measured if one.kind == kind])
    changed = [line for line in found if line.delta_rows]
    plain = geometric_mean([_known(line.plain_ratio) for line in changed])
    faster = sum(_known(line.duckdb_ratio) > 1 for line in found)
    title = f"scale factor {LARGE:g}, {kind}"
    return [
        _ratio(f"{title}: plain Spark / DIFFERENTIAL, {len(changed)} changed queries", plain, mean),
        Figure(
            f"{title}: faster than DuckDB", faster, None, faster, wins, "of 22", "", at_least=True
        ),
    ]


def _measured(folder: Path, options: BenchOptions) -> list[Measurement]:
    settings = spark_trickle.Settings(spark=MEMORY)
    source = data.generate(options.scale)
    with spark_trickle.connect(folder / "lake", settings=settings) as lake:
        measured = measure(lake, source, options, _told, Opponents(lake, folder))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"tpch-sf{options.scale:g}.json").write_text(results.record(options, measured))
    for kind in options.kinds:
        console.print(f"scale factor {options.scale:g}, {kind}", style="bold")
        found = results.lines([one for one in measured if one.kind == kind])
        console.print(results.table(found), highlight=False, soft_wrap=True)
    return measured


def _told(progress: BenchProgress) -> None:
    console.print(f"{progress.what} ({progress.done}/{progress.total})", style="dim")


def _ratio(name: str, measured: float, bar: float, *, at_least: bool = True) -> Figure:
    return Figure(name, measured, None, measured, bar, "times", "", at_least)


def _known(ratio: float | None) -> float:
    assert ratio is not None, "DuckDB is not installed: pip install 'spark-trickle[bench]'"
    return ratio
