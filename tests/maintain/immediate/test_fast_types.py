"""Groups by keys of every type are folded, few at a time and many, as Spark computes and DuckDB reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_trickle
from spark_trickle import Lake
from support import duck, postgres

pytestmark = pytest.mark.spark

KEYS = {
    "b": ("BOOLEAN", "true", "false"),
    "tiny": ("TINYINT", "-128Y", "127Y"),
    "big": ("BIGINT", "-9223372036854775808", "9223372036854775807"),
    "d": ("DECIMAL(12,2)", "1.00", "-0.05"),
    "wide": ("DECIMAL(38,10)", "9999999999999999999999999999.9999999999", "-0.0000000001"),
    "whole": ("DECIMAL(20,0)", "100", "-99999999999999999999"),
    "s": ("STRING", "''", "'ß😀 ''\"'"),
    "short": ("VARCHAR(3)", "'abc'", "' '"),
    "bin": ("BINARY", "X''", "X'00FF'"),
    "day": ("DATE", "DATE'0001-01-01'", "DATE'9999-12-31'"),
    "moment": ("TIMESTAMP", "TIMESTAMP'1582-10-04 23:59:59.999999'", "TIMESTAMP'2026-01-01'"),
    "naive": ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ'1900-01-01'", "TIMESTAMP_NTZ'2026-01-01 01:02:03.4'"),
}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "lake")
        return
    with postgres.server() as url:
        yield url


def check(lake: Lake, location: str) -> None:
    for name in KEYS:
        assert lake.refresh_history(f"by_{name}")[0].effective_mode == "FAST_PATH", name
    compared = []
    for name in KEYS:
        query = f"SELECT {name}, count(*) AS n, sum(v) AS total FROM t GROUP BY {name}"
        compared += [f"({query}) EXCEPT ALL FROM by_{name}", f"FROM by_{name} EXCEPT ALL ({query})"]
    assert duck.read(duck.catalog_of(location), compared) == [[]] * len(compared)


def test_keys_of_every_type(location: str, tmp_path: Path, spark: SparkSession) -> None:
    folder = str(tmp_path / "data") if location.startswith("postgresql:") else None
    with spark_trickle.connect(location, data_path=folder, spark=spark) as lake:
        columns = ", ".join(f"{name} {type}" for name, (type, *_) in KEYS.items())
        lake.sql(f"CREATE TABLE t (id INT NOT NULL, v DECIMAL(9,3), {columns})")
        for name in KEYS:
            query = f"SELECT {name}, count(*) AS n, sum(v) AS total FROM t GROUP BY {name}"
            lake.create_stream_table(f"by_{name}", query, refresh_mode="IMMEDIATE")
        low, high = (", ".join(value[i] for value in KEYS.values()) for i in (1, 2))
        nulls = ", ".join(["NULL"] * len(KEYS))
        lake.sql(f"INSERT INTO t VALUES (1, 1.5, {low}), (2, NULL, {high}), (3, -0.001, {nulls})")
        lake.sql(f"INSERT INTO t VALUES (4, 1, {high}), (5, 2, {low})")
        check(lake, location)
        lake.sql("UPDATE t SET v = v * 3 WHERE id < 4")
        lake.sql("DELETE FROM t WHERE id IN (3, 4)")
        check(lake, location)
        # Beyond what is handed on as plain values, and back below it.
        lake.sql(
            "INSERT INTO t (id, v, s, big, d) "
            "SELECT id + 10, 1, CAST(id AS STRING), id, id / 4 FROM range(150)"
        )
        check(lake, location)
        lake.sql("DELETE FROM t WHERE id >= 10")
        check(lake, location)
        for name in KEYS:
            assert not lake.verify(f"by_{name}"), name
