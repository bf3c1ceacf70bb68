"""Markup: every value that is put into a page becomes text, unless a function here made it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import escape

_VOID = ("input", "meta", "link", "br")
_UNPRINTED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
"""Control characters, and halves of characters, which no encoding has."""


class Html(str):
    """Markup; a plain ``str`` is not."""

    __slots__ = ()


Child = Html | str | int | float | None


def text(value: object) -> Html:
    """The value as text: nothing in it means anything to a browser."""
    if isinstance(value, Html):
        return value
    return Html(escape(_UNPRINTED.sub("\N{REPLACEMENT CHARACTER}", str(value)), quote=True))


def tag(name: str, /, *children: Child, **attributes: object) -> Html:
    """An element. ``cls`` is the class, ``_`` in names of attributes stands for ``-``."""
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = "class" if key == "cls" else key.rstrip("_").replace("_", "-")
        words.append(key if value is True else f'{key}="{text(value)}"')
    opened = Html("<" + " ".join(words) + ">")
    if name in _VOID:
        return opened
    return join(opened, *children, Html(f"</{name}>"))


def join(*children: Child) -> Html:
    return Html("".join(text(child) for child in children if child is not None))


def table(
    head: list[str], rows: list[list[Child]], cls: str = "", numbers: tuple[str, ...] = ()
) -> Html:
    """Rows of cells; columns named in ``numbers`` stand to the right."""
    sides = ["number" if name in numbers else None for name in head]
    cells = [tag("th", name, cls=side) for name, side in zip(head, sides, strict=True)]
    body = [
        tag("tr", *(tag("td", cell, cls=side) for cell, side in zip(row, sides, strict=True)))
        for row in rows
    ]
    inside = tag("thead", tag("tr", *cells)), tag("tbody", *body)
    return tag("div", tag("table", *inside, cls=cls or None), cls="wide")


def cut(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"


def duration(seconds: float) -> str:
    """Two digits are enough for people."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def moment(seconds: float | None) -> Html | None:
    """A time; the page's script shows it in the reader's own zone."""
    if seconds is None:
        return None
    at = datetime.fromtimestamp(seconds, UTC)
    return tag("time", at.strftime("%Y-%m-%d %H:%M:%SZ"), datetime=at.isoformat())


def count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"
