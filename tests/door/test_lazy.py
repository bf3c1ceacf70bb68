"""What a query meets when it runs: errors of ours from every action, also of frames made from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark.sql
import pytest

from spark_trickle import BindError, ExecutionError, Lake, TrickleError

pytestmark = pytest.mark.spark

FAILS = "SELECT a, 10 / a AS q FROM t"

ACTIONS: dict[str, Callable[[Any], Any]] = {
    "collect": lambda df: df.collect(),
    "show": lambda df: df.show(),
    "toArrow": lambda df: df.toArrow(),
    "toPandas": lambda df: df.toPandas(),
    "first": lambda df: df.orderBy("a").first(),
    "take": lambda df: df.take(5),
    "tail": lambda df: df.tail(5),
    "iterator": lambda df: list(df.toLocalIterator()),
    "derived": lambda df: df.where("q > 0").select("q").collect(),
    "item": lambda df: df[["q"]].collect(),
    "join": lambda df: df.join(df.select("a", "q").alias("o"), "q").collect(),
    "grouped": lambda df: df.groupBy("q").count().collect(),
    "aggregated": lambda df: df.agg({"q": "sum"}).collect(),
    "cached": lambda df: df.cache().collect(),
    "filled": lambda df: df.na.fill(0).collect(),
}


@pytest.fixture
def frame(lake: Lake) -> pyspark.sql.DataFrame:
    lake.sql("CREATE TABLE t (a INT)")
    lake.sql("INSERT INTO t VALUES (0), (1)")
    return lake.sql(FAILS)


def test_it_is_a_data_frame(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a INT)")
    lake.sql("INSERT INTO t VALUES (2), (1)")
    df = lake.sql("SELECT a FROM t")
    for one in (df, df.where("a > 0"), df.groupBy("a").count(), lake.table("t")):
        assert isinstance(one, pyspark.sql.DataFrame)
        assert type(one).__name__ == "DataFrame"
    assert df.columns == ["a"]
    assert df.a is not None
    assert sorted(row.a for row in df.union(lake.spark.sql("SELECT 3 AS a")).collect()) == [1, 2, 3]
    assert sorted(lake.spark.sql("SELECT 3 AS a").union(df).toPandas()["a"]) == [1, 2, 3]
    df.createOrReplaceTempView("of_ours")
    assert lake.spark.sql("SELECT sum(a) FROM of_ours").first()[0] == 3
    lake.spark.catalog.dropTempView("of_ours")
    assert lake.append("t", df) == 2


def test_every_action(frame: pyspark.sql.DataFrame, capfd: pytest.CaptureFixture[str]) -> None:
    for name, action in ACTIONS.items():
        with pytest.raises(ExecutionError) as caught:
            action(frame)
        told = str(caught.value)
        assert "ivision by zero" in told, name
        for trace in ("java.", "\tat ", "Traceback", "org.apache", "SQLSTATE"):
            assert trace not in told, (name, told)
        assert caught.value.__cause__ is None, name
    frame.unpersist()
    printed = capfd.readouterr()
    assert "java" not in printed.err + printed.out


def test_a_place_in_the_users_own_text(frame: pyspark.sql.DataFrame) -> None:
    with pytest.raises(ExecutionError) as caught:
        frame.where("a < 7").collect()
    assert caught.value.position is not None
    assert "10 / a" in caught.value.position.caret()


def test_writers_and_analysis(lake: Lake, frame: pyspark.sql.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="ivision by zero"):
        frame.write.mode("overwrite").parquet(str(tmp_path / "out"))
    with pytest.raises(BindError):
        frame.select("nope")
    with pytest.raises(TrickleError):
        frame.write.format("no such format").save(str(tmp_path / "x"))
    lake.table("t").write.parquet(str(tmp_path / "good"))
    assert list((tmp_path / "good").glob("*.parquet"))


def test_changes_and_transactions(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a INT)")
    before = lake.version
    lake.sql("INSERT INTO t VALUES (0)")
    with pytest.raises(ExecutionError, match="ivision by zero"):
        lake.changes("t", before).selectExpr("1 / a").collect()
    with lake.transaction() as tx, pytest.raises(ExecutionError, match="ivision by zero"):
        tx.table("t").selectExpr("1 / a").collect()
