"""Runs files of statements with their expected answers.

A file has blocks, parted by empty lines; a block is a line that says what is expected, then SQL:

    statement ok                 DDL, or whatever the answer is
    statement error some words   a TrickleError whose message has these words
    count 3                      so many rows are affected
    answer                       then ----, then the text that is answered
    query                        then ----, then the rows, a | between values
    duckdb                       as query, but DuckDB is asked, about this very lake
    both                         as query, and DuckDB gives the same answer to the same statement,
                                 after all statements that are marked with a leading "both "
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import spark_trickle
from spark_trickle.statements.read import read_statement
from spark_trickle.statements.text.tokens import split_statements
from support import duck


@dataclass(frozen=True)
class Block:
    path: Path
    line: int
    expects: str
    sql: str
    answer: str | None

    def __str__(self) -> str:
        return f"{self.path.name}:{self.line}: {self.sql}"


def blocks(path: Path) -> Iterator[Block]:
    lines = path.read_text(encoding="utf-8").split("\n")
    start = 0
    for end in range(len(lines) + 1):
        if end < len(lines) and lines[end].strip():
            continue
        body = [line for line in lines[start:end] if not line.startswith("#")]
        if body:
            first, *rest = body
            text = "\n".join(rest)
            sql, parted, answer = text.partition("\n----")
            yield Block(path, start + 1, first, sql, answer.strip("\n") if parted else None)
        start = end + 1


def examples() -> list[str]:
    """The statements of docs/sql.md, in order."""
    page = (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")
    parts = re.findall(r"^```sql\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    return [statement for part in parts for statement in split_statements(part)]


def kind_of(sql: str) -> str:
    """What a statement is: the name of its record."""
    found = read_statement(sql)
    asked = getattr(found, "explain", False)
    return f"Explain{type(found).__name__}" if asked else type(found).__name__


def run(lake: spark_trickle.Lake, path: Path, location: str | None = None) -> None:
    """Run a file; AssertionError with the place of the first answer that is another one.

    ``location``: of a lake that is not a folder.
    """
    shared: list[str] = []
    for block in blocks(path):
        words = block.expects.split()
        both = words[0] == "both"
        if both:
            shared.append(block.sql)
            words = words[1:] or ["query"]
        got = _answer(lake, block, words, location)
        if block.answer is not None:
            assert got == block.answer, f"{block}\n--- expected\n{block.answer}\n--- got\n{got}"
        if both and words == ["query"]:
            theirs = duck.run(["SELECT 1"], shared)[-1]
            assert _lines(theirs) == block.answer, f"{block}\nDuckDB says\n{_lines(theirs)}"


def _answer(lake: spark_trickle.Lake, block: Block, words: list[str], location: str | None) -> str:
    match words:
        case ["statement", "error", *rest]:
            _fails(lake, block, " ".join(rest))
            return ""
        case ["count", number]:
            affected = lake.sql(block.sql)
            assert affected == int(number), f"{block}\n{affected} rows"
            return ""
        case ["statement", "ok"] | ["answer"]:
            return str(lake.sql(block.sql)).strip("\n")
        case ["query"]:
            return _rows(_asked(lake, block.sql))
        case ["duckdb"]:
            place = duck.catalog_of(location or Path(lake._catalog.database.name).parent)
            return _lines(duck.read(place, [block.sql])[0])
        case _:
            raise AssertionError(f"{block.path.name}:{block.line}: {block.expects} is not known")


def _fails(lake: spark_trickle.Lake, block: Block, words: str) -> None:
    with pytest.raises(spark_trickle.TrickleError) as caught:
        _asked(lake, block.sql)
    assert words in caught.value.message, f"{block}\n{caught.value}"


def _asked(lake: spark_trickle.Lake, sql: str) -> pa.Table:
    listed = lake.listing(sql)
    return lake.sql(sql).toArrow() if listed is None else listed


def _rows(data: pa.Table) -> str:
    return _lines(zip(*(column.to_pylist() for column in data.columns), strict=True))


def _lines(rows: Any) -> str:
    return "\n".join(" | ".join(_text(value) for value in row).rstrip() for row in rows)


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return str(value).replace("\n", "\\n")
