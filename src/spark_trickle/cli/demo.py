"""What ``make demo`` shows: stream tables that follow changes, refresh by refresh."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rich.live import Live
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

import spark_trickle
from spark_trickle.cli import output, serve
from spark_trickle.errors import ExecutionError

if TYPE_CHECKING:
    from spark_trickle.tpch.churn import Churn
    from spark_trickle.tpch.demo import DemoTable, Refreshed, Round

_CHURN = 0.001
_WHOLE = {"stream table": 15, "mode": 12}
"""Columns as wide as their longest value."""


def run(folder: Path | None, scale: float, http: str | None = None) -> None:
    """The whole story; leaves nothing behind unless a folder is given.

    ``http``: where the dashboard then shows the lake.
    """
    dashboard = None if http is None else serve.prepared(http, None, None)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="trickle-demo-") as temporary:
        location = folder or Path(temporary) / "lake"
        with spark_trickle.connect(location) as lake:
            _load(lake, scale)
            _create(lake)
            _follow(lake, scale)
            seconds = time.perf_counter() - started
            output.console.print(
                f"\n{seconds:.0f} seconds in all, Spark's start included", style="dim"
            )
            if dashboard is not None:
                serve.listen(lake, *dashboard)
    if dashboard is None:
        _tell_of_dashboard(folder)


def _tell_of_dashboard(folder: Path | None) -> None:
    """How to see the lake in a browser."""
    command = "trickle" if shutil.which("trickle") else shlex.quote(sys.argv[0])
    what, words = "a demo like this one", "demo --serve"
    if folder is not None:
        what, words = "this lake", f"serve {shlex.quote(str(folder))}"
    output.console.print(
        f"see {what} in a browser: {command} {words}", highlight=False, soft_wrap=True
    )


def _say(words: str) -> None:
    output.console.print()
    output.console.print(Panel(words, border_style="cyan", expand=False))


def _load(lake: spark_trickle.Lake, scale: float) -> None:
    from spark_trickle.tpch import data
    from spark_trickle.tpch.schema import LINEITEM

    _say(f"A lake with the eight tables of TPC-H at scale {scale:g}")
    with output.console.status("…") as status:

        def told(what: str, done: int, total: int) -> None:
            status.update(f"{what} ({done} of {total})")

        started = time.perf_counter()
        data.load(lake, data.generate(scale, progress=told), told)
    output.console.print(
        f"lineitem has about {LINEITEM.rows(scale):,} rows; version {lake.version}, "
        f"{time.perf_counter() - started:.1f} s, Spark's start included"
    )


def _create(lake: spark_trickle.Lake) -> None:
    from spark_trickle.tpch.demo import STREAM_TABLES

    _say("Four stream tables. Each is a query whose result is kept")
    for shown in STREAM_TABLES:
        output.console.print(f"[bold]{shown.name}[/]: {shown.what}", highlight=False)
        output.console.print(Syntax(shown.query, "sql", background_color="default"))
        with output.console.status("filling it for the first time …"):
            report = lake.create_stream_table(shown.name, shown.query, refresh_mode="DIFFERENTIAL")
        assert report is not None
        output.console.print(
            f"{report.rows_inserted} rows, {report.seconds:.2f} s\n", style="dim", highlight=False
        )


def _follow(lake: spark_trickle.Lake, scale: float) -> None:
    from spark_trickle.tpch.churn import Churn
    from spark_trickle.tpch.demo import ROUNDS

    churn = Churn(scale, _CHURN)
    done = [refreshed for round_ in ROUNDS for refreshed in _round(lake, churn, round_)]
    if not all(refreshed.exact for refreshed in done):
        raise ExecutionError("a stream table is not equal to its query; see the table above")
    saved = sum(r.full_seconds for r in done) / sum(r.seconds for r in done)
    output.console.print(
        f"\n{len(done)} refreshes, every one exact, none of them a recomputation; "
        f"together {saved:.1f} times as fast as recomputing",
        style="bold green",
        highlight=False,
    )


def _round(lake: spark_trickle.Lake, churn: Churn, round_: Round) -> list[Refreshed]:
    from spark_trickle.tpch.demo import STREAM_TABLES, change, refresh

    _say(round_.title)
    before = lake.version
    with output.console.status("changing the tables …"):
        changed = change(lake, churn, round_)
    counts = ", ".join(f"{count:,} {table}" for table, count in changed.items())
    output.console.print(f"rows changed: {counts} (version {before} → {lake.version})", style="dim")
    at = lake.version
    table = _table()
    done = []
    live = output.console.is_terminal
    with Live(table, console=output.console) if live else nullcontext():
        for shown in STREAM_TABLES:
            done.append(refresh(lake, shown))
            table.add_row(*_cells(shown, done[-1]))
    if not live:
        output.console.print(table)
    _sample(lake, at)
    return done


def _table() -> Table:
    table = Table(header_style="bold")
    for name in ("stream table", "mode", "rows changed", "result", "refresh", "full", "", "exact"):
        left = name in ("stream table", "mode", "exact")
        # Whatever the terminal's width, names and modes are shown whole.
        table.add_column(
            name,
            justify="left" if left else "right",
            no_wrap=name in _WHOLE,
            overflow="fold",
            min_width=_WHOLE.get(name),
        )
    return table


def _cells(shown: DemoTable, refreshed: Refreshed) -> tuple[str | Text, ...]:
    report = refreshed.report
    factor = refreshed.full_seconds / refreshed.seconds
    return (
        shown.name,
        report.effective_mode,
        f"{sum(report.delta_rows.values()):,}",
        f"+{report.rows_inserted} -{report.rows_deleted}",
        f"{refreshed.seconds * 1000:.0f} ms",
        f"{refreshed.full_seconds * 1000:.0f} ms",
        Text(f"{factor:.1f}x", style="green" if factor >= 1 else "yellow"),
        Text("yes", style="green") if refreshed.exact else Text("NO", style="bold red"),
    )


def _sample(lake: spark_trickle.Lake, before: int) -> None:
    """What a stream table over the last one would see."""
    name = "region_revenue"
    changes = lake.changes(name, before).orderBy("r_name", "__weight").limit(4).toArrow()
    if changes.num_rows:
        output.console.print(f"the first changes of {name}, as its own change feed:", style="dim")
        output.rows(changes)
