"""All 22 queries as stream tables under changes to all eight tables, judged by DuckDB.

Phase 1: each query refreshed alone. Phase 3, in its last cycle (in the long tests in every one): a twin
that is recomputed in full.
Phase 2: all at once through ``refresh_all``. Phase 4: many cycles on a few queries, looking for
drift. After every refresh the contents must be exact, and the refresh must have been incremental.
One lake serves all phases, which go on where the one before stopped; each can also run alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import spark_trickle
from spark_trickle.tpch import data, queries
from tpch.bench import Bench
from tpch.oracle import Oracle, compare
from tpch.settings import CYCLES, SUSTAINED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

TWIN = "_full"
SUSTAINED_QUERIES = (1, 3, 13, 15, 17, 22)
"""Additive sums, TopK over a join, an outer join, segments, a maximum, scalar aggregates."""


@pytest.fixture(scope="module")
def bench(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, tpch_data: Path
) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("tpch") / "lake"
    oracle = Oracle.of_parquet(tpch_data)
    with spark_trickle.connect(folder, spark=spark) as lake:
        data.load(lake, tpch_data)
        yield Bench(lake, oracle)
    oracle.close()


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
def test_phases_1_and_3_each_query_alone_beside_a_full_twin(bench: Bench, every: bool) -> None:
    bench.ensure(queries.NUMBERS)
    bench.ensure(queries.NUMBERS, "FULL", TWIN)
    for cycle in range(CYCLES):
        bench.change()
        for number in queries.NUMBERS:
            report = bench.refresh(number)
            if not every and cycle < CYCLES - 1:
                continue
            twin = bench.lake.refresh_stream_table(queries.name(number) + TWIN)
            assert twin.effective_mode == "FULL", twin
            difference = compare(bench.rows(report.name), bench.rows(twin.name))
            if not difference.same:
                bench.fail(number, report, f"  differs from its twin\n{difference}")
        bench.verdict()
    for number in queries.NUMBERS:
        bench.lake.drop_stream_table(queries.name(number) + TWIN)


def test_phase_2_all_queries_at_once(bench: Bench) -> None:
    bench.ensure(queries.NUMBERS)
    for _ in range(CYCLES):
        bench.change()
        target = bench.lake.version
        reports = {report.name: report for report in bench.lake.refresh_all()}
        assert {pair[1] for report in reports.values() for pair in report.sources.values()} == {
            target
        }, "all stream tables move to one version"
        for number in queries.NUMBERS:
            bench.check(number, reports[queries.name(number)])
            bench.check_mode(number, reports[queries.name(number)])
        bench.verdict()


@pytest.mark.long
def test_phase_4_no_drift(bench: Bench) -> None:
    bench.ensure(SUSTAINED_QUERIES)
    for cycle in range(SUSTAINED):
        bench.change()
        if cycle == SUSTAINED // 2:
            # Rewriting files changes no rows, and so no stream table.
            bench.lake.compact()
        for number in SUSTAINED_QUERIES:
            bench.refresh(number)
        bench.verdict()
    bench.check_tables()
