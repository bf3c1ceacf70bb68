"""Numbered examples of the delta law: the same number always gives the same query and data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

from spark_trickle.compile import CompiledQuery, compile_query
from support.delta_law import Failure, Laboratory, report, run_example, shrink, sources_of
from support.queries import TABLES, Data, QueryMaker, random_data

SOURCES = sources_of(TABLES)
MAX_DEPTH = 4


@dataclass(frozen=True)
class Example:
    """A query with tables and a change."""

    number: int
    sql: str
    data: Data
    features: Counter[str]


def example(number: int, *, depth: int = MAX_DEPTH) -> Example:
    """The example of a number."""
    random = Random(number)
    maker = QueryMaker(random)
    sql = maker.query(random.randint(0, depth))
    return Example(number, sql, random_data(random), maker.features)


def join_example(number: int) -> Example:
    """An example whose query depends on tests of plain columns."""
    random = Random(number)
    maker = QueryMaker(random)
    return Example(number, maker.tested_join(), random_data(random), maker.features)


def failure_of(found: Example, laboratory: Laboratory) -> Failure | None:
    """Check one example in a database that may be used again."""
    query = compile_query(found.sql, SOURCES)
    laboratory.load(found.data)
    return laboratory.check(query, found.sql, found.data)


def explained(found: Example) -> str:
    """A failing example, shrunk, with everything needed to understand it."""
    data = shrink(found.sql, found.data, SOURCES)
    failure = run_example(found.sql, data, SOURCES)
    query: CompiledQuery = compile_query(found.sql, SOURCES)
    if failure is None:
        return f"example {found.number} fails only unshrunk: {found.sql}"
    return f"example {found.number}\n{report(found.sql, data, failure, query)}"
