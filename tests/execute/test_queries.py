"""Queries over the lake's tables: names, versions, pruning, types, own writes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from decimal import Decimal

import pytest

from spark_trickle import (
    BindError,
    CommitConflictError,
    NotFoundError,
    Settings,
    UserError,
    connect,
)

pytestmark = pytest.mark.spark


def answer(frame) -> list[tuple]:
    return [tuple(row) for row in frame.collect()]


@pytest.fixture
def shop(lake):
    lake.sql("CREATE TABLE orders (id BIGINT, customer STRING, amount DECIMAL(12,2))")
    lake.sql("CREATE SCHEMA ref")
    lake.sql("CREATE TABLE ref.customer (name STRING, city STRING)")
    lake.sql("INSERT INTO orders VALUES (1, 'ada', 10.00), (2, 'bob', 5.00), (3, 'ada', 2.50)")
    lake.sql("INSERT INTO ref.customer VALUES ('ada', 'Turin'), ('bob', 'Oslo')")
    return lake


def test_joins_subqueries_and_names(shop):
    query = """
      WITH big AS (SELECT * FROM orders WHERE amount > 3)
      SELECT ref.customer.city, sum(big.amount) AS total
      FROM big JOIN ref.customer ON big.customer = ref.customer.name
      WHERE EXISTS (SELECT 1 FROM `ORDERS` WHERE orders.id = big.id)
      GROUP BY ref.customer.city ORDER BY 1"""
    assert answer(shop.sql(query)) == [("Oslo", Decimal("5.00")), ("Turin", Decimal("10.00"))]
    assert answer(shop.sql("SELECT orders.id FROM orders ORDER BY orders.id LIMIT 1")) == [(1,)]
    assert answer(shop.sql("WITH orders AS (SELECT 7 AS x) SELECT * FROM orders")) == [(7,)]
    assert answer(shop.sql("TABLE ref.customer")) == answer(shop.table("ref.customer"))
    assert answer(shop.sql("FROM orders |> AGGREGATE count(*) AS n")) == [(3,)]
    assert "Scan" in shop.sql("EXPLAIN SELECT * FROM orders").collect()[0][0]


def test_correlated_subqueries_in_parts_of_a_union(shop):
    """Tables of files and of rows in the catalog are unions themselves."""
    shop.sql("CREATE TABLE many (id BIGINT, g INT)")
    shop.sql("INSERT INTO many SELECT id, CAST(id % 5 AS INT) FROM range(2000)")
    shop.sql("INSERT INTO many VALUES (9000, 2), (9001, NULL)")
    shop.sql("CREATE TABLE few (k INT)")
    shop.sql("INSERT INTO few VALUES (1), (2)")
    for value, sum in (
        ("(SELECT max(k) FROM few WHERE k = g)", 400 * 1 + 401 * 2 + 7),
        ("CAST(EXISTS (SELECT k FROM few WHERE k = g) AS INT)", 400 + 401 + 7),
    ):
        parts = f"SELECT id, {value} AS z FROM many UNION ALL SELECT 1, 7"
        assert answer(shop.sql(f"SELECT sum(z), count(*) FROM ({parts})")) == [(sum, 2003)]
        shop.create_stream_table("s", parts, refresh_mode="DIFFERENTIAL")
        shop.sql("INSERT INTO many VALUES (9002, 4)")
        shop.refresh_stream_table("s")
        assert not shop.verify("s")
        shop.drop_stream_table("s")
        shop.sql("DELETE FROM many WHERE id = 9002")


def test_users_own_views_are_seen_too(shop, spark):
    spark.range(3).createOrReplaceTempView("mine")
    joined = shop.sql("SELECT count(*) FROM mine JOIN orders ON mine.id = orders.id")
    assert answer(joined) == [(2,)]


def test_postgres_dialect(shop):
    found = shop.sql(
        "SELECT customer, (sum(amount) * 2)::int AS s FROM orders GROUP BY 1 ORDER BY 1 FETCH FIRST 1 ROW ONLY",
        dialect="postgres",
    )
    assert answer(found) == [("ada", 25)]
    assert shop.sql("UPDATE orders SET amount = 1::numeric WHERE id = 1", dialect="postgres") == 1


def test_versions(shop):
    first = shop.version
    moment = datetime.now()
    shop.sql("DELETE FROM orders WHERE customer = 'bob'")
    shop.sql("ALTER TABLE orders ADD COLUMN note STRING DEFAULT 'new'")
    both = shop.sql(
        f"""SELECT count(*) FROM orders VERSION AS OF {first} AS o
            LEFT ANTI JOIN orders AS n ON o.id = n.id"""
    )
    assert answer(both) == [(1,)]
    assert len(shop.table("orders", version=first).columns) == 3
    assert shop.table("orders", version=first).count() == 3
    assert {row.note for row in shop.table("orders").collect()} == {"new"}
    travelled = shop.sql(f"SELECT count(*) FROM orders TIMESTAMP AS OF '{moment}'")
    assert answer(travelled) == [(3,)]
    with pytest.raises(NotFoundError):
        shop.sql("SELECT * FROM orders VERSION AS OF 0")
    with pytest.raises(BindError, match="no version as old"):
        shop.sql("SELECT * FROM orders TIMESTAMP AS OF '1999-01-01'")


def test_a_frame_keeps_its_version(shop):
    frame = shop.table("orders")
    query = shop.sql("SELECT count(*) FROM orders")
    shop.sql("TRUNCATE TABLE orders")
    assert frame.count() == 3
    assert answer(query) == [(3,)]
    assert shop.table("orders").count() == 0


def test_nested_types_and_odd_names(lake, spark):
    lake.sql("CREATE SCHEMA `a b`")
    lake.sql(
        "CREATE TABLE `a b`.`c{d}*[e]` (`group` INT, l ARRAY<STRUCT<x: INT, `y z`: STRING>>, "
        "m MAP<STRING, ARRAY<INT>>, s STRUCT<p: DECIMAL(5,1), q: STRUCT<r: DATE>>)"
    )
    lake.sql(
        """INSERT INTO `a b`.`c{d}*[e]` SELECT 1, array(named_struct('x', 1, 'y z', 'u'), NULL),
           map('k', array(1, NULL)), named_struct('p', 1.5, 'q', named_struct('r', DATE '2026-01-01'))"""
    )
    big = spark.range(3000).selectExpr(
        "cast(id AS INT) AS `group`",
        "array(named_struct('x', cast(id AS INT), 'y z', 'v')) AS l",
        "map('k', array(cast(id AS INT))) AS m",
        "named_struct('p', cast(1 AS DECIMAL(5,1)), 'q', named_struct('r', DATE '2026-01-02')) AS s",
    )
    assert lake.append("`a b`.`c{d}*[e]`", big) == 3000
    name = "`a b`.`c{d}*[e]`"
    found = lake.sql(f"SELECT l[0].`y z`, m['k'][0], s.q.r, s.p FROM {name} WHERE `group` = 1")
    assert sorted(str(row) for row in answer(found)) == [
        "('u', 1, datetime.date(2026, 1, 1), Decimal('1.5'))",
        "('v', 1, datetime.date(2026, 1, 2), Decimal('1.0'))",
    ]
    assert lake.sql(f"UPDATE {name} SET s = named_struct('p', 9, 'q', s.q) WHERE `group` = 7") == 1
    assert lake.changes(name, 0).count() == 3001


def test_files_are_pruned_by_key(tmp_path, spark):
    with connect(tmp_path / "p", spark=spark, settings=Settings(inline_row_limit=10)) as lake:
        lake.sql("CREATE TABLE p (id BIGINT, d DATE, s STRING) CLUSTER BY (id)")
        for start in range(0, 8000, 1000):
            lake.append(
                "p",
                spark.range(start, start + 1000)
                .selectExpr(
                    "id",
                    "date_add(DATE '2026-01-01', cast(id DIV 1000 AS INT)) AS d",
                    "cast(id AS STRING) AS s",
                )
                .coalesce(1),
            )
        frames = lake._engine.frames

        def opened(query: str) -> tuple[int, int]:
            files, before = frames.files_opened, frames.bytes_opened
            count = lake.sql(query).collect()[0][0]
            assert frames.bytes_opened - before > 0
            return frames.files_opened - files, count

        everything = lake._catalog.scan("p")
        assert opened("SELECT count(*) FROM p") == (len(everything.files), 8000)
        assert opened("SELECT count(*) FROM p WHERE id = 4321") == (1, 1)
        assert opened("SELECT count(*) FROM p WHERE p.id >= 6500 AND 7200 > id")[1] == 700
        assert opened("SELECT count(*) FROM p WHERE p.id >= 6500 AND 7200 > id")[0] == 2
        assert opened("SELECT count(*) FROM p x WHERE x.id IN (1, 7999) AND x.id > 2000") == (1, 1)
        assert opened(
            "SELECT count(*) FROM p WHERE d BETWEEN '2026-01-02' AND DATE '2026-01-03'"
        ) == (2, 2000)
        assert opened("SELECT count(*) FROM p WHERE id = 1 OR id = 5000") == (8, 2)
        assert opened(
            "SELECT count(*) FROM p a JOIN p b ON a.id = b.id WHERE a.id = 3 AND b.id < 10"
        ) == (2, 1)
        files = frames.files_opened
        assert lake.sql("UPDATE p SET s = 'x' WHERE id = 2500") == 1
        assert lake.sql("DELETE FROM p WHERE id BETWEEN 10 AND 20") == 11
        assert frames.files_opened - files == 2


def test_outer_joins_are_not_broken_by_pruning(tmp_path, spark):
    with connect(tmp_path / "o", spark=spark, settings=Settings(inline_row_limit=1)) as lake:
        lake.sql("CREATE TABLE a (id INT)")
        lake.sql("CREATE TABLE b (id INT, v INT)")
        lake.sql("INSERT INTO a VALUES (1), (2), (3)")
        lake.sql("INSERT INTO b VALUES (1, 10), (2, 20)")
        lake.sql("INSERT INTO b VALUES (3, 30), (4, 40)")
        query = "SELECT a.id, b.v FROM a {} JOIN b ON a.id = b.id WHERE {} ORDER BY a.id"
        assert answer(lake.sql(query.format("LEFT", "b.v = 30"))) == [(3, 30)]
        assert answer(lake.sql(query.format("LEFT", "b.v IS NULL"))) == []
        assert answer(lake.sql(query.format("LEFT", "a.id <= 2 AND b.v < 15"))) == [(1, 10)]
        assert answer(lake.sql(query.format("FULL", "b.v >= 30"))) == [(None, 40), (3, 30)]


def undone(tx) -> None:
    with tx.savepoint():
        tx.sql("DELETE FROM orders")
        assert tx.table("orders").count() == 0
        tx.sql("UPDATE orders SET nope = 1")


def test_transactions_see_their_own_writes(shop):
    before = shop.version
    with shop.transaction() as tx:
        tx.sql("INSERT INTO orders SELECT id + 10, customer, amount FROM orders")
        assert tx.table("orders").count() == 6
        tx.sql("CREATE VIEW sixth AS SELECT count(*) AS n FROM orders")
        assert answer(tx.table("sixth")) == [(6,)]
        assert tx.sql("UPDATE orders SET customer = 'eve' WHERE id IN (1, 11)") == 2
        assert tx.sql("DELETE FROM orders WHERE id IN (2, 12)") == 2
        with pytest.raises(BindError):
            undone(tx)
        tx.sql(
            "MERGE INTO orders USING (SELECT 11 AS id) s ON orders.id = s.id "
            "WHEN MATCHED THEN UPDATE SET customer = 'zoe'"
        )
        tx.sql("CREATE TABLE fresh AS SELECT customer, count(*) AS n FROM orders GROUP BY customer")
        assert answer(tx.sql("SELECT * FROM fresh ORDER BY 1")) == [
            ("ada", 2),
            ("eve", 1),
            ("zoe", 1),
        ]
        assert shop.table("orders").count() == 3
    assert shop.version == before + 1
    found = answer(shop.sql("SELECT id, customer FROM orders ORDER BY id"))
    assert found == [(1, "eve"), (3, "ada"), (11, "zoe"), (13, "ada")]
    assert shop.table("fresh").count() == 3


def test_conflicts(shop):
    tx = shop.transaction()
    tx.sql("DELETE FROM orders WHERE id = 1")
    shop.sql("DELETE FROM orders WHERE id = 1")
    with pytest.raises(CommitConflictError, match="orders"):
        tx.commit()
    assert shop.table("orders").count() == 2
    tx = shop.transaction(isolation="SERIALIZABLE")
    tx.sql("INSERT INTO orders SELECT 50, name, 1 FROM ref.customer")
    shop.sql("INSERT INTO ref.customer VALUES ('new', 'Rome')")
    with pytest.raises(CommitConflictError, match="customer"):
        tx.commit()
    assert shop.table("orders").count() == 2
    tx = shop.transaction(isolation="SERIALIZABLE")
    tx.sql("INSERT INTO orders VALUES (51, 'ada', 1)")
    mark = tx.savepoint()
    tx.sql("SELECT * FROM ref.customer")
    mark.rollback()
    shop.sql("INSERT INTO ref.customer VALUES ('new', 'Oslo')")
    with pytest.raises(CommitConflictError, match="customer"):
        tx.commit()
    with shop.transaction() as tx:
        tx.sql("INSERT INTO orders SELECT 50, name, 1 FROM ref.customer")
        shop.sql("INSERT INTO ref.customer VALUES ('newer', 'Bonn')")
    assert shop.table("orders").count() == 6


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM IDENTIFIER('orders')",
        "SELECT * FROM IDENTIFIER('Ref.customer')",
        "FROM ref.customer INSERT INTO orders SELECT 9, name, 1",
    ],
)
def test_forms_that_do_not_reach_the_tables_of_the_lake(shop, statement):
    with pytest.raises(UserError, match="is there, but stands where") as caught:
        shop.sql(statement)
    assert "not supported" in str(caught.value.hint)
    assert "did you mean" not in str(caught.value)


def test_single_statements_retry_by_themselves(tmp_path, spark):
    """Two writers add to the same row; no addition is lost and none needs to be repeated."""
    folder = tmp_path / "r"
    with connect(folder, spark=spark) as lake:
        lake.sql("CREATE TABLE counter (n INT)")
        lake.sql("INSERT INTO counter VALUES (0)")

        def add() -> int:
            with connect(folder, spark=spark, settings=Settings(commit_retries=50)) as own:
                return sum(own.sql("UPDATE counter SET n = n + 1") for _ in range(5))

        with ThreadPoolExecutor(2) as pool:
            assert [f.result() for f in [pool.submit(add), pool.submit(add)]] == [5, 5]
        assert answer(lake.table("counter")) == [(10,)]
