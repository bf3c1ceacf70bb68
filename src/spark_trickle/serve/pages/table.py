"""The page of one stream table."""

from __future__ import annotations

from collections.abc import Sequence

from spark_trickle.errors import TrickleError
from spark_trickle.maintain.records.history import MEASURED, RefreshReport
from spark_trickle.maintain.refresh.strategy import estimate
from spark_trickle.maintain.watch.facts import Facts
from spark_trickle.serve.access import OPERATOR
from spark_trickle.serve.jobs import Job
from spark_trickle.serve.pages.actions import ACTIONS, offered
from spark_trickle.serve.pages.charts import Point, bars, legend, lines
from spark_trickle.serve.pages.frame import badge, link, mode, url
from spark_trickle.serve.pages.markup import (
    Child,
    Html,
    count,
    cut,
    duration,
    join,
    moment,
    table,
    tag,
)
from spark_trickle.serve.pages.rows import shown
from spark_trickle.serve.sight import Sight, state_of

_SHOWN = 60
"""Refreshes in history and charts."""
_HEAD = ["began", "mode", "reason", "+", "−", "read", "bytes", "queries", "engine", "seconds", "id"]
_NUMBERS = ("+", "−", "read", "bytes", "queries", "seconds")


def table_page(sight: Sight, name: str, role: str, jobs: Sequence[Job]) -> Html:
    facts = sight.facts(name)
    history = sight.history(facts.stream.uuid, _SHOWN)
    return join(
        tag("h1", facts.stream.name),
        _facts(sight, facts),
        _buttons(facts, role),
        *(_job(job) for job in jobs[:3]),
        _charts(history),
        tag("h2", "History"),
        _history(facts, history),
        tag("h2", "Definition"),
        tag("pre", facts.stream.query),
        tag("h2", "Columns"),
        _columns(sight, facts),
        tag("h2", "Explain"),
        tag(
            "details", tag("summary", "verdict, plan, delta SQL"), _explain(sight, facts), id="plan"
        ),
    )


def _facts(sight: Sight, facts: Facts) -> Html:
    stream = facts.stream
    entries: list[tuple[str, Child]] = [
        ("state", badge(state_of(facts))),
        ("refresh mode", stream.refresh_mode),
        ("schedule", stream.schedule or "none of its own"),
        ("lag", duration(facts.staleness) if facts.staleness else "none"),
        ("target", duration(facts.target) if facts.target is not None else "none"),
        ("next due", moment(facts.next_due) or "by hand, or with its readers"),
        ("refreshed by", facts.lease.holder or "nobody just now"),
        ("pending versions", count(facts.pending_versions)),
    ]
    if stream.last_error:
        entries.append(("last error", tag("pre", cut(stream.last_error, 20_000), cls="error")))
    newest = sight.look()[1].version
    frontier = [
        join(_source(sight, s.uuid, s.name), f" at version {s.version}", tag("br"))
        for s in stream.sources
    ]
    entries.append((f"frontier (newest: {newest})", join(*frontier)))
    return tag("dl", *(join(tag("dt", name), tag("dd", value)) for name, value in entries))


def _source(sight: Sight, uuid: str, name: str) -> Child:
    """A link, where the source is a stream table itself."""
    known = sight.look()[0]
    now = known.names.get(uuid, name)
    is_stream = any(table.uuid == uuid for table in known.tables)
    return link("/table", cut(now, 80), name=now) if is_stream else cut(now, 80)


def _buttons(facts: Facts, role: str) -> Html | None:
    """Each leads to a page that asks once more."""
    if role != OPERATOR:
        return None
    buttons = [
        tag(
            "form",
            tag("input", type="hidden", name="name", value=facts.stream.name),
            tag("button", ACTIONS[action].words, name="action", value=action),
            method="get",
            action="/confirm",
        )
        for action in offered(facts.stream)
    ]
    return tag("div", *buttons, cls="actions")


def _job(job: Job) -> Html:
    """What became of a button."""
    said = f"{duration(job.seconds)}: {job.outcome.words}" if job.outcome.words else "…"
    line = tag("p", badge(job.state), f" {job.what} ", tag("span", cut(said, 10_000)), cls="job")
    return line if job.outcome.rows is None else join(line, shown(job.outcome.rows))


def _charts(history: Sequence[RefreshReport]) -> Html:
    reports = list(reversed(history))
    if not reports:
        return tag("p", "It was not refreshed yet.")
    modes = {r.effective_mode: r.effective_mode for r in reports}
    seconds = [
        Point(i, r.seconds, r.effective_mode, f"{r.effective_mode}, {duration(r.seconds)}")
        for i, r in enumerate(reports)
    ]
    rows = [Point(i, r.rows_inserted, "in", f"+{r.rows_inserted}") for i, r in enumerate(reports)]
    rows += [Point(i, -r.rows_deleted, "out", f"−{r.rows_deleted}") for i, r in enumerate(reports)]
    read = [Point(i, r.rows_read, "in", count(r.rows_read)) for i, r in enumerate(reports)]
    places = len(reports)
    return tag(
        "div",
        _figure("Seconds by mode", bars(seconds, places=places), legend(modes)),
        _figure(
            "Rows inserted and deleted",
            bars(rows, places=places, unit="rows"),
            legend({"in": "inserted", "out": "deleted"}),
        ),
        _figure("Rows read", bars(read, places=places, unit="rows"), legend({"in": "read"})),
        _estimates(history),
        cls="charts",
    )


def _estimates(history: Sequence[RefreshReport]) -> Html | None:
    """What AUTO expected of both ways before each refresh, from those before it."""
    measured = [r for r in history if r.effective_mode in MEASURED]
    series: dict[str, list[tuple[int, float]]] = {"DIFFERENTIAL": [], "FULL": []}
    places = len(measured)
    for age, report in enumerate(measured):
        expected = estimate(measured[age + 1 :], report.delta_rows, report.source_rows)
        place = places - 1 - age
        series["DIFFERENTIAL"].append((place, expected.differential))
        if expected.full is not None:
            series["FULL"].append((place, expected.full))
    drawn = lines({kind: sorted(points) for kind, points in series.items()}, places=places)
    words = {"DIFFERENTIAL": "by deltas", "FULL": "in full"}
    return _figure("Expected seconds, by deltas against in full", drawn, legend(words))


def _figure(title: str, *inside: Child) -> Html:
    return tag("figure", tag("figcaption", title), *inside)


def _history(facts: Facts, history: Sequence[RefreshReport]) -> Html:
    rows: list[list[Child]] = [
        [
            moment(report.started_at),
            mode(report.effective_mode),
            tag("span", cut(report.error or report.reason, 10_000)),
            count(report.rows_inserted),
            count(report.rows_deleted),
            count(report.rows_read),
            count(report.bytes_read),
            report.spark_queries,
            report.engine,
            f"{report.seconds:.3f}",
            _changes_link(facts, report),
        ]
        for report in history
    ]
    return table(_HEAD, rows, cls="history", numbers=_NUMBERS)


def _changes_link(facts: Facts, report: RefreshReport) -> Child:
    if not report.rows_inserted and not report.rows_deleted:
        return tag("span", report.refresh_id, cls="quiet")
    address = url("/changes", name=facts.stream.name, version=report.version)
    return join(tag("span", report.refresh_id, cls="quiet"), " ", tag("a", "rows", href=address))


def _columns(sight: Sight, facts: Facts) -> Html:
    found = sight.catalog.find(facts.stream.uuid)
    rows: list[list[Child]] = [
        [c.name, c.type, "" if c.nullable else "NOT NULL", c.comment or ""]
        for c in (found.columns if found is not None else ())
    ]
    return table(["column", "type", "", "comment"], rows)


def _explain(sight: Sight, facts: Facts) -> Html:
    try:
        return tag("pre", sight.lake._streams.explain_table(facts.stream))
    except TrickleError as error:
        return tag("pre", str(error), cls="error")
