"""``trickle run``: the scheduler as a process."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from typing import Annotated

import typer

from spark_trickle.cli import logs
from spark_trickle.cli.opening import DataPathOption, place

_LOOK = 0.1
"""Seconds after which a signal is heeded at the latest."""


def run(
    lake: Annotated[
        str | None, typer.Argument(help="Folder or postgresql:// URL of the lake.")
    ] = None,
    data_path: DataPathOption = None,
    once: Annotated[bool, typer.Option(help="Refresh what is due now, then end.")] = False,
    json_log: Annotated[bool, typer.Option("--json", help="Log as JSON, one a line.")] = False,
    verbose: Annotated[bool, typer.Option(help="Log every phase of a refresh.")] = False,
    parallel: Annotated[int, typer.Option(help="Stream tables refreshed at once.")] = 4,
    poll: Annotated[float, typer.Option(help="Seconds between two looks at the catalog.")] = 1.0,
    grace: Annotated[float, typer.Option(help="Seconds to finish in when told to stop.")] = 60.0,
    webhook: Annotated[
        list[str] | None, typer.Option(help="POST each alert as JSON to this URL.")
    ] = None,
    command: Annotated[
        list[str] | None, typer.Option(help="Run this command for each alert; JSON on its input.")
    ] = None,
) -> None:
    """Refresh what is due until stopped by SIGTERM or Ctrl-C; several may run on one lake."""
    import spark_trickle

    logs.to_stdout(as_json=json_log, verbose=verbose)
    # No Event: its lock may be held by the very thread that a signal interrupts.
    stopped: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stopped.append(number))
    found = place(lake, data_path)
    settings = replace(found.settings, parallel_refreshes=parallel, poll_seconds=poll)
    with spark_trickle.connect(
        found.location, data_path=found.data_path, settings=settings, create=False
    ) as opened:
        scheduler = opened.scheduler(on_alert=[*(webhook or ()), *((c,) for c in command or ())])
        if once:
            reports = scheduler.once()
            raise typer.Exit(1 if any(r.effective_mode == "ERROR" for r in reports) else 0)
        scheduler.start()
        while not stopped:
            time.sleep(_LOOK)
        done = scheduler.stop(grace)
    _end(done)


def _end(done: bool) -> None:
    sys.stdout.flush()
    if not done:
        # Threads that still wait for Spark would keep the process: what they do commits or not.
        os._exit(3)
