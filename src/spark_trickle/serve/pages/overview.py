"""The overview: every stream table on one line."""

from __future__ import annotations

from collections import Counter

from spark_trickle.serve.pages.charts import sparkline
from spark_trickle.serve.pages.frame import badge, link, mode, well
from spark_trickle.serve.pages.markup import Child, Html, count, cut, duration, join, moment, tag
from spark_trickle.serve.sight import Seen, Sight

STATES = ("ERROR", "SUSPENDED", "FAILING", "STALE", "RUNNING", "WAITING", "EMPTY", "FRESH")
"""The worst first."""
_HEAD = ("table", "state", "lag", "target", "last", "reason", "seconds", "pending", "refreshed")
_NUMBERS = ("lag", "target", "pending")


def overview(sight: Sight) -> Html:
    seen = sight.seen()
    if not seen:
        words = "No stream tables yet. Make one: "
        example = "CREATE STREAM TABLE totals SCHEDULE '1m' AS SELECT …"
        return join(well(sight), tag("p", words, tag("code", example)))
    found = Counter(one.state for one in seen)
    tiles = [tag("span", badge(state), f" {found[state]}") for state in STATES if found[state]]
    box = tag("input", id="filter", type="search", placeholder="filter", aria_label="filter")
    head = [
        tag("th", tag("button", name, type="button"), data_sort=name, cls=_side(name))
        for name in _HEAD
    ]
    rows = [_row(one) for one in seen]
    table = tag(
        "table", tag("thead", tag("tr", *head)), tag("tbody", *rows), cls="sortable", id="overview"
    )
    version = tag("span", f"version {sight.look()[1].version}", cls="quiet")
    line = tag("p", *tiles, " ", version, " ", box, cls="tiles")
    return join(well(sight), line, tag("div", table, cls="wide"))


def _row(one: Seen) -> Html:
    facts, newest = one.facts, one.facts.newest
    reason = newest.reason if newest is not None else ""
    target = facts.target
    cells: list[tuple[Child, object]] = [
        (link("/table", cut(one.name, 60), name=one.name), one.name),
        (badge(one.state), STATES.index(one.state)),
        (duration(facts.staleness) if facts.staleness else "–", facts.staleness),
        (duration(target) if target is not None else "–", target if target is not None else 1e12),
        (mode(newest.effective_mode if newest else None), newest.effective_mode if newest else ""),
        (tag("span", cut(reason, 90), title=cut(reason, 1000)), cut(reason, 90)),
        (sparkline(one.seconds), one.seconds[-1] if one.seconds else 0.0),
        (count(one.pending_rows), one.pending_rows if one.pending_rows is not None else 1e15),
        (moment(newest.started_at if newest else None), newest.started_at if newest else 0.0),
    ]
    return tag(
        "tr",
        *(
            tag("td", shown, data_value=value, cls=_side(name))
            for (shown, value), name in zip(cells, _HEAD, strict=True)
        ),
        cls=f"row-{one.state}",
    )


def _side(name: str) -> str | None:
    return "number" if name in _NUMBERS else None
