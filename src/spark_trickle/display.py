"""How records look in notebooks: small HTML tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_facts(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """A title and one line for each fact; what is None is left out."""
    lines = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(str(value))}</td></tr>"
        for name, value in facts
        if value is not None
    )
    return f"<div><b>{escape(title)}</b><table>{lines}</table></div>"


def html_rows(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A title and rows under their names; NULL is not the text NULL."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td>{'<i>NULL</i>' if value is None else escape(str(value))}</td>" for value in row
        )
        + "</tr>"
        for row in rows
    )
    return f"<div><b>{escape(title)}</b><table><tr>{head}</tr>{body}</table></div>"


def plural(count: int, what: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{count:,} {what if count == 1 else what + 's'}"
