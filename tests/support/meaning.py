"""Does a bound plan mean what the text means? Both run on DuckDB; rows are compared as multisets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from spark_trickle.ir.nodes import Node
from spark_trickle.ir.types import Side, TableSchema
from spark_trickle.lower.query import lower
from spark_trickle.normalize.pipeline import trace
from spark_trickle.sql.bind.plan import bind

Rows = Counter[tuple[Any, ...]]


def table(source: str, _: Side) -> exp.Table:
    """Tables are called what the sources are called."""
    return exp.Table(this=exp.Identifier(this=source, quoted=True))


def run(connection: duckdb.DuckDBPyConnection, sql: str) -> Rows:
    """The rows of a query; lists become tuples so that they can be counted."""
    return Counter(tuple(map(_hashable, row)) for row in connection.execute(sql).fetchall())


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return tuple((key, _hashable(inner)) for key, inner in value.items())
    return value


def meaning(connection: duckdb.DuckDBPyConnection, plan: Node) -> Rows:
    """The rows of a plan."""
    outputs = [f"c{position}" for position in range(len(plan.columns))]
    return run(connection, lower(plan, table, outputs=outputs).sql("duckdb"))


def differences(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    sources: Mapping[str, TableSchema],
    *,
    oracle: str | None = None,
    dialect: str = "spark",
    views: Mapping[str, str] | None = None,
) -> list[str]:
    """Where plans differ from the text: after bind, and after each pass."""
    if oracle is None:
        oracle = sqlglot.transpile(sql, read=dialect, write="duckdb")[0]
    expected = run(connection, oracle)
    bound = bind(sql, sources, views, dialect)
    assert bound.plan is not None, bound.blockers
    found = []
    for step in trace(bound.plan):
        actual = meaning(connection, step.plan)
        if actual != expected:
            found.append(
                f"after {step.name}: missing {dict(expected - actual)}, "
                f"extra {dict(actual - expected)}"
            )
    return found
