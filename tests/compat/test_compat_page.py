"""docs/compat.md says what the code does: its tables are made from it (``--rewrite`` writes them)."""

from __future__ import annotations

import os
import re
from pathlib import Path

from spark_trickle.compat.table import function_table, refused_table

PAGE = Path(__file__).parents[2] / "docs" / "compat.md"


def filled(text: str, name: str, body: str) -> str:
    pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda m: m[1] + body + m[2], text, flags=re.DOTALL)


def test_the_page_is_current() -> None:
    text = PAGE.read_text()
    wanted = filled(filled(text, "functions", function_table()), "refused", refused_table())
    if os.environ.get("REWRITE"):
        PAGE.write_text(wanted)
    assert PAGE.read_text() == wanted
