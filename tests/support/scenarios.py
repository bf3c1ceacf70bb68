"""Scenario files: a query, steps of changes, and the delta each step must give."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sqlglot import exp

from spark_trickle.compile import compile_query
from spark_trickle.ir.types import Column, TableSchema
from support.delta_law import Laboratory
from support.queries import Data, Row

FOLDER = Path(__file__).parent.parent / "scenarios"
FILES = sorted(FOLDER.glob("*.txt"))
CHANGE = re.compile(r"([+-])(\d*)\s*(\w*)\(([^)]*)\)")


@dataclass
class Step:
    """One batch of changes, and the net delta of the result."""

    line: str
    changes: dict[str, Counter[Row]]
    delta: Counter[Row] = field(default_factory=Counter)


@dataclass
class Scenario:
    """A parsed file."""

    header: list[str]
    sources: dict[str, TableSchema]
    view: str
    oracle: str
    """The same query in DuckDB's words, where they differ."""
    parts: str
    """How each stored part is maintained."""
    steps: list[Step]

    def batches(self) -> Iterator[tuple[Step, Data]]:
        """Each step with the tables before it."""
        before: dict[str, Counter[Row]] = {name: Counter() for name in self.sources}
        for step in self.steps:
            data = Data(before, step.changes)
            yield step, data
            before = data.after()


def parse(text: str) -> Scenario:
    header: list[str] = []
    sources: dict[str, TableSchema] = {}
    view = oracle = parts = ""
    steps: list[Step] = []
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "step":
            steps.append(Step(line, _changes(rest)))
        elif word == "delta":
            steps[-1].delta = _changes(rest).get("", Counter())
        elif word == "parts":
            parts = rest
        else:
            header.append(line)
            if word == "tables":
                sources = _tables(rest)
            elif word == "view":
                view = oracle = rest
            elif word == "duckdb":
                oracle = rest
    return Scenario(header, sources, view, oracle, parts, steps)


def _tables(text: str) -> dict[str, TableSchema]:
    sources = {}
    for name, columns in re.findall(r"(\w+)\(([^)]*)\)", text):
        pairs = [column.split() for column in columns.split(",")]
        schema = tuple(
            Column(i, name, exp.DataType.build(type, dialect="spark"))
            for i, (name, type) in enumerate(pairs)
        )
        sources[name] = TableSchema(name, schema)
    return sources


def _changes(text: str) -> dict[str, Counter[Row]]:
    changes: dict[str, Counter[Row]] = {}
    for sign, count, table, values in CHANGE.findall(text):
        row = tuple(_value(value.strip()) for value in values.split(","))
        changes.setdefault(table, Counter())[row] += int(sign + (count or "1"))
    return changes


def _value(text: str) -> object:
    if text == "null":
        return None
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("'"):
        return text[1:-1]
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def shown(row: Row, weight: int) -> str:
    values = ", ".join(_text(value) for value in row)
    number = "" if abs(weight) == 1 else str(abs(weight))
    return f"{'+' if weight > 0 else '-'}{number} ({values})"


def _text(value: object) -> str:
    if value is None:
        return "null"
    return repr(value) if isinstance(value, str | float) else str(value).lower()


def all_scenarios() -> Iterator[Scenario]:
    """Every scenario file."""
    return (parse(path.read_text()) for path in FILES)


def breaks(scenario: Scenario) -> bool:
    """Whether the delta law fails at any step."""
    laboratory = Laboratory(scenario.sources)
    query = compile_query(scenario.view, scenario.sources)
    try:
        for _, data in scenario.batches():
            laboratory.load(data)
            if laboratory.check(query, scenario.oracle, data) is not None:
                return True
        return False
    finally:
        laboratory.close()
