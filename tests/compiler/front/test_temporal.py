"""Which comparisons with the clock are temporal filters, and what is said about the others."""

from __future__ import annotations

import pytest

from spark_trickle.compile import CompiledQuery, compile_query
from spark_trickle.delta.support import FullOnly
from spark_trickle.statements.text.clock import at_moment
from support.tpch import source

SOURCES = {
    made.name: made
    for made in (
        source("t", "a int, s string, d date, at timestamp, n timestamp_ntz"),
        source("u", "a int, d date"),
        source("odd", "a int, at date, current_date date"),
    )
}

TEMPORAL = {
    "at > now() - INTERVAL 7 DAYS": ["at > NOW() - INTERVAL '7' DAYS"],
    "now() <= at": ["at >= NOW()"],
    "at BETWEEN current_timestamp - INTERVAL 1 MONTH AND now()": [
        "at >= CURRENT_TIMESTAMP() - INTERVAL '1' MONTH",
        "at <= NOW()",
    ],
    "(d) = current_date AND a > 1": ["d = CURRENT_DATE"],
    "d > now()": ["d > NOW()"],
    "at >= current_date() - 7": ["at >= CURRENT_DATE() - 7"],
    "n < localtimestamp()": ["n < LOCALTIMESTAMP()"],
    "n >= current_date": ["n >= CURRENT_DATE"],
    "NOT (d < date_sub(curdate(), 3))": ["d >= DATE_SUB(CURDATE(), 3)"],
    "at >= date_trunc('month', now())": ["at >= DATE_TRUNC('month', NOW())"],
    "a IN (SELECT a FROM u WHERE d < current_date)": ["d < CURRENT_DATE"],
    "d >= add_months(current_date, -1) AND at < now()": [
        "d >= ADD_MONTHS(CURRENT_DATE, -1)",
        "at < NOW()",
    ],
}


def compiled(condition: str) -> CompiledQuery:
    return compile_query(f"SELECT a, count(*) AS c FROM t WHERE {condition} GROUP BY a", SOURCES)


@pytest.mark.parametrize("condition", TEMPORAL)
def test_a_temporal_filter(condition: str) -> None:
    found = compiled(condition)
    assert not isinstance(found.verdict, FullOnly), found.verdict
    assert [str(edge) for timed in found.timed for edge in timed.edges] == TEMPORAL[condition]
    assert not found.volatile
    assert "TEMPORAL_FILTER" in found.explain("fast_path")
    assert "change feed and clock" in str(found.verdict)


@pytest.mark.parametrize(
    ("query", "at"),
    [
        ("SELECT a FROM t WHERE at > now() OR a = 1", "now"),
        ("SELECT a FROM t WHERE at + INTERVAL 1 DAY > now()", "now"),
        ("SELECT a FROM t WHERE CAST(at AS DATE) = current_date()", "current_date"),
        ("SELECT a FROM t WHERE n > now()", "now"),
        ("SELECT a FROM t WHERE s > current_date", "current_date"),
        ("SELECT a FROM t WHERE at <> now()", "now"),
        ("SELECT a FROM t WHERE now() > '2020-01-01'", "now"),
        ("SELECT a, localtimestamp() AS x FROM t WHERE at > now()", "localtimestamp"),
        ("SELECT a FROM t GROUP BY a HAVING max(at) > now()", "now"),
        ("SELECT a FROM t WHERE at > now() AND d NOT BETWEEN current_date AND d", "current_date"),
        ("SELECT t.a FROM t FULL JOIN u ON t.a = u.a AND t.d < current_date()", "current_date"),
        ("SELECT a FROM odd WHERE at > current_date", "current_date"),
    ],
)
def test_the_clock_elsewhere(query: str, at: str) -> None:
    found = compile_query(query, SOURCES)
    assert isinstance(found.verdict, FullOnly), found.verdict
    assert found.verdict.code == "VOLATILE_FUNCTION"
    assert found.verdict.position is not None
    assert at in found.verdict.position.caret()
    assert "now() - INTERVAL 7 DAYS" in str(found.verdict.hint)
    assert found.volatile
    assert not found.timed


def test_chance_beside_a_temporal_filter() -> None:
    found = compiled("at > now() AND rand() < 0.5")
    assert isinstance(found.verdict, FullOnly)
    assert "rand" in found.verdict.message
    assert "now()" not in str(found.verdict.hint)


def test_one_table_twice() -> None:
    query = "SELECT x.a FROM t x JOIN t y ON x.a = y.a WHERE x.at > now() AND y.at <= now()"
    found = compile_query(query, SOURCES)
    assert [timed.name for timed in found.timed] == ["t where at > NOW()", "t where at <= NOW()"]
    assert "enter" not in found.explain("delta")
    assert "t where at > NOW()@delta" in found.explain("delta")


def test_the_text_at_a_moment() -> None:
    text = "SELECT now, 'now()', t.current_date, d AS now FROM t WHERE d < current_date -- now()"
    assert at_moment(text, 5) == text.replace(
        "< current_date", "< CAST(timestamp_micros(5L) AS DATE)"
    )
    assert at_moment("now ( ) - localtimestamp()", 5) == (
        "timestamp_micros(5L) - CAST(timestamp_micros(5L) AS TIMESTAMP_NTZ)"
    )


def test_a_clock_that_nobody_looks_at() -> None:
    found = compile_query("SELECT a FROM (SELECT a, now() AS n FROM t)", SOURCES)
    assert not isinstance(found.verdict, FullOnly)
    assert (found.timed, found.clocked, found.volatile) == ((), True, False)
    assert not compile_query("SELECT a FROM t", SOURCES).clocked
    before = compile_query("SELECT a FROM t WHERE at > now()", SOURCES, temporal=False)
    assert isinstance(before.verdict, FullOnly)
