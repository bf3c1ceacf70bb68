"""Run the benchmarks and print each figure beside its bar."""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from rich.table import Table

from bench import growth, idle, immediate, scatter, small, steady, storage, stream_tables, tpch
from bench.figures import Figure, console

PARTS = (
    "idle",
    "small",
    "growth",
    "storage",
    "streams",
    "immediate",
    "scatter",
    "steady",
    "tpch",
    "large",
)
RESULTS = Path(__file__).parent / "results"


def show(figures: list[Figure]) -> None:
    table = Table(title="spark-trickle, measured in one run", header_style="bold")
    for name in ("what", "ours", "plain Spark", "measured", "bar", ""):
        table.add_column(name, justify="left" if name in ("what", "") else "right")
    for figure in figures:
        mark = "[green]met[/]" if figure.met else "[red]missed[/]"
        table.add_row(*figure.cells(), mark)
    console.print(table)


def save(figures: list[Figure]) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    record = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "figures": [figure.record() for figure in figures],
    }
    path.write_text(json.dumps(record, indent=2) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=6_000_000, help="rows of the large table")
    parser.add_argument(
        "--repeat", type=int, default=7, help="runs of each figure; the best counts"
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="some parts of it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trickle-bench-") as folder:
        parts = {
            "idle": lambda: idle.run(Path(folder)),
            "small": lambda: small.run(Path(folder), options.repeat),
            "growth": lambda: growth.run(Path(folder), options.repeat),
            "storage": lambda: storage.run(Path(folder), options.rows, options.repeat),
            "streams": lambda: stream_tables.run(Path(folder), options.rows, options.repeat),
            "immediate": lambda: immediate.run(Path(folder), options.repeat),
            "scatter": lambda: scatter.run(Path(folder)),
            "steady": lambda: steady.run(Path(folder)),
            "tpch": lambda: tpch.run(Path(folder)),
            "large": lambda: tpch.run_large(Path(folder)),
        }
        figures = [f for name in options.only or PARTS for f in parts[name]()]
    show(figures)
    console.print(f"saved in {save(figures)}", style="dim")


if __name__ == "__main__":
    main()
