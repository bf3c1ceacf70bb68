"""TPC-H through a cluster: all queries as stream tables, all tables changed, a worker killed.

``TRICKLE_TPCH_SF`` and the other variables of tests/tpch/settings.py set the sizes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import spark_trickle
from spark_trickle.settings import Settings
from spark_trickle.tpch import data, queries
from support import cluster as clusters
from tpch.bench import Bench
from tpch.oracle import Oracle, compare
from tpch.settings import CYCLES, SCALE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.spark,
    pytest.mark.postgres,
    pytest.mark.timeout(3600),
]

CACHE = Path(__file__).parents[2] / data.CACHE
TWIN, TWINS = "_full", (1, 5, 15)
ATTEMPTS = 5
"""A brief refresh may be over before its stage was seen."""


@pytest.fixture(scope="module")
def bench(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, catalog_url: str
) -> Iterator[Bench]:
    generated = data.generate(SCALE, CACHE)
    oracle = Oracle.of_parquet(generated)
    folder = tmp_path_factory.mktemp("tpch")
    with spark_trickle.connect(catalog_url, data_path=str(folder), spark=spark) as lake:
        data.load(lake, generated)
        yield Bench(lake, oracle)
    oracle.close()


def test_phases(bench: Bench) -> None:
    """Each query alone, all at once, and in full, exact after each step."""
    started = time.monotonic()
    bench.ensure(queries.NUMBERS)
    bench.ensure(TWINS, "FULL", TWIN)
    made = time.monotonic()
    engines: dict[str, int] = {}
    for _ in range(CYCLES):
        bench.change()
        for number in queries.NUMBERS:
            report = bench.refresh(number)
            engines[report.engine] = engines.get(report.engine, 0) + 1
        for number in TWINS:
            twin = bench.lake.refresh_stream_table(queries.name(number) + TWIN)
            assert twin.effective_mode == "FULL", twin
            difference = compare(bench.rows(queries.name(number)), bench.rows(twin.name))
            assert difference.same, f"{twin.name}\n{difference}"
        bench.change()
        for report in bench.lake.refresh_all():
            if not report.name.endswith(TWIN):
                bench.check(int(report.name[1:]), report)
        bench.verdict()
    bench.lake.compact()
    bench.check_tables()
    print(
        f"\nTPC-H at scale {SCALE:g} on a cluster of two workers: {len(queries.NUMBERS)} stream "
        f"tables made in {made - started:.0f} s, {2 * CYCLES} cycles of changes and refreshes in "
        f"{time.monotonic() - made:.0f} s; refreshed alone by engine: {engines}"
    )


@pytest.mark.parametrize("number", [3, 9, 18, 21])
def test_a_worker_is_killed_in_the_middle_of_a_refresh(
    bench: Bench, cluster: clusters.Cluster, spark: SparkSession, catalog_url: str, number: int
) -> None:
    bench.ensure([number])
    on_spark, usual = Settings(local_rows=0), bench.lake
    for _ in range(ATTEMPTS):
        bench.change()
        victim = cluster.workers[-1]
        with (
            spark_trickle.connect(catalog_url, spark=spark, settings=on_spark) as bench.lake,
            clusters.Striking(spark, 1, partial(cluster.kill, victim)) as striking,
        ):
            report = bench.refresh(number)
        bench.lake = usual
        bench.verdict()
        if striking.struck:
            break
    assert striking.struck, f"Spark had too little to do: {report}"
    cluster.worker()
    print(f"\n{report.name}: a worker died, exact after {report.seconds:.1f} s")


def test_the_tables_at_the_end(bench: Bench) -> None:
    for report in bench.lake.refresh_all():
        if not report.name.endswith(TWIN):
            bench.check(int(report.name[1:]), report)
    bench.verdict()
    bench.check_tables()
