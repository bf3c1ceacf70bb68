"""Names without a schema, put into the schema that USE chose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from spark_trickle.statements import parse as ast
from spark_trickle.statements.files import reads_files
from spark_trickle.statements.text.cursor import Name, Span
from spark_trickle.statements.text.names import cte_names, find_tables
from spark_trickle.statements.text.splices import Splice, Spliced, TextBuilder, quoted

IsWanted = Callable[[str], bool]
"""Whether a name is one of the lake's: others may be views of the session."""


def in_schema(sql: str, statement: ast.Statement, schema: str, wanted: IsWanted) -> Spliced:
    """The statement's text with ``schema.`` before each name of one part."""
    new = isinstance(statement, ast.CreateTable | ast.CreateView)
    given = [getattr(statement, field, None) for field in ("name", "target", "like")]
    names = [n for n in given if isinstance(n, Name) and len(n.parts) == 1]
    places = [n.start for n in names if (new and n is given[0]) or wanted(n.parts[0])]
    ctes = getattr(statement, "ctes", None)
    shadowed = cte_names(sql, ctes.start, ctes.end) if ctes is not None else frozenset()
    merged = statement.source if isinstance(statement, ast.Merge) else None
    for span in _spans(statement):
        hidden = frozenset[str]() if span == ctes else shadowed
        found = find_tables(sql, (span.start, span.end), hidden, relation=span == merged)
        places += [r.name.start for r in found if _single(r.name) and wanted(r.name.parts[0])]
    return _prefixed(sql, places, schema)


def query_in_schema(sql: str, schema: str, wanted: IsWanted) -> str:
    """A bare query, in the same way."""
    found = [r.name for r in find_tables(sql) if _single(r.name) and wanted(r.name.parts[0])]
    return _prefixed(sql, [name.start for name in found], schema).text


def _prefixed(sql: str, places: list[int], schema: str) -> Spliced:
    splices = tuple(Splice(at, at, f"{quoted(schema)}.") for at in sorted(set(places)))
    return TextBuilder(sql).user(0, len(sql), splices).build()


def _single(name: Name) -> bool:
    return len(name.parts) == 1 and not reads_files(name.parts)


def _spans(part: Any) -> Iterator[Span]:
    if isinstance(part, Span):
        yield part
    elif isinstance(part, tuple):
        for item in part:
            yield from _spans(item)
    elif is_dataclass(part) and not isinstance(part, Name | ast.ColumnDefinition | type):
        for field in fields(part):
            yield from _spans(getattr(part, field.name))
