"""The surface of stream tables: create, replace, alter, rename, drop, in Python and in SQL."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from spark_trickle import Lake
from spark_trickle.errors import (
    AlreadyExistsError,
    BindError,
    CycleError,
    DependencyError,
    NotFoundError,
    NoticeWarning,
    UnsupportedQueryError,
    UserError,
)
from support.streams import assert_exact, refreshed, rows

pytestmark = pytest.mark.spark

TOTALS = "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"


@pytest.fixture
def shop(lake: Lake) -> Lake:
    """A lake with orders of two customers."""
    lake.sql(
        "CREATE TABLE orders (id BIGINT NOT NULL, customer STRING, amount BIGINT, PRIMARY KEY (id))"
    )
    lake.sql("INSERT INTO orders VALUES (1, 'ada', 10), (2, 'bob', 5), (3, 'ada', 1)")
    return lake


def info(lake: Lake, name: str) -> Any:
    return next(table for table in lake.stream_tables() if table.name == name)


def test_create_fills_and_reports(shop: Lake) -> None:
    before = shop.version
    report = shop.create_stream_table(
        "totals", TOTALS, schedule="1m", refresh_mode="DIFFERENTIAL", initialize=True
    )
    assert report is not None
    assert (report.name, report.effective_mode) == ("totals", "FULL")
    assert report.reason.startswith("INITIALIZE:")
    assert (report.rows_inserted, report.rows_deleted) == (2, 0)
    assert report.version == shop.version == before + 1, "one commit"
    assert rows(shop, "totals") == [("ada", 11), ("bob", 5)]
    assert_exact(shop, "totals")
    seen = info(shop, "totals")
    assert (seen.schedule, seen.refresh_mode, seen.status) == ("1m", "DIFFERENTIAL", "ACTIVE")
    with pytest.raises(AlreadyExistsError, match="totals") as caught:
        shop.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    assert "OR REPLACE" in str(caught.value.hint)
    with pytest.raises(AlreadyExistsError, match="orders"):
        shop.create_stream_table("orders", TOTALS)
    assert shop.sql(f"CREATE STREAM TABLE IF NOT EXISTS totals AS {TOTALS}") is None
    with pytest.raises(AlreadyExistsError, match="totals"):
        shop.sql("CREATE TABLE totals (a INT)")


def test_no_data_waits_for_the_first_refresh(shop: Lake) -> None:
    made = shop.sql(
        f"CREATE STREAM TABLE totals REFRESH MODE DIFFERENTIAL WITH NO DATA AS {TOTALS}"
    )
    assert made is None
    assert rows(shop, "totals") == []
    assert not info(shop, "totals").populated
    shop.sql("INSERT INTO orders VALUES (4, 'cid', 7)")
    report = shop.sql("REFRESH STREAM TABLE totals")
    assert report.effective_mode == "FULL"
    assert report.reason.startswith("INITIALIZE:")
    assert rows(shop, "totals") == [("ada", 11), ("bob", 5), ("cid", 7)]
    assert info(shop, "totals").populated
    shop.sql("DELETE FROM orders WHERE id = 3")
    refreshed(shop, "totals", "DIFFERENTIAL")


def test_or_replace_with_the_same_query_does_nothing(shop: Lake) -> None:
    create = f"CREATE OR REPLACE STREAM TABLE totals SCHEDULE '1m' AS {TOTALS}"
    shop.sql(create)
    before, stored = shop.version, shop._streams.get("totals")
    assert shop.sql(create) is None
    assert shop.version == before
    assert shop._streams.get("totals") == stored


def test_or_replace_with_other_settings_alters_only(shop: Lake) -> None:
    shop.sql(f"CREATE OR REPLACE STREAM TABLE totals SCHEDULE '1m' AS {TOTALS}")
    before, uuid = shop.version, shop._streams.get("totals").uuid
    shop.sql(f"CREATE OR REPLACE STREAM TABLE totals REFRESH MODE FULL AS {TOTALS}")
    assert shop.version == before
    seen = info(shop, "totals")
    assert (seen.schedule, seen.refresh_mode) == (None, "FULL")
    assert shop._streams.get("totals").uuid == uuid


def test_or_replace_with_another_query_keeps_dependents_differential(shop: Lake) -> None:
    shop.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    shop.create_stream_table(
        "big", "SELECT customer FROM totals WHERE total > 10", refresh_mode="DIFFERENTIAL"
    )
    before, history = shop.version, len(shop.refresh_history("totals"))
    report = shop.create_stream_table(
        "totals",
        "SELECT customer, sum(amount * 2) AS total FROM orders GROUP BY customer",
        or_replace=True,
    )
    assert report is not None
    assert report.reason.startswith("NEW_QUERY:")
    assert shop.version == before + 1, "rebuilt in one commit"
    assert (report.rows_inserted, report.rows_deleted) == (2, 2), "the net difference"
    assert rows(shop, "totals") == [("ada", 22), ("bob", 10)]
    assert len(shop.refresh_history("totals")) == history + 1, "the history goes on"
    shop.sql("INSERT INTO orders VALUES (5, 'bob', 1)")
    refreshed(shop, "totals", "DIFFERENTIAL", "FULL")
    refreshed(shop, "big", "DIFFERENTIAL")
    assert rows(shop, "big") == [("ada",), ("bob",)]


def test_or_replace_may_change_columns_unless_somebody_reads_them(shop: Lake) -> None:
    shop.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    shop.sql("CREATE OR REPLACE STREAM TABLE totals AS SELECT id, customer FROM orders")
    assert rows(shop, "totals") == [(1, "ada"), (2, "bob"), (3, "ada")]
    shop.create_stream_table("names", "SELECT DISTINCT customer FROM totals")
    with pytest.raises(DependencyError, match="names"):
        shop.sql(f"CREATE OR REPLACE STREAM TABLE totals AS {TOTALS}")
    assert rows(shop, "totals") == [(1, "ada"), (2, "bob"), (3, "ada")]
    refreshed(shop, "totals", "NO_DATA")


def test_or_replace_with_no_data_empties_it(shop: Lake) -> None:
    shop.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    made = shop.sql(
        "CREATE OR REPLACE STREAM TABLE totals WITH NO DATA AS "
        "SELECT customer, max(amount) AS total FROM orders GROUP BY customer"
    )
    assert made is None
    assert rows(shop, "totals") == []
    assert shop.refresh_stream_table("totals").effective_mode == "FULL"
    assert rows(shop, "totals") == [("ada", 10), ("bob", 5)]


def test_alter(shop: Lake) -> None:
    shop.create_stream_table("totals", TOTALS, schedule="1m")
    shop.sql("ALTER STREAM TABLE totals SET (schedule = '*/5 * * * *', refresh_mode = 'full')")
    seen = info(shop, "totals")
    assert (seen.schedule, seen.refresh_mode) == ("*/5 * * * *", "FULL")
    shop.sql("INSERT INTO orders VALUES (4, 'bob', 2)")
    refreshed(shop, "totals", "FULL")
    shop.alter_stream_table("totals", schedule="calculated", refresh_mode="differential")
    seen = info(shop, "totals")
    assert (seen.schedule, seen.refresh_mode) == ("CALCULATED", "DIFFERENTIAL")
    shop.sql("INSERT INTO orders VALUES (5, 'bob', 2)")
    refreshed(shop, "totals", "DIFFERENTIAL")
    shop.sql("ALTER STREAM TABLE totals AS SELECT count(*) AS orders FROM orders")
    assert rows(shop, "totals") == [(5,)]
    assert info(shop, "totals").schedule == "CALCULATED"
    with pytest.raises(UnsupportedQueryError):
        shop.alter_stream_table("totals", query="SELECT id, rand() AS r FROM orders")
    assert rows(shop, "totals") == [(5,)], "a refused query changes nothing"
    refreshed(shop, "totals", "NO_DATA")


def test_suspend_and_resume(shop: Lake) -> None:
    shop.create_stream_table("totals", TOTALS)
    shop.sql("ALTER STREAM TABLE totals SUSPEND")
    shop.sql("INSERT INTO orders VALUES (4, 'bob', 2)")
    with pytest.raises(UserError, match="suspended") as caught:
        shop.refresh_stream_table("totals")
    assert "RESUME" in str(caught.value.hint)
    (skipped,) = shop.refresh_all()
    assert skipped.effective_mode == "SKIPPED"
    assert skipped.reason.startswith("SUSPENDED:")
    assert rows(shop, "totals") == [("ada", 11), ("bob", 5)]
    with pytest.raises(UserError, match="BROKEN") as caught:
        shop.alter_stream_table("totals", status="BROKEN")
    assert "SUSPENDED" in str(caught.value.hint)
    shop.alter_stream_table("totals", status="active")
    refreshed(shop, "totals", "DIFFERENTIAL", "FULL")
    assert rows(shop, "totals") == [("ada", 11), ("bob", 7)]


def test_dependents_of_a_suspended_table_say_so(shop: Lake) -> None:
    for name, query in {
        "a": "SELECT id, amount FROM orders",
        "b": "SELECT id, amount FROM a",
        "c": "SELECT b.id FROM b JOIN orders o ON o.id = b.id",
        "other": "SELECT id FROM orders",
        "both": "SELECT a.id FROM a JOIN other ON a.id = other.id",
    }.items():
        shop.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
    shop.alter_stream_table("a", status="SUSPENDED")
    shop.sql("INSERT INTO orders VALUES (4, 'bob', 2)")
    reports = {report.name: report for report in shop.refresh_all()}
    assert reports["other"].effective_mode == "DIFFERENTIAL"
    for name, reason in {
        "a": "SUSPENDED: ",
        "b": "UPSTREAM_SUSPENDED: a is suspended",
        "c": "UPSTREAM_SUSPENDED: b ",
        "both": "UPSTREAM_SUSPENDED: a is suspended",
    }.items():
        assert reports[name].effective_mode == "SKIPPED"
        assert reports[name].reason.startswith(reason), reports[name]
        assert shop.refresh_history(name)[0] == reports[name]
    shop.alter_stream_table("a", status="ACTIVE")
    assert {r.effective_mode for r in shop.refresh_all()} == {"DIFFERENTIAL", "NO_DATA"}
    assert_exact(shop, "a", "b", "c", "both", "other")


def test_rename(shop: Lake) -> None:
    shop.create_stream_table("totals", TOTALS, refresh_mode="DIFFERENTIAL")
    shop.create_stream_table("other", "SELECT id FROM orders", refresh_mode="DIFFERENTIAL")
    with pytest.raises(AlreadyExistsError):
        shop.sql("ALTER STREAM TABLE totals RENAME TO other")
    shop.sql("ALTER STREAM TABLE totals RENAME TO sums")
    with pytest.raises(NotFoundError, match="totals") as caught:
        shop.refresh_stream_table("totals")
    assert "sums" in str(caught.value.hint)
    shop.sql("INSERT INTO orders VALUES (4, 'bob', 2)")
    refreshed(shop, "sums", "DIFFERENTIAL")
    assert rows(shop, "sums") == [("ada", 11), ("bob", 7)]
    assert [r.name for r in shop.refresh_history("sums")] == ["sums", "totals"]
    shop.create_stream_table("of_sums", "SELECT total FROM sums", refresh_mode="DIFFERENTIAL")
    shop.sql("ALTER STREAM TABLE sums RENAME TO totals")
    shop.sql("INSERT INTO orders VALUES (5, 'eve', 1)")
    assert [r.effective_mode for r in shop.refresh_all()] == ["DIFFERENTIAL"] * 3
    assert rows(shop, "of_sums") == [(1,), (11,), (7,)]
    [of_sums] = [seen for seen in shop.stream_tables() if seen.name == "of_sums"]
    assert list(of_sums.sources) == ["totals"]


def test_drop_names_dependents_and_cascades(shop: Lake) -> None:
    shop.create_stream_table("totals", TOTALS)
    # The second reads the first and the third, which is later in the alphabet.
    shop.create_stream_table("zoe", "SELECT customer FROM totals")
    shop.create_stream_table(
        "amy", "SELECT t.total FROM totals t JOIN zoe z ON t.customer = z.customer"
    )
    for attempt in (
        lambda: shop.drop_stream_table("totals"),
        lambda: shop.sql("DROP STREAM TABLE totals"),
    ):
        with pytest.raises(DependencyError, match="amy, zoe|zoe, amy") as caught:
            attempt()
        assert "CASCADE" in str(caught.value.hint)
    before = shop.version
    shop.sql("DROP STREAM TABLE totals CASCADE")
    assert shop.version == before + 1
    assert shop.stream_tables() == []
    assert {t.name for t in shop.tables()} == {"orders"}
    assert shop._catalog.begin().tables() == [shop._catalog.table("orders")], (
        "no private state left"
    )
    shop.sql("DROP STREAM TABLE IF EXISTS totals")
    with pytest.raises(NotFoundError, match="totals"):
        shop.sql("DROP STREAM TABLE totals")
    shop.sql("DROP TABLE orders")


def test_cycles_are_refused_by_name(shop: Lake) -> None:
    shop.create_stream_table("a", "SELECT id, amount FROM orders")
    shop.create_stream_table("b", "SELECT id, amount FROM a")
    shop.create_stream_table("c", "SELECT id, amount FROM b")
    with pytest.raises(CycleError, match=r"\ba\b.*\bc\b"):
        shop.sql("ALTER STREAM TABLE a AS SELECT id, amount FROM c")
    with pytest.raises(CycleError, match=r"\ba\b"):
        shop.sql("ALTER STREAM TABLE a AS SELECT id, amount FROM a")
    with pytest.raises(BindError, match="d"):
        shop.create_stream_table("d", "SELECT id FROM d")
    assert_exact(shop, "a", "b", "c")


def test_two_part_and_quoted_names(shop: Lake) -> None:
    shop.sql("CREATE SCHEMA mart")
    shop.sql("CREATE TABLE mart.`odd.table` (`a b` INT, `select` STRING)")
    shop.sql("INSERT INTO mart.`odd.table` VALUES (1, 'x')")
    shop.sql(
        "CREATE STREAM TABLE mart.`my.view` REFRESH MODE DIFFERENTIAL AS "
        "SELECT `a b`, `select` FROM mart.`odd.table`"
    )
    shop.create_stream_table(
        "mart.Plain", "SELECT count(*) AS n FROM mart.`my.view`", refresh_mode="DIFFERENTIAL"
    )
    shop.sql("INSERT INTO mart.`odd.table` VALUES (2, 'y')")
    reports = shop.refresh_all()
    assert [r.effective_mode for r in reports] == ["DIFFERENTIAL", "DIFFERENTIAL"]
    assert rows(shop, "MART.plain") == [(2,)]
    assert rows(shop, "mart.`my.view`") == [(1, "x"), (2, "y")]
    assert_exact(shop, "mart.`my.view`", "mart.plain")
    with pytest.raises(UserError, match="stream table"):
        shop.sql("DELETE FROM mart.`my.view`")
    with pytest.raises(UserError, match="too many parts"):
        shop.sql("CREATE STREAM TABLE a.b.c AS SELECT 1 AS x")
    with pytest.raises(DependencyError):
        shop.sql("DROP SCHEMA mart CASCADE")
    shop.sql("DROP STREAM TABLE mart.`my.view` CASCADE")
    assert shop.stream_tables() == []


def test_postgres_dialect(shop: Lake) -> None:
    query = "SELECT customer, count(*)::int AS n FROM orders WHERE customer ILIKE 'A%' GROUP BY 1"
    shop.create_stream_table("pg", query, dialect="postgres", refresh_mode="DIFFERENTIAL")
    shop.sql("INSERT INTO orders VALUES (4, 'Alf', 2), (5, 'ada', 1)")
    refreshed(shop, "pg", "DIFFERENTIAL")
    assert rows(shop, "pg") == [("Alf", 1), ("ada", 3)]
    shop.sql(
        "CREATE STREAM TABLE pg_two AS SELECT id FROM orders WHERE amount::int > 5",
        dialect="postgres",
    )
    assert rows(shop, "pg_two") == [(1,)]
    shop.sql("UPDATE orders SET amount = 6 WHERE id = 2")
    refreshed(shop, "pg_two", "DIFFERENTIAL", "FULL")
    assert rows(shop, "pg_two") == [(1,), (2,)]
    shop.sql(
        'CREATE STREAM TABLE "Odd.One" REFRESH MODE DIFFERENTIAL AS '
        """SELECT "id", 'a\\' || "customer" AS "the name" FROM "orders" WHERE "id" < 3""",
        dialect="postgres",
    )
    shop.sql("DELETE FROM orders WHERE id = 1")
    report = shop.sql('REFRESH STREAM TABLE "odd.one"', dialect="postgres")
    assert (report.name, report.effective_mode) == ("`Odd.One`", "DIFFERENTIAL")
    assert rows(shop, "`Odd.One`") == [(2, "a\\bob")]
    assert_exact(shop, "`Odd.One`")
    with shop.transaction() as tx, pytest.raises(UserError, match="transactions of their own"):
        tx.sql('DROP STREAM TABLE "Odd.One"', dialect="postgres")
    shop.sql('DROP STREAM TABLE "Odd.One"', dialect="postgres")
    assert [t.name for t in shop.stream_tables()] == ["pg", "pg_two"]


def test_unnamed_columns_take_the_names_spark_gives(shop: Lake) -> None:
    query = "SELECT customer, sum(amount), count(*) FROM orders GROUP BY customer"
    shop.create_stream_table("unnamed", query, refresh_mode="DIFFERENTIAL")
    expected = shop.sql(query).columns
    assert shop.table("unnamed").columns == expected
    shop.sql("INSERT INTO orders VALUES (4, 'bob', 2)")
    refreshed(shop, "unnamed", "DIFFERENTIAL")
    uuid = shop._streams.get("unnamed").uuid
    shop.repair_stream_table("unnamed")
    assert shop._streams.get("unnamed").uuid == uuid, "the same columns: the same table"


def test_what_a_query_says_in_vain_is_told_when_it_is_made(shop: Lake) -> None:
    with pytest.warns(NoticeWarning, match="table sorted: ORDER BY without LIMIT is dro") as told:
        shop.create_stream_table("sorted", "SELECT id FROM orders ORDER BY id")
    assert [(each.filename, str(each.message).count("; order the rows")) for each in told] == [
        (__file__, 1)
    ]
    with pytest.warns(NoticeWarning, match="LIMIT without ORDER BY takes any rows in a subquery"):
        shop.sql(
            "CREATE STREAM TABLE any WITH NO DATA AS SELECT * FROM (SELECT 1 FROM orders LIMIT 1)"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shop.alter_stream_table("sorted", schedule="5m")
        shop.repair_stream_table("sorted")
        shop.create_stream_table(
            "lists", "SELECT sort_array(collect_list(id)) AS l FROM orders", initialize=False
        )
    with pytest.warns(NoticeWarning, match="ORDER BY"):
        shop.sql("ALTER STREAM TABLE sorted AS SELECT customer FROM orders ORDER BY id")


def test_verify_knows_columns_without_names_and_ties_of_every_limit(shop: Lake) -> None:
    for number, query in enumerate(
        [
            "SELECT id, -amount, customer || 'x' FROM orders",
            "SELECT id, -amount, map('k', id) FROM orders ORDER BY id LIMIT 2",
            "SELECT id FROM (SELECT id, 1 AS x FROM orders ORDER BY x LIMIT 2)",
            "SELECT id FROM orders WHERE id IN (SELECT id FROM orders ORDER BY id > 0 LIMIT 2)",
            "FROM orders |> SET amount = id > 0 |> ORDER BY amount |> LIMIT 2",
        ]
    ):
        name = f"t{number}"
        shop.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
        shop.sql("DELETE FROM orders WHERE id = 3")
        shop.sql("INSERT INTO orders VALUES (3, 'ada', 1)")
        assert not shop.verify(name), query
        shop.alter_stream_table(name, refresh_mode="FULL")
        report = shop.refresh_stream_table(name)
        assert (report.rows_inserted, report.rows_deleted) == (0, 0), query


def test_queries_that_make_no_table(shop: Lake) -> None:
    for query, message in [
        ("SELECT id, id FROM orders", "two columns named id"),
        ("SELECT NULL AS nothing FROM orders", "nothing"),
        ("SELECT missing FROM orders", "missing"),
        ("SELECT 1 AS a FROM nowhere", "nowhere"),
    ]:
        with pytest.raises(UserError, match=message):
            shop.create_stream_table("t", query)
    with pytest.raises(UserError):
        shop.create_stream_table("t", "DELETE FROM orders")
    assert shop.stream_tables() == []


def _refused(work: Callable[[], object], *names: str) -> DependencyError:
    with pytest.raises(DependencyError) as caught:
        work()
    for name in names:
        assert name in caught.value.message
    assert caught.value.hint
    return caught.value


def test_a_column_is_used_wherever_the_text_names_it(shop: Lake) -> None:
    shop.sql("CREATE TABLE more (id BIGINT, amount BIGINT, extra INT)")
    for number, query in enumerate(
        [
            "SELECT id FROM (SELECT id, extra FROM more)",
            "SELECT id FROM orders WHERE EXISTS (SELECT * FROM more m WHERE m.extra = orders.id)",
            "SELECT id FROM (SELECT DISTINCT id, extra FROM more)",
            "SELECT id FROM more ORDER BY extra LIMIT 1",
            "SELECT id, row_number() OVER (PARTITION BY extra ORDER BY id) AS n FROM more",
            "SELECT * FROM more",
            "SELECT id FROM more GROUP BY id HAVING max(extra) > 1",
        ]
    ):
        name = f"reader_{number}"
        shop.create_stream_table(name, query, initialize=False)
        _refused(lambda: shop.sql("ALTER TABLE more DROP COLUMN extra"), name)
        shop.drop_stream_table(name)
    shop.sql("ALTER TABLE more DROP COLUMN extra")


def test_sources_and_their_used_columns_are_kept(shop: Lake) -> None:
    shop.sql("ALTER TABLE orders ADD COLUMN note STRING")
    shop.create_stream_table("totals", TOTALS, refresh_mode="DIFFERENTIAL")
    shop.create_stream_table("ids", "SELECT id FROM orders", refresh_mode="DIFFERENTIAL")
    _refused(lambda: shop.sql("DROP TABLE orders"), "orders", "totals", "ids")
    _refused(lambda: shop.sql("CREATE OR REPLACE TABLE orders (a INT)"), "totals", "ids")
    wrong = _refused(lambda: shop.sql("ALTER TABLE orders DROP COLUMN amount"), "amount", "totals")
    assert "ids" not in wrong.message, "it does not read that column"
    with shop.transaction() as tx:
        _refused(lambda: tx.sql("DROP TABLE orders"), "totals")
    shop.sql("ALTER TABLE orders DROP COLUMN note")
    shop.sql("ALTER TABLE orders ADD COLUMN colour STRING")
    shop.sql("INSERT INTO orders VALUES (4, 'bob', 2, 'red')")
    for report in shop.refresh_all():
        assert report.effective_mode == "DIFFERENTIAL", report
    assert_exact(shop, "totals", "ids")


def test_a_stream_table_is_not_written_by_hand(shop: Lake) -> None:
    shop.create_stream_table("totals", TOTALS)
    for statement in [
        "INSERT INTO totals VALUES ('eve', 1)",
        "UPDATE totals SET total = 0",
        "DELETE FROM totals",
        "TRUNCATE TABLE totals",
        "MERGE INTO totals t USING orders o ON t.customer = o.customer WHEN MATCHED THEN DELETE",
        "DROP TABLE totals",
        "ALTER TABLE totals RENAME TO other",
        "ALTER TABLE totals ADD COLUMN more INT",
        "ALTER TABLE totals DROP COLUMN total",
        "ALTER TABLE totals RENAME COLUMN total TO sum",
        "CREATE OR REPLACE TABLE totals (a INT)",
    ]:
        with pytest.raises(UserError, match="stream table") as caught:
            shop.sql(statement)
        assert caught.value.hint, statement
        with shop.transaction() as tx, pytest.raises(UserError, match="stream table"):
            tx.sql(statement)
    with pytest.raises(UserError, match="stream table"):
        shop.append("totals", [{"customer": "eve", "total": 1}])
    assert_exact(shop, "totals")
    refreshed(shop, "totals", "NO_DATA")


def test_private_state_is_private(shop: Lake) -> None:
    query = "SELECT id FROM orders WHERE amount > (SELECT avg(amount) FROM orders)"
    shop.create_stream_table("above", query, refresh_mode="DIFFERENTIAL")
    hidden = [segment.name for segment in shop._streams.get("above").segments]
    assert hidden, "this query keeps state"
    assert {t.name for t in shop.tables()} == {"orders", "above"}
    with pytest.raises(UserError, match="private"):
        shop.sql(f"DELETE FROM {hidden[0]}")
    with pytest.raises(UserError):
        shop.create_stream_table("spy", f"SELECT * FROM {hidden[0]}")
    with pytest.raises(UserError):
        shop.sql("DROP SCHEMA __trickle CASCADE")


def test_stream_statements_stay_out_of_transactions(shop: Lake) -> None:
    with shop.transaction() as tx, pytest.raises(UserError, match="transactions of their own"):
        tx.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    assert shop.stream_tables() == []
