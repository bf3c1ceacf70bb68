"""Numbers given to ``append``, and values inside lists, maps and structs: as Spark takes them, or refused."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import spark_trickle
from spark_trickle import Settings
from spark_trickle.errors import InvalidDataError
from spark_trickle.storage.read.reader import read_scan

NOON = datetime(2024, 2, 29, 12, 30)
THEN = datetime(2024, 2, 29, 7, 0, tzinfo=UTC)
"""Noon and a half in Kolkata."""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[spark_trickle.Lake]:
    """A lake of another zone than UTC; nothing here starts Spark."""
    zone = Settings(time_zone="Asia/Kolkata")
    with spark_trickle.connect(tmp_path / "lake", settings=zone) as opened:
        yield opened


@pytest.fixture
def lake_on_spark(tmp_path: Path, spark: SparkSession) -> Iterator[spark_trickle.Lake]:
    with spark_trickle.connect(tmp_path / "lake", spark=spark) as opened:
        yield opened


def _kept(lake: spark_trickle.Lake, type: str, values: list[Any]) -> list[Any]:
    lake.sql(f"CREATE OR REPLACE TABLE t (v {type})")
    assert lake.append("t", [{"v": value} for value in values]) == len(values)
    return read_scan(lake._catalog.scan("t")).column("v").to_pylist()


@pytest.mark.parametrize(
    ("type", "given", "stored"),
    [
        ("DECIMAL(12,2)", [0, 96, None], ["0.00", "96.00", None]),
        ("DECIMAL(12,2)", [1.005, 2.675, -1.005, 1], ["1.01", "2.68", "-1.01", "1.00"]),
        ("DECIMAL(38,0)", [2**70, -(2**70)], [str(2**70), str(-(2**70))]),
        ("DECIMAL(38,30)", [1e-20], ["1E-20"]),
        ("DECIMAL(4,2)", [Decimal("1.5")], ["1.50"]),
    ],
)
def test_decimals(lake: spark_trickle.Lake, type: str, given: list[Any], stored: list[Any]) -> None:
    assert _kept(lake, type, given) == [None if v is None else Decimal(v) for v in stored]


@pytest.mark.parametrize(
    ("type", "given", "stored"),
    [
        ("ARRAY<DECIMAL(5,2)>", [[1, None], None, []], [[Decimal(1), None], None, []]),
        (
            "STRUCT<a: DECIMAL(5,2), b: INT>",
            [{"B": 1, "a": 1.005}],
            [{"a": Decimal("1.01"), "b": 1}],
        ),
        ("STRUCT<a: INT, b: INT>", [{"b": 1}, None], [{"a": None, "b": 1}, None]),
        ("MAP<STRING, INT>", [{"x": 1}, None, {}], [[("x", 1)], None, []]),
        ("MAP<STRING, INT>", [[("x", 1)]], [[("x", 1)]]),
        ("ARRAY<TIMESTAMP>", [[NOON]], [[THEN]]),
        ("ARRAY<TIMESTAMP>", [[date(2024, 3, 1)]], [[datetime(2024, 2, 29, 18, 30, tzinfo=UTC)]]),
        ("STRUCT<a: TIMESTAMP>", [{"a": NOON}], [{"a": THEN}]),
        ("MAP<STRING, ARRAY<TIMESTAMP>>", [{"x": [NOON]}], [[("x", [THEN])]]),
        ("ARRAY<TIMESTAMP_NTZ>", [[NOON]], [[NOON]]),
        (
            "ARRAY<STRUCT<m: MAP<STRING, DECIMAL(5,2)>>>",
            [[{"m": {"x": 1.005}}, None], None],
            [[{"m": [("x", Decimal("1.01"))]}, None], None],
        ),
    ],
)
def test_inside(lake: spark_trickle.Lake, type: str, given: list[Any], stored: list[Any]) -> None:
    assert _kept(lake, type, given) == stored


@pytest.mark.parametrize(
    ("type", "given", "told"),
    [
        ("DECIMAL(3,2)", [1, 96], "does not fit column v"),
        ("DECIMAL(12,2)", [Decimal("1.005")], "data loss"),
        ("DECIMAL(12,2)", [float("nan")], "nan is not a decimal"),
        ("DECIMAL(38,0)", [2**200], "does not fit column v"),
        ("INT", [2**70], "does not fit column v"),
        ("ARRAY<DATE>", [[NOON]], "a time of day"),
        ("ARRAY<TIMESTAMP_NTZ>", [[NOON.replace(tzinfo=UTC)]], "a time with a zone"),
        ("ARRAY<TIMESTAMP>", [[NOON], [NOON.replace(tzinfo=UTC)]], "are not of one type"),
        ("STRUCT<a: INT>", [{"a": 1, "z": 2}], "column v has no field z"),
    ],
)
def test_what_would_be_lost_is_refused(
    lake: spark_trickle.Lake, type: str, given: list[Any], told: str
) -> None:
    with pytest.raises(InvalidDataError, match=told):
        _kept(lake, type, given)
    assert read_scan(lake._catalog.scan("t")).num_rows == 0


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{"a": 1, "A": 2}], "column a of t is given twice"),
        (
            pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]),
            "column a of t is given twice",
        ),
        ([{}, {}], "have no columns"),
        ([{"s": "\ud800"}], "the values of s for t"),
        ([{"d": np.datetime64("2024-01-01")}], "the values of d for t"),
        ([{"d": pd.Timestamp("2024-01-01 00:00:00.000000001")}], "have nanoseconds"),
        (pd.Series([1], name="a"), "Series cannot be appended"),
    ],
)
def test_what_is_no_row_of_the_table_is_refused(
    lake: spark_trickle.Lake, rows: Any, told: str
) -> None:
    lake.sql("CREATE TABLE t (a INT, s STRING, d TIMESTAMP)")
    with pytest.raises(InvalidDataError, match=told):
        lake.append("t", rows)
    assert lake.append("t", [{"d": pd.NaT}]) == 1
    assert read_scan(lake._catalog.scan("t")).to_pylist() == [{"a": None, "s": None, "d": None}]


def test_slices_of_nested_arrow_arrays(lake: spark_trickle.Lake) -> None:
    lists = pa.array([[NOON], None, [NOON, NOON], []], pa.list_(pa.timestamp("us"))).slice(1)
    maps = pa.array([[("a", 1)], None, [("b", 2), ("c", 3)], []], pa.map_(pa.string(), pa.int64()))
    lake.sql("CREATE TABLE t (v ARRAY<TIMESTAMP>, m MAP<STRING, DECIMAL(5,2)>)")
    lake.append("t", pa.table({"v": lists, "m": maps.slice(1)}))
    rows = read_scan(lake._catalog.scan("t"))
    assert rows.column("v").to_pylist() == [None, [THEN, THEN], []]
    assert rows.column("m").to_pylist() == [None, [("b", Decimal(2)), ("c", Decimal(3))], []]


@pytest.mark.spark
def test_floats_and_decimals_are_what_spark_makes_of_them(
    lake_on_spark: spark_trickle.Lake,
) -> None:
    pick = random.Random(7)
    floats = [round(pick.uniform(-1e6, 1e6), pick.randrange(1, 6)) for _ in range(2_000)]
    decimals = [Decimal(pick.randrange(-(10**11), 10**11)).scaleb(-2) for _ in range(2_000)]
    frame = pd.DataFrame({"d": floats, "x": decimals})
    for name in ("here", "there"):
        lake_on_spark.sql(f"CREATE TABLE {name} (d DECIMAL(12,2), x DOUBLE)")
    lake_on_spark.append("here", frame)
    rows = pa.Table.from_pandas(frame)
    lake_on_spark.append("there", lake_on_spark.spark.createDataFrame(rows))
    here, there = (
        sorted(lake_on_spark.arrow(f"SELECT * FROM {name}").to_pylist(), key=str)
        for name in ("here", "there")
    )
    assert here == there
    assert len(there) == len(floats)
