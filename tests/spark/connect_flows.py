"""The main flows against a Spark Connect server; run by test_connect.py in a process of its own."""

from __future__ import annotations

import sys
import threading
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_trickle import BindError, InvalidDataError, Settings, SourceChangedError, connect
from spark_trickle.errors import TrickleError
from spark_trickle.serve.reading import Reader
from support.clocks import Clock, at


def flows(folder: str, spark: SparkSession) -> None:
    lake = connect(
        folder, spark=spark, settings=Settings(inline_row_limit=100, inline_delete_limit=5)
    )
    lake.sql(
        "CREATE TABLE orders (id BIGINT NOT NULL, customer STRING, amount DECIMAL(12,2)) CLUSTER BY (id)"
    )
    lake.sql("INSERT INTO orders VALUES (1, 'ada', 10.00), (2, 'bob', 5.00)")
    lake.append("orders", pa.table({"id": [3], "customer": ["cyd"], "amount": [Decimal("1.25")]}))
    first = lake.version
    assert (
        lake.append(
            "orders",
            spark.range(1000, 3000).selectExpr(
                "id", "'bulk' AS customer", "cast(1 AS DECIMAL(12,2)) AS amount"
            ),
        )
        == 2000
    )
    assert lake.sql("UPDATE orders SET amount = amount + 1 WHERE id IN (1, 1500)") == 2
    assert lake.sql("UPDATE orders SET amount = 0 WHERE id BETWEEN 1000 AND 1299") == 300
    assert lake.sql("DELETE FROM orders WHERE id >= 2990 OR customer = 'bob'") == 11
    merged = lake.sql(
        """MERGE INTO orders AS o USING (SELECT * FROM VALUES (1, 'eve'), (7, 'new') AS v(id, customer)) AS n
           ON o.id = n.id WHEN MATCHED THEN UPDATE SET customer = n.customer
           WHEN NOT MATCHED THEN INSERT (id, customer) VALUES (n.id, n.customer)"""
    )
    assert merged == 2
    small = lake.sql(
        "SELECT id, customer, amount FROM orders WHERE id < 1000 ORDER BY id"
    ).collect()
    assert [tuple(row) for row in small] == [
        (1, "eve", Decimal("11.00")),
        (3, "cyd", Decimal("1.25")),
        (7, "new", None),
    ]
    assert lake.sql("SELECT count(*), sum(amount) FROM orders").collect()[0][0] == 1993
    assert lake.table("orders", version=first).count() == 3
    old = lake.sql(
        f"SELECT count(*) FROM orders VERSION AS OF {first} o JOIN orders n ON o.id = n.id"
    )
    assert old.collect()[0][0] == 2
    changes = lake.changes("orders", first, lake.version)
    total = changes.selectExpr("sum(__weight)", "count(*)").collect()[0]
    assert total[0] == 1993 - 3
    small_window = lake.changes("orders", lake.version - 1, lake.version).collect()
    assert sorted(row["__weight"] for row in small_window) == [-1, 1, 1]
    with lake.transaction() as tx:
        tx.sql("INSERT INTO orders SELECT id + 10000, customer, amount FROM orders WHERE id < 10")
        assert tx.table("orders").count() == 1996
        tx.sql(
            "CREATE TABLE totals AS SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"
        )
    assert lake.table("totals").count() == 4
    lake.sql("CREATE VIEW few (who, n) AS SELECT customer, count(*) FROM orders GROUP BY customer")
    found = lake.sql("SELECT n FROM few WHERE who = :who", {"who": "eve"})
    assert [row[0] for row in found.collect()] == [2]
    kinds = lake.arrow("SELECT table_name FROM information_schema.tables WHERE table_type = 'VIEW'")
    assert kinds.to_pylist() == [{"table_name": "few"}]
    lake.sql("DROP VIEW few")
    for bad, kind in (
        ("SELECT nope FROM orders", BindError),
        ("INSERT INTO orders SELECT 'x', 'y', 1", InvalidDataError),
        ("INSERT INTO orders SELECT NULL, 'y', 1", InvalidDataError),
        ("INSERT INTO orders SELECT 1, 'y', 1e15", InvalidDataError),
    ):
        with pytest.raises(kind) as caught:
            lake.sql(bad)
        assert "java" not in str(caught.value).lower()
    lake.compact("orders")
    assert lake.table("orders").count() == 1996
    lake.close()


def streams(folder: str, spark: SparkSession) -> None:
    """Stream tables keep their meaning, and the session stays as its user has it."""
    lake = connect(folder, spark=spark)
    spark.udf.register("times", lambda value: value * 2, "bigint")
    lake.sql("CREATE TABLE m (g INT, v BIGINT, t TIMESTAMP)")
    lake.sql("INSERT INTO m VALUES (1, 1, TIMESTAMP '2024-02-29 23:30:00')")
    by_day = "SELECT cast(t AS DATE) AS d, sum(times(v)) AS s FROM m GROUP BY cast(t AS DATE)"
    lake.create_stream_table("days", by_day, refresh_mode="DIFFERENTIAL")
    lake.create_stream_table("top", "SELECT hour(t) AS h, v FROM m ORDER BY h DESC, v LIMIT 2")
    zone = str(spark.conf.get(ZONE))
    spark.conf.set(ZONE, "Asia/Tokyo")
    settings = dict(spark.conf.getAll)
    lake.sql("INSERT INTO m SELECT g + 1, v + 1, t + INTERVAL 1 MINUTE FROM m")
    modes = [report.effective_mode for report in lake.refresh_all()]
    assert modes == ["DIFFERENTIAL", "TOPK"], modes
    assert not lake.verify("days")
    assert not lake.verify("top")
    assert [(str(r[0]), r[1]) for r in lake.table("days").collect()] == [("2024-02-29", 6)]
    assert dict(spark.conf.getAll) == settings
    spark.conf.set(ZONE, zone)
    spark.udf.register("times", lambda value: value * 3, "bigint")
    lake.sql("INSERT INTO m VALUES (1, 1, TIMESTAMP '2024-02-29 12:00:00')")
    with pytest.raises(SourceChangedError, match="times"):
        lake.refresh_stream_table("days")
    lake.close()


def guests(folder: str, spark: SparkSession) -> None:
    """Queries of the dashboard: one is cancelled, the next one runs; no file is read by its name."""
    lake = connect(folder, spark=spark)
    lake.sql("CREATE TABLE t (a INT)")
    lake.sql("INSERT INTO t VALUES (1)")
    reader = Reader(lake)
    rows = reader.run("SELECT a FROM t", "first").rows
    assert rows is not None
    assert rows.to_pylist() == [{"a": 1}]
    threading.Timer(3.0, lambda: reader.cancel("second")).start()
    with pytest.raises(TrickleError):
        reader.run("SELECT count(*) FROM range(1000000000000) WHERE id % 7 = 3", "second")
    with reader._guests.welcome() as guest, pytest.raises(Exception, match=r"text|TABLE_OR_VIEW"):
        guest.spark.sql(f"SELECT * FROM text.`{__file__}`").collect()
    rows = reader.run("SELECT count(*) AS n FROM t", "third").rows
    assert rows is not None
    assert rows.to_pylist() == [{"n": 1}]
    lake.close()


def clocks_and_functions(folder: str, spark: SparkSession) -> None:
    """Temporal filters follow the clock; the functions of pg_ivm and pg_trickle answer."""
    clock = Clock(at(2024, 3, 1, 12))
    lake = connect(folder, spark=spark, settings=Settings(clock=clock))
    lake.sql("CREATE TABLE e (k INT, ts TIMESTAMP)")
    lake.sql("INSERT INTO e VALUES (1, TIMESTAMP'2024-03-01 11:00:00Z')")
    lake.sql("INSERT INTO e VALUES (2, TIMESTAMP'2024-02-29 13:00:00Z')")
    recent = "SELECT k, count(*) AS n FROM e WHERE ts > now() - INTERVAL 1 DAY GROUP BY k"
    lake.create_stream_table("recent", recent, refresh_mode="DIFFERENTIAL")
    assert lake.table("recent").count() == 2
    clock.jump(hours=2)
    assert lake.refresh_stream_table("recent").effective_mode == "DIFFERENTIAL"
    assert [tuple(row) for row in lake.table("recent").collect()] == [(1, 1)]
    assert not lake.verify("recent")
    made = lake.sql("SELECT pgivm.create_immv('sums(k, s)', 'SELECT k, sum(k) FROM e GROUP BY k')")
    assert made.collect()[0][0] == 2
    lake.sql("INSERT INTO e (k) VALUES (1), (3)", dialect="postgres")
    assert sorted(tuple(row) for row in lake.table("sums").collect()) == [(1, 2), (2, 2), (3, 3)]
    modes = lake.sql("SELECT pgt_name FROM pgtrickle.stream_tables_info ORDER BY 1")
    assert [row[0] for row in modes.collect()] == ["recent", "sums"]
    lake.close()


ZONE = "spark.sql.session.timeZone"

if __name__ == "__main__":
    session = SparkSession.builder.remote("local[2]").getOrCreate()
    assert type(session).__module__.startswith("pyspark.sql.connect")
    try:
        session.conf.set(ZONE, "UTC")
        streams(sys.argv[1] + "_streams", session)
        guests(sys.argv[1] + "_guests", session)
        clocks_and_functions(sys.argv[1] + "_clocks", session)
        flows(sys.argv[1], session)
        print("flows done")
    finally:
        session.stop()
