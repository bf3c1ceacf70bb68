"""Dates and times given to ``append``: as Spark takes them, or refused where something would be lost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import spark_trickle
from spark_trickle import Settings
from spark_trickle.errors import InvalidDataError
from spark_trickle.storage.read.reader import read_scan

ZONE = "Asia/Kolkata"
OFFSET = timedelta(hours=5, minutes=30)
NOON = datetime(2024, 2, 29, 12, 30, 1, 500)
EAST = timezone(timedelta(hours=9))


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[spark_trickle.Lake]:
    """A lake of another zone than UTC; nothing here starts Spark."""
    with spark_trickle.connect(tmp_path / "lake", settings=Settings(time_zone=ZONE)) as opened:
        opened.sql("CREATE TABLE t (d DATE, t TIMESTAMP, n TIMESTAMP_NTZ)")
        yield opened


def _held(lake: spark_trickle.Lake, name: str) -> list[Any]:
    return read_scan(lake._catalog.scan("t")).column(name).to_pylist()


@pytest.mark.parametrize(
    ("name", "given", "stored"),
    [
        ("t", NOON, (NOON - OFFSET).replace(tzinfo=UTC)),
        ("t", NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=UTC)),
        ("t", NOON.replace(tzinfo=EAST), (NOON - timedelta(hours=9)).replace(tzinfo=UTC)),
        ("t", date(2024, 2, 29), datetime(2024, 2, 28, 18, 30, tzinfo=UTC)),
        ("n", NOON, NOON),
        ("n", date(2024, 2, 29), datetime(2024, 2, 29)),
        ("d", date(2024, 2, 29), date(2024, 2, 29)),
        ("d", datetime(2024, 2, 29), date(2024, 2, 29)),
    ],
)
def test_what_is_kept(lake: spark_trickle.Lake, name: str, given: date, stored: date) -> None:
    forms = [
        [{name: given}, {name: None}],
        pa.table({name: [given, None]}),
        pd.DataFrame({name: [given, None]}),
        pd.DataFrame({name: pd.Series([given, None], dtype=object)}),
    ]
    if isinstance(given, datetime):
        forms += [pd.DataFrame({name: pd.to_datetime(pd.Series([given, None]))})]
        forms += [pd.DataFrame({name: pd.Series([given, None])}).convert_dtypes()]
    for form in forms:
        assert lake.append("t", form) == 2
    assert _held(lake, name) == [stored, None] * len(forms)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_all_units_of_numpy(lake: spark_trickle.Lake, unit: str) -> None:
    values = np.array(["2024-02-29T12:30:01", "NaT"], dtype=f"datetime64[{unit}]")
    lake.append("t", pd.DataFrame({"t": values, "n": values}))
    wall = datetime(2024, 2, 29, 12, 30, 1)
    assert _held(lake, "t") == [(wall - OFFSET).replace(tzinfo=UTC), None]
    assert _held(lake, "n") == [wall, None]


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("n", [NOON.replace(tzinfo=UTC)], "time with a zone does not fit column n"),
        ("d", [NOON.replace(tzinfo=UTC)], "time with a zone does not fit column d"),
        ("d", [NOON], "time of day does not fit column d"),
        ("t", [NOON, NOON.replace(tzinfo=UTC)], "times with a zone and times without a zone"),
        ("n", [NOON.replace(tzinfo=UTC), NOON], "times with a zone and times without a zone"),
        ("d", [date(2024, 1, 1), NOON], "dates and times without a zone"),
        ("t", ["2024-01-01"], "column t"),
        ("t", [1], "column t"),
    ],
)
def test_what_is_refused(lake: spark_trickle.Lake, name: str, given: list[Any], words: str) -> None:
    frame = pd.DataFrame({name: pd.Series(given, dtype=object)})
    for form in ([{name: value} for value in given], frame):
        with pytest.raises(InvalidDataError, match=words) as caught:
            lake.append("t", form)
        assert "zone" not in words or caught.value.hint
    assert _held(lake, name) == []


@pytest.mark.parametrize("name", ["t", "n"])
def test_nanoseconds_are_not_cut(lake: spark_trickle.Lake, name: str) -> None:
    values = np.array(["2024-02-29T12:30:01.000000001"], dtype="datetime64[ns]")
    with pytest.raises(InvalidDataError, match="nanoseconds") as caught:
        lake.append("t", pd.DataFrame({name: values}))
    assert "floor" in (caught.value.hint or "")
    lake.append("t", pd.DataFrame({name: values.astype("datetime64[us]").astype("datetime64[ns]")}))


@pytest.mark.spark
def test_times_that_a_zone_skips_or_has_twice(tmp_path: Path, spark: Any) -> None:
    """By Spark's own rules, and so are times that databases of zones disagree on."""
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    walls = [
        datetime(2026, 3, 29, 2, 30), datetime(2026, 10, 25, 2, 30), datetime(1, 1, 1),
        datetime(1890, 5, 1, 12), datetime(2026, 7, 1), datetime(9999, 12, 31, 23, 59, 59),
    ]  # fmt: skip
    texts = ", ".join(f"(TIMESTAMP '{wall:%Y-%m-%d %H:%M:%S}')" for wall in walls)
    texts = texts.replace("'1-", "'0001-")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        with spark_trickle.connect(tmp_path / "lake", spark=spark) as lake:
            lake.sql("CREATE TABLE t (t TIMESTAMP)")
            lake.append("t", pa.table({"t": walls}))
            found = read_scan(lake._catalog.scan("t")).column("t").cast(pa.int64())
            wanted = spark.sql(f"SELECT col1 FROM VALUES {texts}").toArrow().column(0)
            assert found.to_pylist() == wanted.cast(pa.int64()).to_pylist()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
