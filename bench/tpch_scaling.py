"""Does cost grow with the change, not with the table? The same changed rows at several scales.

Run as ``python -m bench.tpch_scaling``. Orders come and go (RF1 and RF2); the number of them is
the same at every scale. The figure is the time at the largest scale over that at the smallest.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

import spark_trickle
from spark_trickle.tpch import data, queries
from spark_trickle.tpch.bench import BY_DELTA, ENDS, BenchOptions, BenchProgress, run
from spark_trickle.tpch.schema import ORDERS

NUMBERS = (1, 3, 5, 6, 10, 12, 14, 18)
BAR = 2.5
RESULTS = Path(__file__).parent / "results"


def measure(scale: float, orders: int, cycles: int, memory: str) -> dict[str, float]:
    """Median seconds of each query at one scale, in a lake of its own."""
    options = BenchOptions(
        scale=scale,
        fraction=orders / ORDERS.rows(scale),
        cycles=cycles,
        numbers=NUMBERS,
        modes=(BY_DELTA,),
        alone=False,
        kinds=(ENDS,),
    )
    console = Console(stderr=True)

    def told(progress: BenchProgress) -> None:
        console.print(f"scale {scale:g}: {progress.what} ({progress.done}/{progress.total})")

    settings = spark_trickle.Settings(spark={"spark.driver.memory": memory})
    folder = data.generate(scale)
    with (
        tempfile.TemporaryDirectory(prefix="trickle-scaling-") as temporary,
        spark_trickle.connect(Path(temporary) / "lake", settings=settings) as lake,
    ):
        measured = run(lake, folder, options, told)
    return {
        queries.name(number): statistics.median(m.seconds for m in measured if m.query == number)
        for number in NUMBERS
    }


def show(found: dict[float, dict[str, float]]) -> None:
    table = Table(title="seconds by deltas, the same changed rows", header_style="bold")
    table.add_column("query")
    for scale in found:
        table.add_column(f"scale {scale:g}", justify="right")
    table.add_column("largest / smallest", justify="right")
    for name in map(queries.name, NUMBERS):
        seconds = [medians[name] for medians in found.values()]
        growth = seconds[-1] / seconds[0]
        mark = "green" if growth < BAR else "red"
        cells = [f"{value:.2f}" for value in seconds]
        table.add_row(name, *cells, f"[{mark}]{growth:.2f}x[/]")
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scales", type=float, nargs="+", default=[0.1, 1, 10])
    parser.add_argument("--orders", type=int, default=1_500, help="orders that come and go")
    parser.add_argument("--cycles", type=int, default=3)
    parser.add_argument("--memory", default="4g", help="memory of the Spark driver")
    asked = parser.parse_args()
    found = {s: measure(s, asked.orders, asked.cycles, asked.memory) for s in asked.scales}
    show(found)
    RESULTS.mkdir(exist_ok=True)
    kept = {f"{scale:g}": medians for scale, medians in found.items()}
    (RESULTS / "tpch-scaling.json").write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()
