"""The 22 queries IMMEDIATE under RF1 to RF4, judged by DuckDB after every transaction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import spark_trickle
from spark_trickle.tpch import churn, data, queries
from support.watched import bag, contents
from tpch.oracle import Oracle, compare
from tpch.settings import CHURN, SCALE, SEED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

BESIDE = (1, 3, 13, 15, 17)
"""Have a DIFFERENTIAL twin: additive sums, a TopK, an outer join, a maximum, a correlated average."""


def test_exact_after_each_transaction(tmp_path: Path, spark: SparkSession, tpch_data: Path) -> None:
    oracle = Oracle.of_parquet(tpch_data)
    with spark_trickle.connect(tmp_path / "lake", spark=spark) as lake:
        data.load(lake, tpch_data)
        for number in queries.NUMBERS:
            lake.create_stream_table(
                queries.name(number), queries.text(number), refresh_mode="IMMEDIATE"
            )
        for number in BESIDE:
            lake.create_stream_table(
                f"{queries.name(number)}_later", queries.text(number), refresh_mode="DIFFERENTIAL"
            )
        changes = churn.Churn(SCALE, CHURN, SEED, every_table=True).cycle(1)
        _undone(lake, changes)
        for batch in changes:
            churn.apply(lake, batch)
            oracle.follow([batch])
            _judged(lake, oracle)
        lake.refresh_all()
        for number in BESIDE:
            name = queries.name(number)
            assert bag(contents(lake, name)) == bag(contents(lake, f"{name}_later")), name
        for name, mode in (("q01", "FAST_PATH"), ("q03", "IMMEDIATE")):
            assert lake.refresh_history(name)[0].effective_mode == mode
    oracle.close()


def _judged(reader: spark_trickle.Lake, oracle: Oracle) -> None:
    for number in queries.NUMBERS:
        found = contents(reader, queries.name(number))
        difference = compare(found, oracle.run(queries.text(number)))
        assert difference.same, f"{queries.name(number)}\n{difference}"


def _undone(lake: spark_trickle.Lake, changes: tuple[churn.Batch, ...]) -> None:
    """A savepoint and then the whole transaction rolled back restore every query exactly."""
    names = [queries.name(number) for number in queries.NUMBERS]
    before = {name: bag(contents(lake, name)) for name in names}
    tx = lake.transaction()
    _steps(tx, changes[0])
    middle = {name: bag(contents(tx, name)) for name in names}
    point = tx.savepoint()
    _steps(tx, changes[1])
    assert {name: bag(contents(tx, name)) for name in names} != middle
    point.rollback()
    assert {name: bag(contents(tx, name)) for name in names} == middle
    tx.rollback()
    assert {name: bag(contents(lake, name)) for name in names} == before


def _steps(tx: spark_trickle.LakeTransaction, batch: churn.Batch) -> None:
    for step in batch.steps:
        if isinstance(step, churn.NewRows):
            tx.append(step.table, step.rows)
        else:
            tx.sql(step.sql)
