"""What stream tables answer without Spark: explain, refusals, schedules, listings."""

from __future__ import annotations

import pytest

from spark_trickle import Lake
from spark_trickle.errors import (
    BindError,
    NotFoundError,
    ParseError,
    UnsupportedQueryError,
    UserError,
)
from spark_trickle.maintain.schedule.schedules import checked, seconds
from spark_trickle.storage.records import TableName

TOTALS = "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"


@pytest.fixture
def shop(dry_lake: Lake) -> Lake:
    dry_lake.sql("CREATE TABLE orders (id BIGINT NOT NULL, customer STRING, amount BIGINT)")
    return dry_lake


def test_explain_tells_verdict_plan_and_delta(shop: Lake) -> None:
    text = shop.explain(TOTALS)
    stages = [line.strip("= ") for line in text.splitlines() if line.startswith("== ")]
    assert stages == ["normalized", "verdict", "strategy", "fast_path", "delta", "sql"]
    assert "Incremental" in text
    assert "orders@delta" in text
    assert shop.sql(f"EXPLAIN CREATE STREAM TABLE t AS {TOTALS}") == text
    assert shop.stream_tables() == []
    assert shop.explain(TOTALS, stage="verdict").startswith("Incremental")
    assert shop.explain(TOTALS, "parsed").startswith("SELECT")
    with pytest.raises(UserError, match="no such stage: later") as caught:
        shop.explain(TOTALS, stage="later")
    assert "normalized" in str(caught.value.hint)


def test_explain_of_what_cannot_be_maintained(shop: Lake) -> None:
    text = shop.explain("SELECT id, rand() AS r FROM orders")
    assert "FullOnly" in text
    assert "^^^^" in text, "the place is marked"
    assert "hint:" in text


def test_explain_warns_about_an_order_nobody_keeps(shop: Lake) -> None:
    assert "warning: ORDER BY" in shop.explain("SELECT id FROM orders ORDER BY id")


def test_explain_of_a_subquery_with_a_limit_but_no_order_warns(shop: Lake) -> None:
    for cut in ("LIMIT 3", "LIMIT 3 OFFSET 1"):
        text = shop.explain(f"SELECT id FROM (SELECT id FROM orders {cut}) s")
        assert "warning: LIMIT without ORDER BY" in text
    ordered = shop.explain("SELECT id FROM (SELECT id FROM orders ORDER BY id LIMIT 3 OFFSET 1) s")
    assert "warning" not in ordered


def test_explain_in_postgres_words(shop: Lake) -> None:
    text = shop.explain("SELECT count(*)::int AS n FROM orders", "verdict", dialect="postgres")
    assert text.startswith("Incremental")


def test_explain_of_what_is_not_there(shop: Lake) -> None:
    with pytest.raises(NotFoundError, match="nothing"):
        shop.sql("EXPLAIN STREAM TABLE nothing")
    with pytest.raises(NotFoundError, match="there is no stream table nothing"):
        shop.explain("nothing")
    with pytest.raises(BindError, match="missing"):
        shop.explain("SELECT missing FROM orders")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT id, rand() AS r FROM orders", "VOLATILE"),
        ("SELECT id, current_timestamp() AS t FROM orders", "VOLATILE"),
        ("SELECT id, row_number() OVER (ORDER BY id) AS n FROM orders", "UNPARTITIONED_WINDOW"),
        ("SELECT id FROM (SELECT id FROM orders LIMIT 3) s", "LIMIT_WITHOUT_ORDER_BY"),
        ("SELECT id FROM orders ORDER BY id OFFSET 2", "OFFSET_WITHOUT_LIMIT"),
    ],
)
def test_differential_is_strict(shop: Lake, query: str, code: str) -> None:
    """DIFFERENTIAL refuses with code, place and hint what only a full run keeps exact."""
    streams = shop._streams
    from spark_trickle.maintain.define.definition import Definition, check

    wanted = Definition(TableName.of("t"), query, refresh_mode="DIFFERENTIAL")
    with pytest.raises(UnsupportedQueryError) as caught:
        check(wanted, streams._explainer.compiled(query, "spark"))
    assert caught.value.code.startswith(code)
    assert caught.value.hint
    if code != "UNPARTITIONED_WINDOW":
        assert caught.value.position is not None


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT id FROM orders LIMIT 5", "LIMIT_WITHOUT_ORDER_BY"),
        ("SELECT id FROM orders FETCH FIRST 5 ROWS ONLY", "LIMIT_WITHOUT_ORDER_BY"),
        ("SELECT id FROM orders FETCH NEXT 5 ROWS ONLY", "LIMIT_WITHOUT_ORDER_BY"),
        ("SELECT id FROM orders ORDER BY id LIMIT (SELECT count(*) FROM orders)", "LIMIT_NOT"),
        ("SELECT id FROM orders ORDER BY id LIMIT id", "LIMIT_NOT_CONSTANT"),
        ("SELECT id FROM orders ORDER BY id LIMIT -1", "LIMIT_NOT_CONSTANT"),
        ("SELECT id FROM orders ORDER BY id LIMIT 3 OFFSET (SELECT 1)", "LIMIT_NOT_CONSTANT"),
        ("SELECT id FROM orders ORDER BY id FETCH FIRST 2 ROWS WITH TIES", "FETCH_OPTION"),
    ],
)
def test_limits_that_no_mode_accepts(shop: Lake, query: str, code: str) -> None:
    with pytest.raises(UnsupportedQueryError) as caught:
        shop.explain(query)
    assert caught.value.code.startswith(code)
    assert caught.value.position is not None
    assert caught.value.hint


@pytest.mark.parametrize(
    "schedule",
    [
        "",
        "soon",
        "0s",
        "5",
        "5 parsecs",
        "-5s",
        "61 * * * *",
        "* * * *",
        "*/0 * * * *",
        "5-99 * * * *",
    ],
)
def test_what_is_no_schedule(shop: Lake, schedule: str) -> None:
    with pytest.raises(UserError) as caught:
        shop.create_stream_table("t", TOTALS, schedule=schedule)
    assert "'30s'" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("schedule", "kept"),
    [
        ("30s", "30s"),
        ("1h 30m", "1h 30m"),
        (" 5M ", "5M"),
        ("*/5 * * * *", "*/5 * * * *"),
        ("0 9-17/2 * 1,6 1-5", "0 9-17/2 * 1,6 1-5"),
        ("calculated", "CALCULATED"),
        (None, None),
    ],
)
def test_what_is_a_schedule(schedule: str | None, kept: str | None) -> None:
    assert checked(schedule) == kept


def test_durations_in_seconds() -> None:
    assert seconds("1h 30m") == 5400.0
    assert seconds("250ms") == 0.25
    assert seconds("1d12h") == 129_600.0


def test_what_is_no_mode_or_status(shop: Lake) -> None:
    with pytest.raises(UserError, match="SOMETIMES") as caught:
        shop.create_stream_table("t", TOTALS, refresh_mode="SOMETIMES")
    assert "DIFFERENTIAL" in str(caught.value.hint)
    with pytest.raises(ParseError, match="SOMETIMES"):
        shop.sql(f"CREATE STREAM TABLE t REFRESH MODE SOMETIMES AS {TOTALS}")
    with pytest.raises(NotFoundError, match="t"):
        shop.alter_stream_table("t", status="ACTIVE")


def test_names_that_are_not_there(shop: Lake) -> None:
    for attempt in (
        lambda: shop.refresh_stream_table("nothing"),
        lambda: shop.drop_stream_table("nothing"),
        lambda: shop.verify("nothing"),
        lambda: shop.repair_stream_table("nothing"),
        lambda: shop.refresh_history("nothing"),
        lambda: shop.sql("REFRESH STREAM TABLE nothing FULL"),
        lambda: shop.sql("ALTER STREAM TABLE nothing SUSPEND"),
        lambda: shop.refresh_stream_table("orders"),
    ):
        with pytest.raises(NotFoundError):
            attempt()
    shop.drop_stream_table("nothing", if_exists=True)
    assert shop.refresh_all() == []
    assert shop.stream_tables() == []
    assert shop.refresh_history() == []


@pytest.mark.parametrize("name", ["a.b", "`", "``", "x`y", "plain", "a b", "S"])
def test_names_survive_being_written_down(name: str) -> None:
    for written in (TableName("main", name), TableName(name, name)):
        assert TableName.of(str(written)) == written
