"""Boxes of temporal filters: what lies between two of them, and the values of the clock's expressions."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from sqlglot import exp

from spark_trickle import Lake
from spark_trickle.compile import compile_query
from spark_trickle.ir.temporal import TimeEdge
from spark_trickle.maintain.refresh.refresher import micros
from spark_trickle.maintain.timed.asking import by_spark
from spark_trickle.maintain.timed.clocks import Box, TimedSource, clocks, without
from spark_trickle.maintain.timed.here import NotHere, by_rule
from spark_trickle.spark.sessions.facts import Meaning
from support.tpch import source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC_MEANING = Meaning({"spark.sql.session.timeZone": "UTC"})


def _boxes(random: Random) -> Box | None:
    if random.random() < 0.1:
        return None
    box = {}
    for column in "xy":
        ends = sorted(random.choices(range(6), k=2))
        box[column] = tuple(None if random.random() < 0.3 else end for end in ends)
    return box  # type: ignore[return-value]


def _holds(box: Box | None, point: dict[str, int]) -> bool:
    return box is not None and all(
        (low is None or low <= point[name]) and (high is None or point[name] <= high)
        for name, (low, high) in box.items()
    )


def test_what_is_in_one_box_and_not_in_the_other() -> None:
    random = Random(7)
    points = [{"x": x, "y": y} for x, y in product(range(-1, 7), repeat=2)]
    for _ in range(2_000):
        one, other = _boxes(random), _boxes(random)
        pieces = without(one, other)
        for point in points:
            found = sum(_holds(piece, point) for piece in pieces)
            assert found == (_holds(one, point) and not _holds(other, point)), (one, other, point)


# Every rule of ``by_rule`` with what it must give Spark's answer for.
RULES = """
now() | current_timestamp | current_timestamp() | current_date | current_date() | curdate() | localtimestamp()
now() - INTERVAL 7 DAYS | now() - INTERVAL '36' HOUR | now() + INTERVAL 90 MINUTES | now() - INTERVAL 1 WEEK
now() - INTERVAL 30 SECONDS | now() - INTERVAL 1 MONTH | now() + INTERVAL 13 MONTHS | now() - INTERVAL 4 YEARS
localtimestamp() - INTERVAL 3 DAYS | localtimestamp() - INTERVAL 1 MONTH | (now() - INTERVAL 1 DAY) - INTERVAL 1 HOUR
current_date - 7 | current_date() + 3 | current_date - INTERVAL 2 DAYS | current_date - INTERVAL 1 MONTH
current_date() + INTERVAL 1 YEAR | date_sub(current_date, 7) | date_add(now(), 1) | add_months(current_date, 1)
date_trunc('month', now()) | date_trunc('DAY', now()) | date_trunc('hour', now()) | date_trunc('week', now())
date_trunc('quarter', current_date) | date_trunc('year', now()) | date_trunc('minute', localtimestamp())
CAST(now() AS DATE) | to_date(now()) | date(now()) | CAST(current_date AS TIMESTAMP) | CAST(now() AS TIMESTAMP_NTZ)
CAST(now() - INTERVAL 1 DAY AS DATE) - 1
"""
SPARKS = """
current_date - INTERVAL 1 WEEK | current_date - INTERVAL 36 HOURS | trunc(current_date, 'MM') | last_day(current_date)
now() - INTERVAL '1 2' DAY TO HOUR | now() - make_interval(0, 1, 0, 3) | add_months(current_date, -1)
now() - INTERVAL 1 DAY * 2 | date_trunc('mm', now()) | from_unixtime(0)::date + (current_date - current_date)
"""
CLOCKS = [
    datetime(2024, 2, 29, 23, 59, 59, 999_999, UTC),
    datetime(2024, 3, 31, 0, 0, 0, 0, UTC),
    datetime(2023, 12, 31, 12, 30, 15, 123_456, UTC),
    datetime(1969, 12, 31, 23, 0, 0, 1, UTC),
]


def edges(expressions: str) -> list[TimeEdge]:
    made = source("t", "ts timestamp, d date, n timestamp_ntz")
    found: list[TimeEdge] = []
    for line in expressions.strip().splitlines():
        for text in line.split("|"):
            for column in ("ts", "d", "n"):
                query = f"SELECT 1 AS one FROM t WHERE {column} > {text}"
                timed = compile_query(query, {"t": made}).timed
                found += [edge for each in timed for edge in each.edges]
    return found


def test_where_no_rule_knows() -> None:
    for edge in edges(SPARKS):
        with pytest.raises(NotHere):
            by_rule(UTC_MEANING)([(edge, 0)])
    with pytest.raises(NotHere):
        by_rule(Meaning({"spark.sql.session.timeZone": "Europe/Paris"}))([(edges("now()")[0], 0)])


@pytest.mark.spark
def test_rules_give_the_answers_of_spark(lake: Lake) -> None:
    numbered = [(edge, n + more) for n, edge in enumerate(edges(RULES)) for more in (0, 1)]
    asked = [(edge, micros(CLOCKS[n % len(CLOCKS)])) for edge, n in numbered]
    assert len({str(edge) for edge, _ in asked}) > 60
    with _run(lake) as run:
        for start in range(0, len(asked), 50):
            some = asked[start : start + 50]
            pairs = zip(some, by_rule(UTC_MEANING)(some), by_spark(run, some), strict=True)
            for (edge, clock), here, there in pairs:
                assert here == there, (str(edge), clock)


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["America/New_York", "America/St_Johns", "Asia/Kathmandu"])
def test_boxes_hold_what_spark_lets_through(lake: Lake, spark: SparkSession, zone: str) -> None:
    """Around the edges of many filters, at clocks around changes of summer time: one query each."""
    kept = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        with _run(lake) as run:
            found = [*edges(RULES), *edges(SPARKS)][::3]
            for clock in (
                datetime(2010, 11, 7, 3, 15, tzinfo=UTC),
                datetime(2024, 3, 10, 7, tzinfo=UTC),
            ):
                _compare(run, found, micros(clock))
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(kept))


def _run(lake: Lake) -> Any:
    from contextlib import closing

    refresher = lake._streams._refresher
    tx = lake._catalog.begin()
    return closing(refresher.run(tx, "SELECT 1", "spark", None))


def _compare(run: Any, found: list[TimeEdge], clock: int) -> None:
    """Each filter over the values next to its edge: Spark's own comparison, with the clock as text."""
    from spark_trickle.statements.text.clock import at_moment

    tests, wanted = [], []
    for edge, value in zip(found, by_spark(run, [(edge, clock) for edge in found]), strict=True):
        assert value is not None
        text = at_moment(edge.value.sql("spark"), clock)
        for near in (-1, 0, 1):
            number = value.floor + near
            column = f"timestamp_micros({number}L)"
            if edge.type.this is exp.DataType.Type.DATE:
                column = f"date_from_unix_date({number})"
            elif edge.type.this is exp.DataType.Type.TIMESTAMPNTZ:
                column = f"timestampadd(MICROSECOND, {number}L, TIMESTAMP_NTZ'1970-01-01')"
            tests.append(f"{column} <= ({text})")
            wanted.append(near <= 0)
            tests.append(f"{column} = ({text})")
            wanted.append(near == 0 and value.exact)
    row = run.spark.sql(f"SELECT array({', '.join(tests)}) AS found").collect()[0]
    told = [test for test, a, b in zip(tests, row.found, wanted, strict=True) if a != b]
    assert not told


def test_contradictions_let_nothing_through() -> None:
    made = source("t", "ts timestamp")
    query = "SELECT 1 AS one FROM t WHERE ts > now() AND ts < now() - INTERVAL 1 DAY"
    timed = compile_query(query, {"t": made}).timed
    (shown,) = clocks(timed, 0, 10, by_rule(UTC_MEANING)).shown.values()
    assert shown == TimedSource("t", None, None)
