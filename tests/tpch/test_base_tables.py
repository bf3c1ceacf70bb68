"""The lake alone: its tables follow the changes, and the queries run on them by Spark are right at
the end; in the long tests after every cycle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import spark_trickle
from spark_trickle.spark.sessions.desks import PACES
from spark_trickle.tpch import churn, data, queries
from spark_trickle.tpch.schema import TABLES
from support.watched import contents
from tpch.oracle import Oracle, compare, ordered
from tpch.settings import CHURN, CYCLES, SCALE, SEED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENOUGH = max(3, CYCLES)
"""Cycles after which the changes have mattered to every query."""


@pytest.fixture
def lake(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, tpch_data: Path
) -> Iterator[spark_trickle.Lake]:
    session = spark.newSession()
    for key, value in PACES["tiny"].items():  # half of the time would go into compiling each query
        session.conf.set(key, value)
    with spark_trickle.connect(tmp_path_factory.mktemp("tpch") / "lake", spark=session) as opened:
        data.load(opened, tpch_data)
        yield opened


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
def test_tables_follow_every_cycle_and_queries_the_last(
    lake: spark_trickle.Lake, tpch_data: Path, every: bool
) -> None:
    follower = Oracle.of_parquet(tpch_data)
    changes = churn.Churn(SCALE, CHURN, SEED, every_table=True)
    before: dict[int, pa.Table] = {}
    changed: set[int] = set()
    for cycle in range(ENOUGH + 1):
        if cycle > 0:
            batches = changes.cycle(cycle)
            done = [churn.apply(lake, batch) for batch in batches]
            assert {table for each in done for table in each} == {t.name for t in TABLES}
            follower.follow(batches)
        for table in TABLES:
            rows = contents(lake, table.name) if cycle % 2 else lake.table(table.name).toArrow()
            difference = follower.table_difference(table.name, rows)
            assert difference.same, f"{table.name}, cycle {cycle}\n{difference}"
        for number in queries.NUMBERS:
            expected = follower.run(queries.text(number))
            if every or cycle == ENOUGH:
                text = ordered(queries.text(number), expected.num_columns)
                difference = compare(lake.sql(text).toArrow(), expected)
                assert difference.same, f"{queries.name(number)}, cycle {cycle}\n{difference}"
            if cycle > 0 and not expected.equals(before[number]):
                changed.add(number)
            before[number] = expected
    follower.close()
    assert changed == set(queries.NUMBERS), "the changes must matter to every query"
