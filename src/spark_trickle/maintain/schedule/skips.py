"""Why a stream table of a wave was not refreshed."""

from __future__ import annotations

from collections.abc import Sequence

from spark_trickle.execute.engine import Engine
from spark_trickle.maintain.records.history import RefreshReport, add_history
from spark_trickle.maintain.records.streams import StreamTable

SUSPENDED, UPSTREAM_SUSPENDED, UPSTREAM_FAILED = (
    "SUSPENDED",
    "UPSTREAM_SUSPENDED",
    "UPSTREAM_FAILED",
)
BUSY, UPSTREAM_BUSY = "BUSY", "UPSTREAM_BUSY"
"""Codes of the reasons."""
_SUSPENSIONS = (f"{SUSPENDED}:", f"{UPSTREAM_SUSPENDED}:")
_PASSING = (f"{BUSY}:", f"{UPSTREAM_BUSY}:")


def skipped(stream: StreamTable, reason: str) -> RefreshReport:
    return RefreshReport(stream.name, "SKIPPED", reason, stream.refresh_mode)


def passing(reason: str) -> bool:
    """Whether it is a matter of moments, not worth a line of history."""
    return reason.startswith(_PASSING)


def note(engine: Engine, stream: StreamTable, report: RefreshReport) -> None:
    """Write down that it was skipped."""
    with engine.catalog.writing() as connection:
        add_history(connection, stream.uuid, report, engine.settings.history_rows)


def held_up(upstream: Sequence[RefreshReport]) -> str | None:
    """Why a stream table cannot be refreshed after these; a failure tells more than a suspension."""
    held = [report for report in upstream if report.effective_mode in ("ERROR", "SKIPPED")]
    by_hand = [report for report in held if report.reason.startswith(_SUSPENSIONS)]
    moments = [report for report in held if passing(report.reason)]
    failed = [report for report in held if report not in (*by_hand, *moments)]
    if failed:
        return f"{UPSTREAM_FAILED}: {failed[0].name} was not refreshed"
    if by_hand:
        return f"{UPSTREAM_SUSPENDED}: {by_hand[0].name} is suspended, or reads one that is"
    if moments:
        return f"{UPSTREAM_BUSY}: {moments[0].name} is being refreshed, or waits for one that is"
    return None
