"""A query that reads much is run once, whatever comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_trickle import Limits, Settings, connect
from spark_trickle.spark import run
from support.lakes import limited

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(tmp_path: Path, spark):
    """Every query that reads a file of the lake reads much; ``noted`` leaves a mark for each row."""
    marks = str(tmp_path / "marks")

    def noted(value: int) -> int:
        with open(marks, "a") as file:
            file.write(".")
        return value

    spark.udf.register("noted", noted, "bigint")
    settings = Settings(inline_row_limit=50, limits=Limits(written_bytes=0))
    with connect(tmp_path / "lake", spark=spark, settings=settings) as opened:
        opened.sql("CREATE TABLE t (id BIGINT, g BIGINT)")
        opened.append("t", spark.range(300).selectExpr("id", "id % 7 AS g"))
        yield opened


def calls(folder: Path) -> int:
    return (folder / "marks").stat().st_size


@pytest.mark.parametrize("keyed", ["", ", PRIMARY KEY (a)"], ids=["plain", "keyed"])
def test_insert_select(lake, tmp_path, keyed):
    lake.sql(f"CREATE TABLE r (a BIGINT, b BIGINT{keyed})")
    assert lake.sql("INSERT INTO r SELECT noted(id), g FROM t") == 300
    assert calls(tmp_path) == 300
    assert lake.sql("INSERT INTO r SELECT noted(max(id)) + 1, g FROM t GROUP BY g") == 7
    assert calls(tmp_path) == 307
    plan = lake._catalog.scan("r")
    assert (plan.inlined.num_rows, plan.rows) == (7, 307), "few rows go into the catalog"
    assert lake.sql("SELECT sum(a) FROM r").collect()[0][0] == 300 * 299 // 2 + 7 * 297


def test_a_delta(lake, monkeypatch):
    """The same refresh, large or small: in files first, and read again if there is little."""
    limited(lake, delta_bytes=-1)
    lake.create_stream_table("s", "SELECT id, g + 1 AS h FROM t", refresh_mode="DIFFERENTIAL")
    sums = "SELECT g, count(*) AS n FROM t GROUP BY g"
    lake.create_stream_table("c", sums, refresh_mode="DIFFERENTIAL")
    spills: list[int] = []
    spilled = run.Run._spill

    def noting(self, frame):
        spills.append(1)
        return spilled(self, frame)

    monkeypatch.setattr(run.Run, "_spill", noting)
    for few in (5, 10_000):
        limited(lake, delta_rows=few)
        lake.sql("UPDATE t SET g = g + 1 WHERE id % 2 = 0")
        for name, parts in (("s", 1), ("c", 2)):  # the sums, and what is shown of them
            spills.clear()
            assert lake.refresh_stream_table(name).effective_mode == "DIFFERENTIAL"
            assert 1 <= len(spills) <= parts, "each part once"
            assert not lake.verify(name)
