"""A delta reads no more than its needs say: with everything else taken away, it stays the same."""

from __future__ import annotations

from collections import Counter

import pytest
from sqlglot import exp

from spark_trickle.compile import PartDelta, compile_query
from spark_trickle.delta.needs import Need
from spark_trickle.ir.types import WEIGHT, Version
from support.delta_law import Laboratory, table_names
from support.examples import SOURCES, example


def pruned_name(source: str, version: Version) -> exp.Table:
    """Tables with only the rows and columns that are needed."""
    name = exp.Identifier(this=f"{source}@{version.value}", quoted=True)
    return exp.Table(this=name, db=exp.Identifier(this="pruned", quoted=True))


@pytest.mark.parametrize("start", range(30_000, 30_200, 100))
def test_what_is_not_needed_can_be_taken_away(start: int) -> None:
    laboratory = Laboratory(SOURCES)
    laboratory.connection.execute("CREATE SCHEMA pruned")
    bounded = 0
    for number in range(start, start + 100):
        found = example(number, depth=3)
        query = compile_query(found.sql, SOURCES)
        laboratory.load(found.data)
        assert laboratory.check(query, found.sql, found.data) is None, found.sql
        changed = [name for name, delta in found.data.delta.items() if +delta or -delta]
        inserts = [name for name in changed if not -found.data.delta[name]]
        for delta in query.delta(changed, inserts).parts:
            bounded += sum(need.keys is not None for need in delta.needs)
            _check(laboratory, delta, found.sql)
    laboratory.close()
    assert bounded > 50


def _check(laboratory: Laboratory, delta: PartDelta, sql: str) -> None:
    run = laboratory.connection.execute
    for need in delta.needs:
        run(f"CREATE OR REPLACE TABLE {_sql(need)} AS {_pruned(need)}")
    pruned = Counter(run(delta.query(pruned_name).sql("duckdb")).fetchall())
    stored = table_names(delta.part.name, Version.DELTA).sql("duckdb")
    whole = Counter(run(f"SELECT * FROM {stored}").fetchall())
    assert pruned == whole, f"{sql}\n{delta.part.name}\n{delta.needs}"


def _sql(need: Need) -> str:
    return pruned_name(need.source, need.version).sql("duckdb")


def _pruned(need: Need) -> str:
    columns = [f'"{name}"' for name in sorted(need.columns)]
    if need.version is Version.DELTA:
        columns.append(WEIGHT)
    table = table_names(need.source, need.version).sql("duckdb")
    query = f"SELECT {', '.join(columns) or '1 AS one'} FROM {table} AS x"
    if need.keys is None:
        return query
    choices = []
    for keys in need.keys:
        tests = []
        for column, origins in keys.items():
            places = [
                f"EXISTS (SELECT 1 FROM {table_names(source, Version.DELTA).sql('duckdb')} AS d"
                f' WHERE d."{name}" IS NOT DISTINCT FROM x."{column}")'
                for source, name in origins
            ]
            tests.append(f"({' OR '.join(places)})")
        choices.append(f"({' AND '.join(tests)})")
    return f"{query} WHERE {' OR '.join(choices)}"
