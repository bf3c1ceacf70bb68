"""What a query means is fixed when it is made: time zone, ANSI, case, and whatever else a session sets.

A session that says something else later, at home or in another process, changes no row and is left
as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_trickle
from spark_trickle import Lake, UnsupportedQueryError
from spark_trickle.settings import Settings
from spark_trickle.spark.sessions.session import SessionHolder
from support.streams import assert_exact, rows

pytestmark = pytest.mark.spark

ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"


@contextmanager
def told(spark: SparkSession, **settings: str) -> Iterator[None]:
    """The session says something else for a while, and is found saying just that at the end."""
    names = {key.replace("__", "."): value for key, value in settings.items()}
    before = {name: spark.conf.get(name, None) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    asked, active = dict(spark.conf.getAll), SparkSession.getActiveSession()
    try:
        yield
        assert dict(spark.conf.getAll) == asked, "the session is as its user left it"
        assert SparkSession.getActiveSession() is active
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


LOSS = {"spark__sql__decimalOperations__allowPrecisionLoss": "false"}
CASES = {
    "date": (
        "SELECT cast(t AS DATE) AS d, count(*) AS n FROM m GROUP BY cast(t AS DATE)",
        {"spark__sql__session__timeZone": "Asia/Tokyo"},
    ),
    "hour": (
        "SELECT id, hour(t) AS h FROM m",
        {"spark__sql__session__timeZone": "America/New_York"},
    ),
    "literal": (
        "SELECT id FROM m WHERE t >= TIMESTAMP '2024-03-01 00:00:00'",
        {"spark__sql__session__timeZone": "Pacific/Auckland"},
    ),
    "topk": (
        "SELECT id, date_format(t, 'HH:mm') AS h FROM m ORDER BY h DESC, id LIMIT 2",
        {"spark__sql__session__timeZone": "Asia/Kolkata"},
    ),
    "window": (
        "SELECT id, row_number() OVER (ORDER BY date_format(t, 'HH'), id) AS p FROM m",
        {"spark__sql__session__timeZone": "Asia/Tokyo"},
    ),
    "case": ("SELECT S, COUNT(*) AS N FROM m GROUP BY s", {"spark__sql__caseSensitive": "true"}),
    "concat": ("SELECT id, elt(1, s, s) AS e FROM m", {"spark__sql__ansi__enabled": "false"}),
}


@pytest.mark.parametrize("case", CASES)
def test_another_setting_changes_no_row(lake: Lake, spark: SparkSession, case: str) -> None:
    query, settings = CASES[case]
    lake.sql("CREATE TABLE m (id INT, s STRING, t TIMESTAMP)")
    lake.sql(
        "INSERT INTO m VALUES (1, '1', TIMESTAMP '2024-02-29 23:30:00'),"
        " (2, '2', TIMESTAMP '2024-03-01 00:10:00'), (3, '2', TIMESTAMP '2024-03-01 14:00:00')"
    )
    lake.create_stream_table("s", query)
    lake.create_stream_table("f", query, refresh_mode="FULL")
    with told(spark, **settings):
        lake.sql("DELETE FROM m WHERE id = 1")
        lake.sql("INSERT INTO m SELECT id + 10, s, t + INTERVAL 1 MINUTE FROM m")
        reports = [lake.refresh_stream_table("s"), lake.refresh_stream_table("f")]
        assert "ERROR" not in {report.effective_mode for report in reports}
        assert_exact(lake, "s", "f")
        found = rows(lake, "s")
        lake.repair_stream_table("f")
    assert found == rows(lake, "s") == rows(lake, "f")
    assert_exact(lake, "s", "f")
    fresh = lake.sql(query)
    assert sorted(map(repr, found)) == sorted(repr(tuple(r)) for r in fresh.collect())


def test_the_tables_would_tell_another_zone(lake: Lake, spark: SparkSession) -> None:
    """The control: the same query made under the other zone has other rows."""
    lake.sql("CREATE TABLE m (t TIMESTAMP)")
    lake.sql("INSERT INTO m VALUES (TIMESTAMP '2024-02-29 23:30:00')")
    lake.create_stream_table("a", "SELECT hour(t) AS h FROM m")
    with told(spark, spark__sql__session__timeZone="Asia/Tokyo"):
        lake.create_stream_table("b", "SELECT hour(t) AS h FROM m")
        assert_exact(lake, "a", "b")
    assert rows(lake, "a") == [(23,)]
    assert rows(lake, "b") == [(8,)]
    assert_exact(lake, "a", "b")


NAMES = {
    "case": (
        "SELECT id FROM m WHERE EXISTS (SELECT 1 FROM u WHERE u.k = V)",
        {"spark__sql__caseSensitive": "true"},
    ),
    "case of an alias": (
        "SELECT a.id AS id, b.V AS V FROM m a JOIN (SELECT id AS v, V + 1 AS V FROM m) b"
        " ON a.id = b.v",
        {"spark__sql__caseSensitive": "true"},
    ),
    "ordinal": ("SELECT id, V FROM m ORDER BY 2 LIMIT 1", {"spark__sql__orderByOrdinal": "false"}),
    "quotes": (
        'SELECT id, "V" AS x FROM m',
        {"spark__sql__ansi__doubleQuotedIdentifiers": "true"},
    ),
    "escapes": (
        "SELECT id, 'a\\\\b' AS x FROM m",
        {"spark__sql__parser__escapedStringLiterals": "true"},
    ),
    "set operations": (
        "SELECT V FROM m UNION SELECT k FROM u INTERSECT SELECT v FROM u",
        {"spark__sql__legacy__setopsPrecedence__enabled": "true"},
    ),
}


@pytest.mark.parametrize("case", NAMES)
def test_the_tables_would_tell_other_rules_of_names(
    lake: Lake, spark: SparkSession, case: str
) -> None:
    """The control for how a text is read: made under the other rule, the same text has other rows,
    and both keep theirs in sessions of either kind."""
    query, settings = NAMES[case]
    lake.sql("CREATE TABLE m (id INT, V INT)")
    lake.sql("CREATE TABLE u (k INT, v INT)")
    lake.sql("INSERT INTO m VALUES (1, 10), (2, 5), (3, 7)")
    lake.sql("INSERT INTO u VALUES (10, 11), (6, 5), (7, 8)")
    made = ["b"]
    if case != "case of an alias":  # which is ambiguous otherwise
        lake.create_stream_table("a", query)
        made.append("a")
    with told(spark, **settings):
        lake.create_stream_table("b", query)
        other = sorted(repr(tuple(row)) for row in lake.sql(query).collect())
        assert other == sorted(map(repr, rows(lake, "b")))
        assert other != sorted(map(repr, rows(lake, "a") if "a" in made else []))
    lake.sql("INSERT INTO m VALUES (4, 1), (5, 6)")
    lake.sql("DELETE FROM u WHERE k = 6")
    lake.refresh_all()
    assert_exact(lake, *made)
    with told(spark, **settings):
        assert_exact(lake, *made)
        other = sorted(repr(tuple(row)) for row in lake.sql(query).collect())
    assert other == sorted(map(repr, rows(lake, "b")))
    if "a" in made:
        same = sorted(repr(tuple(row)) for row in lake.sql(query).collect())
        assert same == sorted(map(repr, rows(lake, "a")))
        assert same != other


@pytest.mark.parametrize("made", ["true", "false"])
def test_ansi(lake: Lake, spark: SparkSession, made: str) -> None:
    """Made without ANSI a bad number is NULL for ever; made with it, an error for ever."""
    later = "false" if made == "true" else "true"
    lake.sql("CREATE TABLE m (g INT, s STRING)")
    lake.sql("INSERT INTO m VALUES (1, '1'), (1, '2')")
    query = "SELECT g, sum(cast(s AS INT)) AS n, count(cast(s AS INT)) AS c FROM m GROUP BY g"
    with told(spark, spark__sql__ansi__enabled=made):
        lake.create_stream_table("s", query, refresh_mode="DIFFERENTIAL")
    with told(spark, spark__sql__ansi__enabled=later):
        lake.sql("INSERT INTO m VALUES (1, 'x'), (2, '5')")
        if made == "true":
            with pytest.raises(spark_trickle.ExecutionError, match="'x'"):
                lake.refresh_stream_table("s")
            assert rows(lake, "s") == [(1, 3, 2)]
        else:
            assert lake.refresh_stream_table("s").effective_mode == "DIFFERENTIAL"
            assert rows(lake, "s") == [(1, 3, 2), (2, 5, 1)]
            assert_exact(lake, "s")


def test_what_reads_the_clock_is_never_idle(lake: Lake) -> None:
    """No source changes, and still each refresh asks again; beside it one that need not."""
    lake.sql("CREATE TABLE m (id INT)")
    lake.sql("INSERT INTO m VALUES (1), (2)")
    lake.create_stream_table("clock", "SELECT id, TIMESTAMP 'now' AS at FROM m")
    lake.create_stream_table("chance", "SELECT id, uuid() AS u FROM m")
    lake.create_stream_table("fixed", "SELECT id, row_number() OVER (ORDER BY id) AS p FROM m")
    before = {name: rows(lake, name) for name in ("clock", "chance", "fixed")}
    modes = {report.name: report.effective_mode for report in lake.refresh_all()}
    assert modes == {"clock": "FULL", "chance": "FULL", "fixed": "NO_DATA"}
    for name in ("clock", "chance"):
        assert not {*before[name]} & {*rows(lake, name)}
    assert rows(lake, "fixed") == before["fixed"]


def moments(lake: Lake) -> list[int]:
    return [r[0] for r in lake.sql("SELECT unix_seconds(t) FROM k ORDER BY id").collect()]


def test_one_zone_of_a_connection(tmp_path: Path, spark: SparkSession) -> None:
    """A text of a time is one moment: before Spark is asked, after, and by way of Spark."""
    with (
        told(spark, spark__sql__session__timeZone="Asia/Tokyo"),
        spark_trickle.connect(tmp_path / "lake") as lake,
    ):
        lake.sql("CREATE TABLE k (id INT, t TIMESTAMP)")
        lake.sql("INSERT INTO k VALUES (1, TIMESTAMP '2024-01-01 09:00:00')")
        lake.sql("INSERT INTO k SELECT 2, TIMESTAMP '2024-01-01 09:00:00'")
        lake.sql("INSERT INTO k VALUES (3, TIMESTAMP '2024-01-01 09:00:00')")
        assert moments(lake) == [1704067200] * 3
        spark.conf.set(ZONE, "UTC")
        lake.sql("INSERT INTO k VALUES (4, TIMESTAMP '2024-01-01 09:00:00')")
        lake.sql("INSERT INTO k SELECT 5, TIMESTAMP '2024-01-01 09:00:00'")
        assert lake.sql("DELETE FROM k WHERE t <> TIMESTAMP '2024-01-01 09:00:00'") == 0
        assert moments(lake) == [1704067200] * 5
        spark.conf.set(ZONE, "Asia/Tokyo")


def test_a_session_that_comes_late(tmp_path: Path, spark: SparkSession) -> None:
    """The first statement was read in UTC, for no session was there: so are all that follow."""

    class Late(SessionHolder):
        there = False

        def _active(self) -> SparkSession | None:  # type: ignore[override]
            return SessionHolder._active() if self.there else None

    with (
        told(spark, spark__sql__session__timeZone="Asia/Tokyo"),
        spark_trickle.connect(tmp_path / "lake") as lake,
    ):
        holder = lake._engine.holder = Late(None, Settings())
        lake.sql("CREATE TABLE k (id INT, t TIMESTAMP)")
        lake.sql("INSERT INTO k VALUES (1, TIMESTAMP '2024-01-01 09:00:00')")
        holder.there = True
        lake.sql("INSERT INTO k SELECT 2, TIMESTAMP '2024-01-01 09:00:00'")
        lake.sql("INSERT INTO k VALUES (3, TIMESTAMP '2024-01-01 09:00:00')")
        assert moments(lake) == [1704099600] * 3


@pytest.mark.parametrize("mode", ["IMMEDIATE", "DIFFERENTIAL"])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, d / e AS q FROM t",
        "SELECT k, sum(d * e) AS s FROM t GROUP BY k",
        "SELECT k, count_if(d * e > 0) AS c FROM t GROUP BY k",
    ],
)
def test_decimals_that_keep_their_digits_are_left_to_spark(
    lake: Lake, query: str, mode: str
) -> None:
    with told(lake.spark, **LOSS):
        lake.sql("CREATE TABLE t (k STRING, d DECIMAL(20,10), e DECIMAL(20,10))")
        lake.sql("INSERT INTO t VALUES ('a', 1, 3)")
        lake.create_stream_table("s", query, refresh_mode=mode)
        lake.sql("INSERT INTO t VALUES ('a', 0.0000000001, 0.0000000003)")
        if mode != "IMMEDIATE":
            lake.refresh_stream_table("s")
        assert lake.refresh_history("s")[0].engine == "spark"
        assert rows(lake, "s") == sorted(map(tuple, lake.sql(query).collect()), key=repr)
        assert not lake.stream_tables()[0].fast_path
        with pytest.raises(UnsupportedQueryError, match="allowPrecisionLoss"):
            lake.create_stream_table("f", "SELECT count(*) AS c FROM t", fast_path=True)


def test_literals_as_wide_as_their_type_are_read_in_another_way(lake: Lake) -> None:
    with told(lake.spark, spark__sql__legacy__literal__pickMinimumPrecision="false"):
        lake.sql("CREATE TABLE t (d DECIMAL(38,30))")
        lake.create_stream_table("s", "SELECT d > 5 AS p FROM t")
        lake.sql("INSERT INTO t VALUES (5.000000000000000000000000000001)")
        assert lake.refresh_stream_table("s").effective_mode == "FULL"
        assert rows(lake, "s") == [(False,)]
    with told(lake.spark, spark__sql__legacy__literal__pickMinimumPrecision="true"):
        lake.create_stream_table("u", "SELECT d > 5 AS p FROM t", refresh_mode="IMMEDIATE")


def test_explain_reads_a_query_as_a_stream_table_of_the_session_would(lake: Lake) -> None:
    query = "SELECT k, sum(d) AS s FROM t GROUP BY k"
    lake.sql("CREATE TABLE t (k STRING, d DECIMAL(9,2))")
    assert lake.explain(query, "fast_path").startswith("yes")
    with told(lake.spark, spark__sql__ansi__enabled="false"):
        assert lake.explain(query, "fast_path").startswith("no, ANSI_OFF")
