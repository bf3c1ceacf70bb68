"""What is brought into this process is bounded by bytes, too, and not only by rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import VariantVal

from spark_trickle import Lake, UserError
from spark_trickle.spark.fetching import few, first
from support.lakes import limited
from support.streams import refreshed, rows

pytestmark = pytest.mark.spark

BUDGET = 64 << 10
LONG = {
    "text": "repeat('x', 1000)",
    "binary": "cast(repeat('x', 1000) AS BINARY)",
    "array": "sequence(1, 200)",
    "map": "map(id, repeat('x', 1000))",
    "struct": "named_struct('a', id, 'b', repeat('x', 1000))",
    "variant": "parse_json(concat('\"', repeat('x', 1000), '\"'))",
}


def shown(value: Any) -> Any:
    """A value as Spark's rows and Arrow have it alike."""
    if isinstance(value, VariantVal):
        return {"value": value.value, "metadata": value.metadata}
    if isinstance(value, Row):
        return value.asDict()
    if isinstance(value, dict) and "value" not in value and "a" not in value:
        return list(value.items())
    return value


@pytest.mark.parametrize("kind", LONG)
def test_rows_that_are_few_and_large(
    spark: SparkSession, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never is more sent than the budget; and what fits comes whole, asked for once more at most."""
    sent: list[int] = []
    kind_of_frame = type(spark.range(1))
    own = kind_of_frame.toArrow

    def counted(frame: DataFrame) -> pa.Table:
        found = own(frame)
        sent.append(found.nbytes)
        return found

    monkeypatch.setattr(kind_of_frame, "toArrow", counted)
    frame = spark.range(1000).selectExpr("id AS a", f"{LONG[kind]} AS `b.c`", "id AS a")
    assert few(frame, 2000, BUDGET) == (None, 1)
    assert max(sent) < BUDGET
    whole = [shown(row[1]) for row in frame.limit(3).collect()]
    for budget, wanted in ((BUDGET, 2), (1 << 30, 1)):
        found, queries = few(frame.limit(3), 2000, budget)
        assert queries == wanted
        assert found is not None
        assert found.column_names == ["a", "b.c", "a"]
        assert found.num_rows == 3
        assert [shown(value) for value in found.column(1).to_pylist()] == whole


def test_rows_of_fixed_size(spark: SparkSession) -> None:
    frame = spark.range(1000).selectExpr("id", "cast(id AS DECIMAL(38, 2)) AS d")
    assert few(frame, 2000, 999 * 32) == (None, 1)
    assert few(frame, 999, BUDGET) == (None, 1)
    found, _ = few(frame, 1000, 1000 * 32)
    assert found is not None
    assert found.num_rows == 1000


def test_a_struct_that_is_null_where_its_fields_never_are(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT a.id, b.s FROM range(2) a LEFT JOIN"
        " (SELECT id, named_struct('x', id) AS s FROM range(1)) b ON a.id = b.id ORDER BY a.id"
    )
    found, _ = few(frame, 10, BUDGET)
    assert found is not None
    assert found.column("s").to_pylist() == [{"x": 0}, None]


def test_no_rows_and_null_rows(spark: SparkSession) -> None:
    frame = spark.sql("SELECT cast(NULL AS STRING) AS s, cast(NULL AS ARRAY<INT>) AS a")
    for each in (frame, frame.limit(0)):
        found, queries = few(each, 10, BUDGET)
        assert queries == 1
        assert found is not None
        assert found.to_pylist() == each.toArrow().to_pylist()


def test_statements_and_refreshes_of_large_values(lake: Lake) -> None:
    """Few rows that do not fit go by way of files: the same rows, and no error."""
    limited(lake, fetched_bytes=BUDGET)
    lake.sql("CREATE TABLE t (id BIGINT, s STRING)")
    assert lake.sql("INSERT INTO t SELECT id, repeat('x', 5000) FROM range(20)") == 20
    lake.create_stream_table(
        "c", "SELECT id, regexp_replace(s, 'x', 'z') AS s FROM t", refresh_mode="DIFFERENTIAL"
    )
    assert lake.sql("UPDATE t SET s = concat(s, repeat('y', id)) WHERE id % 2 = 0") == 10
    assert lake.sql("DELETE FROM t WHERE length(s) > 5010") == 4
    refreshed(lake, "c", "DIFFERENTIAL")
    assert len(rows(lake, "c")) == 16


def test_a_topk_of_large_values_is_an_error_of_ours(lake: Lake) -> None:
    limited(lake, fetched_bytes=BUDGET)
    lake.sql("CREATE TABLE t (id BIGINT, s STRING)")
    lake.sql("INSERT INTO t SELECT id, repeat('x', 5000) FROM range(20)")
    with pytest.raises(UserError, match=r"ORDER BY … LIMIT keeps are too large"):
        lake.create_stream_table("s", "SELECT id, s FROM t ORDER BY id LIMIT 15")


def test_a_difference_of_large_rows_is_told_by_as_many_as_fit(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (id BIGINT, s STRING)")
    lake.sql("INSERT INTO t SELECT id, repeat('x', 500) FROM range(900)")
    lake.create_stream_table("s", "SELECT id, s FROM t")
    tx = lake._catalog.begin()
    tx.truncate("s")
    tx.commit()
    limited(lake, fetched_bytes=BUDGET)
    found = lake.verify("s")
    assert 1 <= found.rows.num_rows <= 100


def test_a_limit_keeps_the_order_below_it(spark):
    """Executors on other machines answer in any order: Spark must not take rows as they come."""
    spark.range(400).selectExpr("id % 40 AS a", "id AS b").repartition(2).createOrReplaceTempView(
        "r"
    )
    inner = "SELECT a, sum(b) AS b FROM r GROUP BY a ORDER BY b DESC LIMIT 7"
    frame = spark.sql(f"SELECT a, upper(CAST(b AS STRING)) AS s FROM ({inner})")
    sized = first(frame, 100).withColumn("n", F.length("s"))
    query = sized.select("a", "n", F.when(F.col("n") < 9, F.col("s")))
    plan = query._jdf.queryExecution().executedPlan().toString()
    assert "CollectLimit" not in plan
    assert "TakeOrderedAndProject" in plan or plan.count("Sort [") == 2, plan
    assert sorted(row.a for row in first(frame, 100).collect()) == list(range(33, 40))
    found, _ = few(frame, 100, BUDGET)
    assert found is not None
    assert sorted(found.column("a").to_pylist()) == list(range(33, 40))
