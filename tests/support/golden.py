"""Golden files: input, ``----``, expected text; cases are divided by ``====``.

``pytest --rewrite`` writes the actual text into the files; the reviewer reads the diff.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from spark_trickle.ir.types import TableSchema
from support import tpch
from support.tpch import source

FOLDER = Path(__file__).parent.parent / "golden"
_CASES = "\n====\n"
_EXPECTED = "\n----\n"


@dataclass(frozen=True)
class Case:
    """One case: settings before the query, the query, and the expected text."""

    settings: dict[str, str]
    sources: dict[str, TableSchema]
    sql: str
    head: str
    expected: str


def files(stage: str) -> list[Path]:
    """The golden files of a stage."""
    return sorted((FOLDER / stage).glob("*.txt"))


def check_file(path: Path, actual: Callable[[Case], str]) -> None:
    """Compare every case of a file with what ``actual`` says, or rewrite it."""
    cases = list(read(path))
    texts = [actual(case).rstrip("\n") for case in cases]
    if os.environ.get("REWRITE"):
        parts = [case.head + _EXPECTED + text for case, text in zip(cases, texts, strict=True)]
        path.write_text(_CASES.join(parts) + "\n")
        return
    for case, text in zip(cases, texts, strict=True):
        assert text == case.expected, case.sql


def read(path: Path) -> Iterator[Case]:
    """The cases of a file; settings stand in lines ``word: value`` and hold until changed."""
    settings: dict[str, str] = {}
    for part in path.read_text().rstrip("\n").split(_CASES):
        head, _, expected = part.partition(_EXPECTED)
        query = []
        for line in head.splitlines():
            found = re.match(r"(tables|pass|dialect|view|changed|inserts): (.*)", line)
            if found:
                settings = {**settings, found[1]: found[2]}
            else:
                query.append(line)
        yield Case(
            dict(settings), _sources(settings["tables"]), "\n".join(query).strip(), head, expected
        )


def _sources(text: str) -> dict[str, TableSchema]:
    if text == "tpch":
        return tpch.sources()
    made = [
        source(name, columns) for name, columns in re.findall(r"(\w+)\((.*?)\);?(?=\s|$)", text)
    ]
    return {item.name: item for item in made}
