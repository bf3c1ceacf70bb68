"""What operators may do to a stream table: asked once more, then done in the background."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spark_trickle.errors import UserError
from spark_trickle.lake import Lake
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.records.streams import ERROR, SUSPENDED, StreamTable
from spark_trickle.serve.jobs import JobOutcome
from spark_trickle.serve.pages.frame import form, link
from spark_trickle.serve.pages.markup import Html, duration, join, tag


@dataclass(frozen=True)
class Action:
    words: str
    """On its button."""
    asks: str
    do: Callable[[Lake, str], JobOutcome]


def _reported(report: RefreshReport) -> JobOutcome:
    changed = f"+{report.rows_inserted} −{report.rows_deleted} rows"
    took = duration(report.seconds)
    return JobOutcome(f"{report.effective_mode}, {changed}, {took}: {report.reason}")


def _refresh(lake: Lake, name: str) -> JobOutcome:
    return _reported(lake.refresh_stream_table(name))


def _full(lake: Lake, name: str) -> JobOutcome:
    return _reported(lake.refresh_stream_table(name, full=True))


def _repair(lake: Lake, name: str) -> JobOutcome:
    return _reported(lake.repair_stream_table(name))


def _verify(lake: Lake, name: str) -> JobOutcome:
    found = lake.verify(name)
    if not found:
        return JobOutcome("equal to its query at the frontier, row by row")
    return JobOutcome(
        f"differs from its query by {found.rows.num_rows} rows", found.rows.slice(0, 50)
    )


def _suspend(lake: Lake, name: str) -> JobOutcome:
    lake.alter_stream_table(name, status="SUSPENDED")
    return JobOutcome("suspended")


def _resume(lake: Lake, name: str) -> JobOutcome:
    lake.alter_stream_table(name, status="ACTIVE")
    return JobOutcome("active again")


ACTIONS = {
    "refresh": Action("Refresh", "Bring it up to the newest version of its sources?", _refresh),
    "full": Action("Refresh in full", "Recompute everything? It may take long.", _full),
    "suspend": Action("Suspend", "Take it, and what reads it, out of the schedule?", _suspend),
    "resume": Action("Resume", "Put it back into the schedule?", _resume),
    "verify": Action("Verify", "Run its query and compare all rows? It may take long.", _verify),
    "repair": Action("Repair", "Build it anew from its sources?", _repair),
}


def action(word: str) -> Action:
    found = ACTIONS.get(word)
    if found is None:
        raise UserError(f"there is no action {word!r}", hint=f"one of {', '.join(ACTIONS)}")
    return found


def offered(stream: StreamTable) -> list[str]:
    """What makes sense as it is now."""
    if stream.status == ERROR:
        return ["repair", "verify"]
    if stream.status == SUSPENDED:
        return ["resume", "verify"]
    return ["refresh", "full", "suspend", "verify"]


def confirmation(name: str, word: str, mark: str) -> Html:
    """Asks again; nothing is done by opening a page."""
    wanted = action(word)
    button = tag("button", wanted.words, cls="danger", id="confirm")
    return join(
        tag("h1", f"{wanted.words}: {name}"),
        tag("p", wanted.asks),
        tag(
            "div",
            form("/act", mark, button, name=name, action=word),
            link("/table", "No, back", name=name),
            cls="actions",
        ),
    )
