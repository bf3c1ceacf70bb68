"""The delta law on Spark: its deltas and full queries give what DuckDB's do, row for row."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest
from sqlglot import exp

from spark_trickle.compile import compile_query, render
from spark_trickle.ir.types import Schema, Side
from spark_trickle.spark.sessions.desks import PACES
from support.delta_law import Laboratory, table_names
from support.examples import SOURCES, example
from support.queries import Row, random_data

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATASETS = 8
QUERIES = 8
"""For each set of tables and changes: 64 examples in all."""


def view_name(source: str, version: Side) -> exp.Table:
    """A temporary view per table and version."""
    return exp.Table(this=exp.Identifier(this=f"{source}@{version.value}", quoted=True))


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """Paced as few rows are: most of the time would go into compiling each query."""
    made = spark.newSession()
    for key, value in PACES["tiny"].items():
        made.conf.set(key, value)
    return made


@pytest.mark.spark
@pytest.mark.parametrize("dataset", range(DATASETS))
def test_spark_agrees(dataset: int, session: SparkSession) -> None:
    spark = session
    data = random_data(Random(dataset), rows=8)
    laboratory = Laboratory(SOURCES)
    laboratory.load(data)
    for name, source in SOURCES.items():
        for version in Side:
            _view(spark, laboratory, name, source.columns, version)
    changed = [name for name, delta in data.delta.items() if +delta or -delta]
    inserts = [name for name in changed if not -data.delta[name]]
    for number in range(QUERIES):
        found = example(70_000 + dataset * QUERIES + number, depth=3)
        query = compile_query(found.sql, SOURCES)
        assert laboratory.check(query, found.sql, data) is None, found.sql
        deltas = {delta.part.name: delta for delta in query.delta(changed, inserts).parts}
        for part in query.parts:
            _view(spark, laboratory, part.name, part.columns, Side.BEFORE)
            if part is not query.result:
                _view(spark, laboratory, part.name, part.columns, Side.AFTER)
            if part.name in deltas:
                _view(spark, laboratory, part.name, part.columns, Side.DELTA)
                sql = render(deltas[part.name].query(view_name, nearby=number % 2 == 0))
                assert _run(spark, sql) == _stored(laboratory, part.name), f"{found.sql}\n{sql}"
        full = render(query.full_query(query.result, view_name))
        assert _run(spark, full) == laboratory.oracle(found.sql, Side.AFTER), found.sql
    laboratory.close()


def _run(spark: SparkSession, sql: str) -> Counter[Row]:
    return Counter(tuple(row) for row in spark.sql(sql).collect())


def _stored(laboratory: Laboratory, name: str) -> Counter[Row]:
    table = table_names(name, Side.DELTA).sql("duckdb")
    return Counter(laboratory.connection.execute(f"SELECT * FROM {table}").fetchall())


def _view(
    spark: SparkSession, laboratory: Laboratory, name: str, columns: Schema, version: Side
) -> None:
    """The rows that DuckDB has, as a constant of Spark."""
    table = table_names(name, version).sql("duckdb")
    rows = laboratory.connection.execute(f"SELECT * FROM {table}").fetchall()
    types = [(column.name, column.type.sql("spark")) for column in columns]
    if version is Side.DELTA:
        types.append(("__weight", "BIGINT"))
    view = view_name(name, version).sql("spark")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW {view} AS {_constant(types, rows)}")


def _constant(types: list[tuple[str, str]], rows: list[Row]) -> str:
    if not rows:
        nulls = ", ".join(f"CAST(NULL AS {type}) AS `{name}`" for name, type in types)
        return f"SELECT {nulls} WHERE FALSE"
    casts = ", ".join(f"CAST(`{name}` AS {type}) AS `{name}`" for name, type in types)
    values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
    names = ", ".join(f"`{name}`" for name, _ in types)
    return f"SELECT {casts} FROM VALUES {values} AS rows({names})"


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else f"'{value}'"
