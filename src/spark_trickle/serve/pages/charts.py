"""Small charts as SVG, drawn on the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10

from spark_trickle.serve.pages.markup import Html, duration, tag

WIDTH, HEIGHT = 560, 170
_LEFT, _TOP, _BOTTOM = 62, 10, 20
_FEW = 20
"""A chart has room for so many values at least."""


@dataclass(frozen=True)
class Point:
    """One value of a chart; ``kind`` is the name of its colour."""

    place: int
    value: float
    kind: str
    title: str


def sparkline(values: Sequence[float], width: int = 120, height: int = 22) -> Html:
    """The newest value is on the right."""
    if not values:
        return Html("")
    top = max(values) or 1.0
    step = width / max(1, len(values) - 1)
    dots = [
        (round(i * step, 1), round(height - 2 - (height - 4) * v / top, 1))
        for i, v in enumerate(values)
    ]
    line = " ".join(f"{x},{y}" for x, y in dots)
    inside = [
        tag("title", f"{len(values)} refreshes, the slowest {duration(top)}"),
        tag("polyline", points=line if len(dots) > 1 else f"{line} {width},{dots[0][1]}"),
        tag("circle", cx=dots[-1][0] if len(dots) > 1 else width, cy=dots[-1][1], r=2),
    ]
    size = {"width": width, "height": height, "viewBox": f"-2 0 {width + 4} {height}"}
    return tag("svg", *inside, cls="spark", role="img", **size)


def bars(points: Sequence[Point], *, places: int, unit: str = "s") -> Html:
    """Values from the left to the right; below zero they hang down."""
    top = max((p.value for p in points), default=0.0) or 1.0
    low = min((p.value for p in points), default=0.0)
    low = min(low, 0.0)
    space = (WIDTH - _LEFT) / max(_FEW, places)
    high = HEIGHT - _TOP - _BOTTOM

    def y(value: float) -> float:
        return round(_TOP + high * (top - value) / (top - low), 1)

    drawn = [
        tag(
            "rect",
            tag("title", point.title),
            x=round(_LEFT + point.place * space, 1),
            y=min(y(point.value), y(0.0)),
            width=round(max(1.0, space - 1), 1),
            height=round(max(1.0, abs(y(point.value) - y(0.0))), 1),
            cls=f"mode-{point.kind}",
        )
        for point in points
        if point.value
    ]
    marks = [(top, y(top)), (0.0, y(0.0)), *([(low, y(low))] if low else [])]
    return _frame([*_axis(marks, unit), *drawn])


def lines(series: Mapping[str, Sequence[tuple[int, float]]], *, places: int) -> Html:
    """Several lines over the same places, the height as a logarithm: costs differ by factors."""
    values = [max(value, 1e-4) for line in series.values() for _, value in line]
    if not values:
        return Html("")
    low, top = log10(min(values)), log10(max(values))
    spread = max(top - low, 0.3)
    space = (WIDTH - _LEFT) / max(_FEW, places)
    high = HEIGHT - _TOP - _BOTTOM

    def y(value: float) -> float:
        return round(_TOP + high * (low + spread - log10(max(value, 1e-4))) / spread, 1)

    drawn = []
    for kind, line in series.items():
        dots = " ".join(f"{round(_LEFT + (i + 0.5) * space, 1)},{y(v)}" for i, v in line)
        drawn.append(tag("polyline", tag("title", kind), points=dots, cls=f"line mode-{kind}"))
    marks = [(10 ** (low + spread), y(10 ** (low + spread))), (10**low, y(10**low))]
    return _frame([*_axis(marks, "s"), *drawn])


def legend(kinds: Mapping[str, str]) -> Html:
    """What the colours mean."""
    entries = [
        tag("span", tag("i", cls=f"mode-{kind}"), f" {words}") for kind, words in kinds.items()
    ]
    return tag("p", *entries, cls="legend")


def _axis(marks: Sequence[tuple[float, float]], unit: str) -> list[Html]:
    found = []
    for value, y in marks:
        label = duration(value) if unit == "s" else f"{value:,.0f}"
        found.append(tag("line", x1=_LEFT, x2=WIDTH, y1=y, y2=y, cls="axis"))
        found.append(tag("text", label, x=_LEFT - 6, y=y + 4, text_anchor="end"))
    return found


def _frame(inside: Sequence[Html]) -> Html:
    size = {"viewBox": f"0 0 {WIDTH} {HEIGHT}"}
    return tag("svg", *inside, cls="chart", role="img", **size)
