"""The functions as a table for docs/compat.md."""

from __future__ import annotations

from spark_trickle.compat.door import FUNCTIONS
from spark_trickle.compat.functions import PgFunction


def function_table() -> str:
    """Markdown: function, and what it does here or why it is not there."""
    there = [f for f in FUNCTIONS.values() if f.run is not None]
    absent = [f for f in FUNCTIONS.values() if f.run is None]
    lines = ["| function | here |", "|---|---|"]
    lines += [f"| `{f.signature}` | {f.does} |" for f in there]
    lines += [f"| `{f}` | not there: {f.does} |" for f in absent]
    return "\n".join(lines) + "\n"


def refused_table() -> str:
    """Markdown: parameters that are refused by name."""
    found: dict[tuple[str, str], list[PgFunction]] = {}
    for function in FUNCTIONS.values():
        for parameter in function.parameters:
            if parameter.refused is not None:
                found.setdefault((parameter.name, parameter.refused), []).append(function)
    lines = ["| parameter | of | has no sense on a lake because |", "|---|---|---|"]
    for (name, why), functions in sorted(found.items()):
        users = sorted({f.name for f in functions})
        shown = users[0] if len(users) == 1 else f"{users[0]} and {len(users) - 1} more"
        lines.append(f"| `{name}` | {shown} | {why} |")
    return "\n".join(lines) + "\n"
