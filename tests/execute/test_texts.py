"""Bytes that Spark takes for a text although they are no UTF-8: right, or an error of ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import spark_trickle
from spark_trickle import Lake, Settings, TrickleError
from spark_trickle.errors import InvalidDataError
from support.streams import refreshed, rows

WRONG = pa.array([b"\xff\x41", b"\xc3\x28"]).view(pa.string())
NOT_TEXT = r"not valid UTF-8"


def test_rows_that_are_given(dry_lake: Lake) -> None:
    dry_lake.sql("CREATE TABLE t (s STRING, v VARCHAR(3), xs ARRAY<STRING>, b BINARY)")
    for column in (
        {"s": WRONG},
        {"v": WRONG},
        {"xs": pa.ListArray.from_arrays([0, 1, 2], WRONG)},
    ):
        with pytest.raises(InvalidDataError, match=NOT_TEXT) as caught:
            dry_lake.append("t", pa.table(column))
        assert "BINARY" in (caught.value.hint or "")
    assert dry_lake.append("t", pa.table({"b": WRONG.view(pa.binary())})) == 2


@pytest.mark.spark
def test_statements(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (id INT, b BINARY, s STRING)")
    lake.sql("INSERT INTO t VALUES (1, X'41', 'a')")
    for statement in (
        "INSERT INTO t VALUES (2, X'41', cast(X'ff41' AS STRING))",
        "INSERT INTO t SELECT 3, X'ff', cast(X'c328' AS STRING)",
        "UPDATE t SET s = cast(X'ff' AS STRING) WHERE id = 1",
        "MERGE INTO t USING (SELECT 1 AS id) AS u ON t.id = u.id "
        "WHEN MATCHED THEN UPDATE SET s = cast(X'ff' AS STRING)",
    ):
        with pytest.raises(TrickleError, match=NOT_TEXT):
            lake.sql(statement)
    assert lake.sql("DELETE FROM t WHERE s = cast(X'ff' AS STRING)") == 0
    assert rows(lake, "t") == [(1, b"A", "a")]


@pytest.mark.spark
@pytest.mark.parametrize("limit", [1000, 0], ids=["in the catalog", "in files"])
def test_stream_tables(tmp_path: Path, spark: SparkSession, limit: int) -> None:
    """What needs the bytes only is kept right; what would hold such a text says so, and nothing else
    is hurt. In files Spark itself may write such a text: who cannot read it says so, too."""
    settings = Settings(inline_row_limit=limit)
    with spark_trickle.connect(tmp_path / "l", spark=spark, settings=settings) as lake:
        lake.sql("CREATE TABLE t (id INT, b BINARY)")
        lake.sql("INSERT INTO t VALUES (1, X'41'), (2, X'4242')")
        text = "cast(b AS STRING)"
        lake.create_stream_table(
            "bytes", f"SELECT id, length({text}) AS n, hex({text}) AS h FROM t WHERE {text} <> 'C'"
        )
        lake.create_stream_table("texts", f"SELECT id, {text} AS s FROM t")
        lake.create_stream_table("first", f"SELECT id, {text} AS s FROM t ORDER BY s, id LIMIT 1")
        lake.create_stream_table("folded", f"SELECT {text} AS s, count(*) AS n FROM t GROUP BY 1")
        lake.sql("INSERT INTO t VALUES (3, X'ff41'), (4, X'43')")
        refreshed(lake, "bytes", "DIFFERENTIAL", "FULL")
        assert {row[0] for row in rows(lake, "bytes")} == {1, 2, 3}
        for name in ("texts", "first", "folded"):
            _right_or_told(lambda name=name: refreshed(lake, name, "DIFFERENTIAL", "FULL", "TOPK"))
        lake.sql("DELETE FROM t WHERE id = 3")
        assert {report.error for report in lake.refresh_all()} == {None}
        assert ("A", 1) in rows(lake, "folded")


@pytest.mark.spark
def test_what_commits_fold_into(tmp_path: Path, spark: SparkSession) -> None:
    settings = Settings(inline_row_limit=0)
    with spark_trickle.connect(tmp_path / "l", spark=spark, settings=settings) as lake:
        lake.sql("CREATE TABLE t (s STRING)")
        lake.sql("INSERT INTO t VALUES ('a')")
        lake.create_stream_table(
            "f", "SELECT s, count(*) AS n FROM t GROUP BY s", refresh_mode="IMMEDIATE"
        )
        _right_or_told(lambda: lake.sql("INSERT INTO t SELECT cast(X'ff' AS STRING)"))
        assert lake.sql("INSERT INTO t SELECT 'b'") == 1
        assert ("b", 1) in rows(lake, "f")


def _right_or_told(attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except TrickleError as error:
        assert "not valid UTF-8" in str(error)  # noqa: PT017
