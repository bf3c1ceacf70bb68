"""The results as an SVG picture: two bars for each query, on a logarithmic scale of seconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from spark_trickle.tpch import queries
from spark_trickle.tpch.results import Line, geometric_mean

_LEFT, _RIGHT, _TOP, _ROW = 48, 110, 64, 26
_WIDTH = 860
_FULL, _DELTA, _INK, _GRID = "#b8bec9", "#2a6fdb", "#1f2430", "#e6e8ee"
Across = Callable[[float], float]
"""Where a number of seconds is, from left to right."""
_FONT = "font-family='system-ui, sans-serif' font-size='12'"


def svg(title: str, found: Sequence[Line]) -> str:
    """A picture of its own: no scripts, no fonts, no links."""
    height = _TOP + _ROW * len(found) + 34
    seconds = [s for line in found for s in (line.instead, line.differential)]
    low = math.floor(math.log10(min(seconds)))
    high = math.ceil(math.log10(max(seconds)))
    high = max(high, low + 1)
    place = (_WIDTH - _LEFT - _RIGHT) / (high - low)

    def across(value: float) -> float:
        return _LEFT + (math.log10(value) - low) * place

    mean = geometric_mean([line.instead / line.differential for line in found])
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {height}' {_FONT}>",
        f"<rect width='{_WIDTH}' height='{height}' fill='white'/>",
        _text(_LEFT, 22, title, "font-size='15' font-weight='600'"),
        _legend(_LEFT, 44, "plain Spark" if found[0].plain else "FULL", mean),
        *_grid(low, high, across, height),
    ]
    for row, line in enumerate(found):
        parts += _bars(line, _TOP + row * _ROW, across)
    return "\n".join([*parts, "</svg>", ""])


def _text(x: float, y: float, words: str, more: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' fill='{_INK}' {more}>{escape(words)}</text>"


def _bar(y: float, end: float, colour: str) -> str:
    return (
        f"<rect x='{_LEFT}' y='{y:.1f}' width='{max(1.0, end - _LEFT):.1f}' height='9' rx='2' "
        f"fill='{colour}'/>"
    )


def _legend(x: float, y: float, opponent: str, mean: float) -> str:
    return "".join(
        [
            f"<rect x='{x}' y='{y - 9}' width='10' height='10' fill='{_FULL}'/>",
            _text(x + 15, y, opponent),
            f"<rect x='{x + 95}' y='{y - 9}' width='10' height='10' fill='{_DELTA}'/>",
            _text(x + 110, y, f"DIFFERENTIAL   (seconds; geometric mean {mean:.1f}x faster)"),
        ]
    )


def _grid(low: int, high: int, across: Across, height: int) -> list[str]:
    parts = []
    for power in range(low, high + 1):
        x = across(10.0**power)
        parts.append(
            f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{_TOP - 8}' y2='{height - 26}' stroke='{_GRID}'/>"
        )
        parts.append(_text(x, height - 10, f"{10.0**power:g}", "text-anchor='middle'"))
    return parts


def _bars(line: Line, y: float, across: Across) -> list[str]:
    end = max(across(line.instead), across(line.differential))
    return [
        _text(_LEFT - 8, y + 14, queries.name(line.query), "text-anchor='end'"),
        _bar(y, across(line.instead), _FULL),
        _bar(y + 10, across(line.differential), _DELTA),
        _text(end + 8, y + 14, f"{line.instead / line.differential:.1f}x"),
    ]
