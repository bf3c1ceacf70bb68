"""Names that are not there: what the hints say, and what they never show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spark_trickle import BindError, Lake, NotFoundError, RefreshError, TrickleError

Call = Callable[[Lake], Any]


@pytest.fixture
def shop(dry_lake: Lake) -> Lake:
    for name in ("orders", "customers", "items"):
        dry_lake.sql(f"CREATE TABLE {name} (id BIGINT, n BIGINT)")
    dry_lake.sql("CREATE SCHEMA sales")
    dry_lake.sql("CREATE TABLE sales.figures (id BIGINT)")
    with dry_lake._catalog.begin() as tx:
        tx.create_schema("__trickle", if_not_exists=True)
    return dry_lake


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda lake: lake.explain("SELECT id FROM ordrs"), "did you mean orders?"),
        (lambda lake: lake.explain("SELECT id FROM sales.figurs"), "did you mean sales.figures?"),
        (lambda lake: lake.sql("INSERT INTO custmers VALUES (1, 2)"), "did you mean customers?"),
        (lambda lake: lake.append("item", [{"id": 1}]), "did you mean items?"),
        (lambda lake: lake.table("ORDER"), "did you mean orders?"),
        (lambda lake: lake.sql("DROP TABLE order_s"), "did you mean orders?"),
        (lambda lake: lake.sql("DESCRIBE ordes"), "did you mean orders?"),
        (lambda lake: lake.change_summary("ordes", 0), "did you mean orders?"),
        (
            lambda lake: lake.explain("SELECT id FROM zzzz"),
            "there are: customers, items, orders, sales.figures",
        ),
        (lambda lake: lake.sql("CREATE TABLE sale.t (a INT)"), "did you mean sales?"),
        (lambda lake: lake.sql("SHOW TABLES IN zzzz"), "there are: main, sales"),
        (lambda lake: lake.refresh_stream_table("x"), "there are no stream tables yet"),
    ],
)
def test_a_similar_name_or_those_there_are(shop: Lake, call: Call, hint: str) -> None:
    with pytest.raises((NotFoundError, BindError)) as caught:
        call(shop)
    assert caught.value.hint == hint


def test_an_empty_lake_says_so(dry_lake: Lake) -> None:
    with pytest.raises(BindError) as caught:
        dry_lake.explain("SELECT * FROM t")
    assert caught.value.hint == "there are no tables yet"


def test_many_names_are_not_all_listed(dry_lake: Lake) -> None:
    with dry_lake.transaction() as tx:
        for n in range(18):
            tx.sql(f"CREATE TABLE t{n:02} (a INT)")
    with pytest.raises(BindError) as caught:
        dry_lake.explain("SELECT * FROM unheard_of")
    assert str(caught.value.hint).endswith("t07 and 10 more")


def test_names_of_with_are_in_reach(shop: Lake) -> None:
    with pytest.raises(BindError) as caught:
        shop.explain("WITH recent AS (SELECT id FROM orders) SELECT id FROM recen")
    assert caught.value.hint == "did you mean recent?"


def test_refresh_all_answers_reports_and_raises_when_asked(shop: Lake) -> None:
    assert shop.refresh_all() == []
    assert shop.refresh_all(errors="raise") == []


@pytest.mark.spark
def test_hints_of_queries_that_spark_runs(lake: Lake) -> None:
    lake.sql("CREATE TABLE orders (id BIGINT, n BIGINT)")
    lake.create_stream_table("totals", "SELECT n % 2 AS k, sum(n) AS t FROM orders GROUP BY n % 2")
    lake.spark.sql("SELECT 1 AS id").createOrReplaceTempView("my_view")
    try:
        for query, hint in (
            ("SELECT * FROM ordrs", "did you mean orders?"),
            ("SELECT * FROM orders o JOIN total t ON true", "did you mean totals?"),
            ("SELECT * FROM my_vew", "did you mean my_view?"),
            ("INSERT INTO orders SELECT * FROM ordrs", "did you mean orders?"),
        ):
            with pytest.raises(NotFoundError) as caught:
                lake.sql(query)
            assert caught.value.hint == hint
            assert caught.value.position is not None
        with lake.transaction() as tx:
            tx.sql("CREATE TABLE fresh (a INT)")
            with pytest.raises(NotFoundError) as caught:
                tx.sql("SELECT * FROM frsh")
            assert caught.value.hint == "did you mean fresh?"
        with pytest.raises(TrickleError) as refused:
            lake.create_stream_table("s", "SELECT id FROM my_view")
        assert "view of the Spark session" in str(refused.value.hint)
        for query in (
            "SELECT * FROM zzzz",
            "SELECT zzzz FROM orders",
            "SELECT orders.zzzz FROM orders",
            "SELECT o.id FROM orders",
            "SELECT id FROM orders, totals, orders AS two",
            "SELECT * FROM orders WHERE",
            "UPDATE orders SET nope = 1",
            "SELECT * FROM __trickl.x",
        ):
            with pytest.raises(TrickleError) as caught:
                lake.sql(query)
            assert "__trickle" not in str(caught.value), query
    finally:
        lake.spark.catalog.dropTempView("my_view")


@pytest.mark.spark
def test_refresh_all_goes_on_after_a_failure(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a INT)")
    lake.sql("INSERT INTO t VALUES (1)")
    lake.create_stream_table("good", "SELECT a FROM t")
    lake.create_stream_table("bad", "SELECT 10 / a AS q FROM t")
    lake.create_stream_table("after_bad", "SELECT q FROM bad")
    lake.sql("INSERT INTO t VALUES (0)")
    modes = {report.name: report for report in lake.refresh_all()}
    assert {name: report.failed for name, report in modes.items()} == {
        "good": False,
        "bad": True,
        "after_bad": True,
    }
    assert "java" not in str(modes["bad"].error).lower()
    with pytest.raises(RefreshError, match="2 of 3 stream tables could not be refreshed") as caught:
        lake.refresh_all(errors="raise")
    assert len(caught.value.reports) == 3
    assert lake.table("good").count() == 2
