"""docs/compat.md says what the code does: its tables are made from it (``--rewrite`` writes them)."""

from __future__ import annotations

import os
import re
from pathlib import Path

from spark_trickle.compat.table import function_table, refused_table
from support.dialect import expressions, refused

PAGE = Path(__file__).parents[2] / "docs" / "compat.md"


def filled(text: str, name: str, body: str) -> str:
    pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda m: m[1] + body + m[2], text, flags=re.DOTALL)


def dialect_table() -> str:
    """By family: how many expressions are compared with a server, and which are refused and why."""
    given: dict[str, int] = {}
    told: dict[str, dict[str, str]] = {}
    for family, text in expressions():
        reason = refused(text)
        if reason is None:
            given[family] = given.get(family, 0) + 1
        else:
            told.setdefault(family, {}).setdefault(reason, text)
    lines = ["| family | PostgreSQL's answer | refused, for example |", "|---|---|---|"]
    for family, count in given.items():
        shown = [f"`{text}`" for text in told.get(family, {}).values()]
        listed = ", ".join(shown).replace("|", "\\|")
        lines.append(
            f"| {family} | {count} expressions | {listed} |".replace("| || ", "| `\\|\\|` ")
        )
    return "\n".join(lines) + "\n"


def test_the_page_is_current() -> None:
    text = PAGE.read_text()
    wanted = filled(filled(text, "functions", function_table()), "refused", refused_table())
    wanted = filled(wanted, "dialect", dialect_table())
    if os.environ.get("REWRITE"):
        PAGE.write_text(wanted)
    assert PAGE.read_text() == wanted
