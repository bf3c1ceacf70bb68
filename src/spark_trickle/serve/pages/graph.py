"""The graph of who reads whom, as SVG: sources on the left, each reader to the right of all it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_trickle.maintain.watch.overview import edges
from spark_trickle.serve.pages.frame import badge, url
from spark_trickle.serve.pages.markup import Html, cut, join, tag
from spark_trickle.serve.sight import Sight, state_of

_WIDE, _HIGH, _GAP_X, _GAP_Y = 190, 34, 90, 14
_LETTERS = 24
Edges = Sequence[tuple[str, str]]


def graph(sight: Sight) -> Html:
    known, state = sight.look()
    arrows = [(edge.source, edge.reader) for edge in edges(known)]
    states = {facts.stream.name: state_of(facts) for facts in state.tables}
    names = {*states, *(source for source, _ in arrows)}
    if not names:
        return tag("p", "No stream tables yet.")
    places = _places(sorted(names), arrows)
    width = max(x for x, _ in places.values()) + _WIDE + 2
    height = max(y for _, y in places.values()) + _HIGH + 2
    inside = [*(_arrow(places[a], places[b]) for a, b in arrows)]
    inside += [_node(name, *places[name], states.get(name)) for name in places]
    size = {"width": width, "height": height, "viewBox": f"0 0 {width} {height}"}
    drawn = tag("svg", *inside, cls="graph", role="img", **size)
    shown = [badge(word) for word in sorted(set(states.values()))]
    legend = tag("p", badge("TABLE"), *shown, cls="tiles")
    return join(legend, tag("div", drawn, cls="wide"))


def levels(names: Sequence[str], arrows: Edges) -> dict[str, int]:
    """How many steps each is from the left; one that is in a circle stands where it was met."""
    found = dict.fromkeys(names, 0)
    for _ in names:
        moved = False
        for source, reader in arrows:
            if found[reader] <= found[source] < len(names):
                found[reader] = found[source] + 1
                moved = True
        if not moved:
            break
    return found


def _places(names: Sequence[str], arrows: Edges) -> dict[str, tuple[int, int]]:
    """The corner of each box: columns by level, within them near to what they read."""
    level = levels(names, arrows)
    rows: dict[str, float] = {}
    places = {}
    for column in range(max(level.values()) + 1):
        own = [name for name in names if level[name] == column]
        own.sort(key=lambda name: (_middle(name, arrows, rows), name))
        for row, name in enumerate(own):
            rows[name] = row
            places[name] = (1 + column * (_WIDE + _GAP_X), 1 + row * (_HIGH + _GAP_Y))
    return places


def _middle(name: str, arrows: Edges, rows: Mapping[str, float]) -> float:
    above = [rows[source] for source, reader in arrows if reader == name and source in rows]
    return sum(above) / len(above) if above else 0.0


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> Html:
    x1, y1 = start[0] + _WIDE, start[1] + _HIGH // 2
    x2, y2 = end[0], end[1] + _HIGH // 2
    bend = (x1 + x2) // 2
    return tag("path", d=f"M{x1} {y1} C{bend} {y1} {bend} {y2} {x2} {y2}", cls="arrow")


def _node(name: str, x: int, y: int, state: str | None) -> Html:
    box = tag(
        "rect", x=x, y=y, width=_WIDE, height=_HIGH, rx=5, cls=f"node state-{state or 'TABLE'}"
    )
    words = tag("text", cut(name, _LETTERS), x=x + 10, y=y + _HIGH // 2 + 4)
    told = tag("title", f"{cut(name, 500)}: {state or 'table'}")
    if state is None:
        return tag("g", told, box, words)
    return tag("a", told, box, words, href=url("/table", name=name))
