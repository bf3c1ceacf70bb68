"""What ``explain`` says: five lines for everybody, then every stage; or one form for a program."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from spark_trickle.compile import CompiledQuery, explained, functions_called
from spark_trickle.delta.segment import RESULT
from spark_trickle.delta.support import FullOnly
from spark_trickle.errors import TrickleError, UserError
from spark_trickle.maintain.define.compiling import tables_read
from spark_trickle.maintain.define.writing import expanded_query
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.refresh.refresher import Refresher
from spark_trickle.spark.sessions.facts import Meaning
from spark_trickle.storage.records import TableName

FORMATS = ("text", "tree", "sql", "json", "mermaid")


def checked_format(form: str) -> str:
    if form not in FORMATS:
        raise UserError(f"there is no format {form!r}", hint=f"one of {', '.join(FORMATS)}")
    return form


@dataclass(frozen=True)
class Explainer:
    """Says what queries and stream tables are; starts no Spark."""

    refresher: Refresher

    def query(
        self, query: str, stage: str | None, dialect: str, form: str, mode: str = "AUTO"
    ) -> str:
        found = expanded_query(self.refresher.engine.catalog, query, dialect)
        if found.views:
            query, dialect = found.text.text, "spark"
        called = functions_called(query, dialect)
        engine = self.refresher.engine
        known = engine.holder.alive or (called and engine.holder.started)
        meaning = engine.meaning(called) if known else Meaning({})
        compiled = self.compiled(query, dialect, meaning)
        if stage is not None:
            return explained(compiled, stage)
        return told(query, compiled, _hoped(compiled, mode), {}, form)

    def table(self, stream: StreamTable, stage: str | None, form: str) -> str:
        if stage == "choice":
            return self._expected(stream)
        compiled = self.refresher.compile(stream)
        if stage is not None:
            return explained(compiled, stage)
        catalog = self.refresher.engine.catalog
        held = {s.part: catalog.scan(TableName.of(s.name)).rows for s in stream.segments}
        expected = self._expected(stream)
        text = told(stream.name, compiled, expected.strip(), held, form)
        return f"{text}\n== choice ==\n{expected}" if form == "text" else text

    def compiled(self, query: str, dialect: str, meaning: Meaning | None = None) -> CompiledQuery:
        catalog = self.refresher.engine.catalog
        tables = tables_read(catalog, query, dialect, catalog.version())
        return self.refresher.compiler.compile(query, dialect, tables.values(), meaning)

    def _expected(self, stream: StreamTable) -> str:
        try:
            choice = self.refresher.expected(stream)
        except TrickleError as error:
            return f"{error}\n"
        return f"{choice.mode}, {choice.reason}\n"


def _hoped(compiled: CompiledQuery, mode: str) -> str:
    """How a query would be kept under a mode."""
    if mode == "FULL":
        return "FULL, as asked for"
    if not isinstance(compiled.verdict, FullOnly):
        return "AUTO chooses by cost at each refresh" if mode == "AUTO" else f"{mode}, as asked for"
    if mode == "AUTO":
        return "FULL, because nothing else can be done"
    return f"none: {mode} refuses it"


def told(
    title: str, compiled: CompiledQuery, expected: str, held: Mapping[str, int], form: str
) -> str:
    """``expected``: the mode of the next refresh and why. ``held``: rows of private parts by name."""
    facts = _facts(title, compiled, expected, held)
    match form:
        case "tree":
            return compiled.explain("normalized")
        case "sql":
            return compiled.explain("sql") if compiled.parts else f"{compiled.sql.strip()}\n"
        case "json":
            stages = {stage: compiled.explain(stage) for stage in _stages(compiled)}
            return json.dumps({**facts, "stages": stages}, indent=2, ensure_ascii=False) + "\n"
        case "mermaid":
            return _mermaid(title, compiled)
        case _:
            lines = [f"{name:<8} {_line(value)}" for name, value in facts.items()]
            return "\n".join([*lines, "", explained(compiled, None)])


def _stages(compiled: CompiledQuery) -> tuple[str, ...]:
    few = ("normalized", "verdict")
    return (*few, "strategy", "fast_path", "delta", "sql") if compiled.parts else few


def _line(value: str | Mapping[str, str]) -> str:
    if isinstance(value, str):
        return value
    return "; ".join(f"{name}: {text}" for name, text in value.items()) or "none"


def _facts(
    title: str, compiled: CompiledQuery, expected: str, held: Mapping[str, int]
) -> dict[str, str | Mapping[str, str]]:
    verdict = compiled.verdict
    said = "Incremental"
    if isinstance(verdict, FullOnly):
        said = f"FullOnly, {verdict.code}: {verdict.message}"
    return {
        "explain": " ".join(title.split()),
        "verdict": said,
        "mode": expected,
        "parts": dict(_parts(compiled, held)),
        "changes": _changes(compiled),
    }


def _parts(compiled: CompiledQuery, held: Mapping[str, int]) -> list[tuple[str, str]]:
    """What is stored, how it is kept, and how much of it there is."""
    shown = []
    for part in compiled.parts:
        name = "result" if part.name == RESULT else part.name
        rows = f", {held[part.name]:,} rows" if part.name in held else ""
        state = "" if part.name == RESULT else "private state, "
        shown.append((name, f"{state}{part.strategy.value}{rows}"))
    return shown


def _changes(compiled: CompiledQuery) -> Mapping[str, str]:
    """By source: what a change of it alone reads."""
    if not compiled.parts:
        return dict.fromkeys(compiled.reads, "all sources, in full")
    read = {name: _reads(compiled, compiled.moved([name])) for name in compiled.reads}
    if compiled.timed:
        moved = ", ".join(timed.name for timed in compiled.timed)
        near = _reads(compiled, [timed.name for timed in compiled.timed])
        read["the clock"] = near.replace("its change", f"the rows that enter or leave {moved}")
    return read


def _reads(compiled: CompiledQuery, sources: Collection[str]) -> str:
    found: dict[str, None] = {}
    for delta in compiled.delta(sources).parts:
        for need in delta.needs:
            keyed = " near the change" if need.keys else ""
            name = "its change" if need.side.value == "delta" else need.source
            found.setdefault(f"{name}{keyed if name != 'its change' else ''}")
    return ", ".join(found) or "nothing: the result does not depend on it"


def _mermaid(title: str, compiled: CompiledQuery) -> str:
    """Sources, private parts and the result as a diagram."""
    numbers: dict[str, str] = {}

    def node(name: str) -> str:
        return numbers.setdefault(name, f"n{len(numbers)}")

    result = " ".join(title.split())[:40].replace('"', "'")
    edges = []
    for part in compiled.parts:
        delta = compiled.part_delta(part, _all(compiled))
        read = [need.source for need in delta.needs] if delta is not None else []
        edges += [f"  {node(name)} --> {node(part.name)}" for name in read if name != part.name]
    if not compiled.parts:
        edges = [f"  {node(name)} --> {node(RESULT)}" for name in compiled.reads]
    shown = [
        f'  {number}["{result if name == RESULT else name}"]' for name, number in numbers.items()
    ]
    return "\n".join(["graph LR", *shown, *dict.fromkeys(edges)]) + "\n"


def _all(compiled: CompiledQuery) -> list[str]:
    return [*compiled.moved(compiled.reads), *(part.name for part in compiled.segments)]
