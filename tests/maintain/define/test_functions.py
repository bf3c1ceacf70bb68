"""Functions that users register: Spark says whether they are deterministic, a hash says what they are."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import spark_trickle
from spark_trickle import Lake, NotFoundError, SourceChangedError, UnsupportedQueryError
from spark_trickle.spark.sessions.functions import registered
from support.streams import assert_exact, rows

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session whose functions are its own."""
    return spark.newSession()


def register(session: SparkSession, factor: int) -> None:
    session.udf.register("times", lambda value: value * factor, "bigint")


def test_a_function_of_the_users(tmp_path, session: SparkSession, spark: SparkSession) -> None:
    register(session, 2)
    with spark_trickle.connect(tmp_path / "lake", spark=session) as lake:
        lake.sql("CREATE TABLE m (g INT, v BIGINT)")
        lake.sql("INSERT INTO m VALUES (1, 1), (1, 2), (2, 5)")
        query = "SELECT g, sum(times(v)) AS s FROM m GROUP BY g"
        lake.create_stream_table("s", query, refresh_mode="DIFFERENTIAL")
        lake.sql("INSERT INTO m VALUES (2, 1)")
        assert lake.refresh_stream_table("s").effective_mode == "DIFFERENTIAL"
        assert rows(lake, "s") == [(1, 6), (2, 12)]

        register(session, 3)
        lake.sql("INSERT INTO m VALUES (1, 1)")
        for work in (lake.refresh_stream_table, lake.verify, lake.repair_stream_table):
            with pytest.raises(SourceChangedError, match="times"):
                work("s")
        assert rows(lake, "s") == [(1, 6), (2, 12)]

        register(session, 2)  # the same one again, made anew
        assert lake.refresh_stream_table("s").effective_mode == "DIFFERENTIAL"
        assert rows(lake, "s") == [(1, 8), (2, 12)]
        assert_exact(lake, "s")

        register(session, 3)
        lake.alter_stream_table("s", query=query)
        assert rows(lake, "s") == [(1, 12), (2, 18)]
        assert_exact(lake, "s")
    with spark_trickle.connect(tmp_path / "lake", spark=spark) as lake:  # has no such function
        lake.sql("INSERT INTO m VALUES (1, 1)")
        with pytest.raises(NotFoundError, match="times"):
            lake.refresh_stream_table("s")
        assert rows(lake, "s") == [(1, 12), (2, 18)]


def test_what_is_not_deterministic_is_run_again(tmp_path, session: SparkSession) -> None:
    import random

    shaky = F.udf(lambda value: random.random(), "double").asNondeterministic()
    session.udf.register("shaky", shaky)
    with spark_trickle.connect(tmp_path / "lake", spark=session) as lake:
        lake.sql("CREATE TABLE m (v BIGINT)")
        lake.sql("INSERT INTO m VALUES (1)")
        query = "SELECT v, shaky(v) AS r FROM m"
        with pytest.raises(UnsupportedQueryError, match="shaky"):
            lake.create_stream_table("s", query, refresh_mode="DIFFERENTIAL")
        lake.create_stream_table("s", query)
        before = rows(lake, "s")
        assert lake.refresh_stream_table("s").effective_mode == "FULL"
        assert rows(lake, "s") != before


def test_identities(session: SparkSession) -> None:
    def known(name: str, arguments: int = 1) -> tuple[str, bool]:
        found = registered(session, {name: arguments})[name]
        return found.identity, found.deterministic

    session.udf.register("f", lambda x: x + 1, "bigint")
    first = known("f")
    session.udf.register("f", lambda x: x + 1, "bigint")
    assert known("f") == first
    session.udf.register("f", lambda x: x + 1, "int")
    assert known("f") != first
    session.sql("CREATE OR REPLACE TEMPORARY FUNCTION g(x INT) RETURNS INT RETURN x + 1")
    plain = known("g")
    assert plain[1]
    session.sql("CREATE OR REPLACE TEMPORARY FUNCTION g(x INT) RETURNS INT RETURN x + 2")
    assert known("g") != plain
    session.sql("CREATE OR REPLACE TEMPORARY FUNCTION g(x INT) RETURNS DOUBLE RETURN x + rand()")
    assert not known("g")[1]
    assert registered(session, {"no_such_function": 1}) == {}


def test_explaining_an_unknown_function_starts_no_spark(dry_lake: Lake) -> None:
    dry_lake.sql("CREATE TABLE m (v BIGINT)")
    assert "UNPROVEN_FUNCTION" in dry_lake.explain("SELECT wild(v) AS w FROM m", stage="verdict")
    assert "Incremental" in dry_lake.explain("SELECT abs(v) AS w FROM m", stage="verdict")
