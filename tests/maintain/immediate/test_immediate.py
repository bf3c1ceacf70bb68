"""IMMEDIATE stream tables: right inside the transaction, at the same version after it."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest

import spark_trickle
from spark_trickle import CommitConflictError, Lake, SuspendedWarning, UnsupportedQueryError
from spark_trickle.maintain.refresh import locally

pytestmark = pytest.mark.spark

QUERIES = {
    "totals": "SELECT customer, sum(amount) AS total, count(*) AS n FROM orders GROUP BY customer",
    "named": "SELECT o.id, c.city FROM orders o JOIN customers c ON o.customer = c.name",
    "padded": "SELECT c.name, o.id FROM customers c LEFT JOIN orders o ON o.customer = c.name",
    "top": "SELECT id, amount FROM orders ORDER BY amount DESC LIMIT 2",
    "ranked": "SELECT id, rank() OVER (PARTITION BY customer ORDER BY amount) AS r FROM orders",
    "none": "SELECT name FROM customers EXCEPT SELECT customer FROM orders",
    "by_city": "SELECT city, count(*) AS n FROM named GROUP BY city",
}


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE orders (id INT, customer STRING, amount DECIMAL(9,2))")
    lake.sql("CREATE TABLE customers (name STRING, city STRING)")
    lake.sql("INSERT INTO orders VALUES (1, 'ada', 10), (2, 'bob', 5), (3, 'ada', 7)")
    lake.sql("INSERT INTO customers VALUES ('ada', 'Paris'), ('bob', 'Oslo'), ('eve', 'Rome')")
    for name, query in QUERIES.items():
        lake.create_stream_table(name, query, refresh_mode="IMMEDIATE")
    return lake


def rows(reader: object, text: str) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row) for row in reader.sql(text).collect())  # type: ignore[attr-defined]


def check(reader: object) -> None:
    """Contents equal the query as the same reader sees it."""
    for name, query in QUERIES.items():
        assert rows(reader, f"SELECT * FROM {name}") == rows(reader, query), name


STATEMENTS = [
    "INSERT INTO orders VALUES (4, 'eve', 1), (5, NULL, 2)",
    "UPDATE orders SET amount = amount + 3 WHERE customer = 'ada'",
    "DELETE FROM customers WHERE name = 'bob'",
    "MERGE INTO orders o USING (SELECT 2 AS id) s ON o.id = s.id WHEN MATCHED THEN DELETE",
    "INSERT INTO customers VALUES ('ada', 'Nice')",
    "TRUNCATE TABLE orders",
    "INSERT INTO orders SELECT 9, name, 4 FROM customers",
]


def test_after_every_statement_and_after_commit_and_rollback(shop: Lake) -> None:
    before = {name: rows(shop, f"SELECT * FROM {name}") for name in QUERIES}
    tx = shop.transaction()
    for statement in STATEMENTS:
        tx.sql(statement)
        check(tx)
    tx.rollback()
    assert {name: rows(shop, f"SELECT * FROM {name}") for name in QUERIES} == before
    with shop.transaction() as tx:
        for statement in STATEMENTS:
            tx.sql(statement)
    check(shop)
    assert shop.refresh_history("by_city")[0].effective_mode == "FAST_PATH"
    for name in QUERIES:
        assert not shop.verify(name)


def test_autocommit_is_one_version(shop: Lake) -> None:
    version = shop.version
    shop.sql("INSERT INTO orders VALUES (7, 'eve', 8)")
    assert shop.version == version + 1
    check(shop)
    report = shop.refresh_history("totals")[0]
    assert (report.effective_mode, report.version) == ("FAST_PATH", version + 1)
    assert report.engine == "local"
    assert report.sources == {"orders": (version, version + 1)}


def test_savepoints_restore_them(shop: Lake) -> None:
    with shop.transaction() as tx:
        tx.sql("INSERT INTO orders VALUES (4, 'eve', 1)")
        seen = rows(tx, "SELECT * FROM totals")
        point = tx.savepoint()
        tx.sql("DELETE FROM orders WHERE customer = 'ada'")
        check(tx)
        point.rollback()
        assert rows(tx, "SELECT * FROM totals") == seen
        check(tx)
    check(shop)


def test_what_was_read_must_not_have_moved(shop: Lake) -> None:
    one, two = shop.transaction(), shop.transaction()
    one.sql("INSERT INTO orders VALUES (4, 'mia', 1)")
    two.sql("INSERT INTO customers VALUES ('mia', 'Bonn')")
    one.commit()
    with pytest.raises(CommitConflictError, match="orders"):
        two.commit()
    check(shop)


def test_read_committed_keeps_the_cross_term(shop: Lake) -> None:
    one = shop.transaction(isolation="READ COMMITTED")
    two = shop.transaction(isolation="READ COMMITTED")
    one.sql("INSERT INTO orders VALUES (4, 'mia', 1), (5, 'ada', 2)")
    two.sql("INSERT INTO customers VALUES ('mia', 'Bonn')")
    two.sql("INSERT INTO orders VALUES (6, 'ada', 3)")
    check(two)
    one.commit()
    assert rows(two, "SELECT * FROM named WHERE id = 4") == Counter([(4, "Bonn")])
    two.commit()
    check(shop)


def test_a_table_that_began_to_follow_meanwhile(shop: Lake) -> None:
    tx = shop.transaction()
    tx.sql("INSERT INTO orders VALUES (4, 'mia', 1)")
    shop.create_stream_table("late", "SELECT id FROM orders", refresh_mode="IMMEDIATE")
    with pytest.raises(CommitConflictError, match="late"):
        tx.commit()


def test_a_failing_expression_names_the_view_and_leaves_nothing(shop: Lake) -> None:
    shop.create_stream_table(
        "shares", "SELECT id, 100 / amount AS share FROM orders", refresh_mode="IMMEDIATE"
    )
    version = shop.version
    with pytest.raises(spark_trickle.ExecutionError, match="shares"):
        shop.sql("INSERT INTO orders VALUES (8, 'ada', 0)")
    assert shop.version == version
    check(shop)


def test_a_read_that_failed_half_way_leaves_nothing(shop: Lake) -> None:
    shop.sql("CREATE TABLE notes (text STRING)")
    best = "SELECT customer, max(amount) AS most FROM orders GROUP BY customer"
    query = f"SELECT id, 100 / most AS share FROM orders JOIN ({best}) USING (customer)"
    shop.create_stream_table("shares", query, refresh_mode="IMMEDIATE")
    with shop.transaction() as tx:
        tx.sql("INSERT INTO notes VALUES ('a row that nobody follows')")
        tx.sql("INSERT INTO orders VALUES (8, 'mia', 0)")
        with pytest.raises(spark_trickle.ExecutionError, match="shares"):
            tx.sql("SELECT * FROM shares")
        tx.sql("DELETE FROM orders WHERE id = 8")
    assert not shop.verify("shares")
    shop.sql("INSERT INTO orders VALUES (9, 'mia', 4)")
    assert rows(shop, "SELECT * FROM shares") == rows(shop, query)


def test_suspend_resume_and_switching_modes(shop: Lake) -> None:
    shop.sql("ALTER STREAM TABLE totals SUSPEND")
    shop.sql("INSERT INTO orders VALUES (4, 'eve', 1)")
    with pytest.warns(SuspendedWarning, match="totals is suspended.*totals RESUME"):
        read = rows(shop, "SELECT * FROM totals")
    assert read != rows(shop, QUERIES["totals"])
    with shop.transaction() as tx, pytest.warns(SuspendedWarning):
        tx.table("totals")
    shop.sql("ALTER STREAM TABLE totals RESUME")
    with warnings.catch_warnings():
        warnings.simplefilter("error", SuspendedWarning)
        check(shop)
    shop.alter_stream_table("totals", refresh_mode="DIFFERENTIAL")
    shop.sql("INSERT INTO orders VALUES (5, 'eve', 1)")
    assert shop.refresh_stream_table("totals").effective_mode == "DIFFERENTIAL"
    shop.sql("INSERT INTO orders VALUES (6, 'eve', 1)")
    shop.alter_stream_table("totals", refresh_mode="IMMEDIATE")
    check(shop)
    shop.sql("INSERT INTO orders VALUES (7, 'eve', 1)")
    check(shop)
    assert shop.refresh_stream_table("totals").effective_mode == "FULL"


def test_deferred_over_immediate_and_immediate_over_deferred(shop: Lake) -> None:
    shop.create_stream_table("later", "SELECT city FROM named", refresh_mode="DIFFERENTIAL")
    shop.create_stream_table(
        "at_once", "SELECT city, count(*) AS n FROM later GROUP BY city", refresh_mode="IMMEDIATE"
    )
    shop.sql("INSERT INTO orders VALUES (4, 'eve', 1)")
    shop.refresh_stream_table("later")
    query = "SELECT city, count(*) AS n FROM later GROUP BY city"
    assert rows(shop, "SELECT * FROM at_once") == rows(shop, query)
    assert [report.effective_mode for report in shop.refresh_all()].count("NO_DATA") >= 7


def test_expiry_need_not_wait_for_what_follows(shop: Lake) -> None:
    for i in range(3):
        shop.sql(f"INSERT INTO customers VALUES ('new {i}', 'Bern')")
    newest = shop.version
    assert shop.expire(keep_from=newest, older_than=0.0) == newest
    assert not shop.verify("totals"), "its source did not change since a version that is gone"
    shop.sql("ALTER STREAM TABLE totals SET (refresh_mode = 'DIFFERENTIAL')")
    shop.sql("INSERT INTO orders VALUES (8, 'eve', 1)")
    assert shop.refresh_stream_table("totals").effective_mode == "DIFFERENTIAL"
    check(shop)


def test_what_cannot_be_kept_is_refused(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a INT)")
    with pytest.raises(UnsupportedQueryError, match="rand") as error:
        lake.create_stream_table("m", "SELECT a, rand() AS r FROM t", refresh_mode="IMMEDIATE")
    assert "AUTO" in str(error.value.hint)


def test_sums_of_doubles_are_computed_here_once_in_a_transaction(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.sql("CREATE TABLE readings (place INT, value DOUBLE)")
    query = "SELECT place, sum(value) AS s, avg(value) AS a, max(value) AS m FROM readings GROUP BY place"
    lake.create_stream_table("summed", query, refresh_mode="IMMEDIATE")
    monkeypatch.setattr(locally, "CHECKED", 0)
    with lake.transaction() as tx:
        for number in range(20):
            tx.sql(f"INSERT INTO readings VALUES ({number % 3}, {number} / 10)")
    report, *_ = lake.refresh_history("summed")
    assert (report.engine, report.spark_queries, report.rows_inserted) == ("local", 0, 3)
    lake.sql("DELETE FROM readings WHERE value > 1.5")
    lake.sql("INSERT INTO readings VALUES (0, CAST('NaN' AS DOUBLE)), (1, -0.0), (3, -0.0)")
    assert lake.refresh_history("summed")[0].engine == "spark"
    assert not lake.verify("summed")
