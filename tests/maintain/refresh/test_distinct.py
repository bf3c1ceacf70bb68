"""Refreshes over columns of few values and over keys: by how many values there are, which the first one
finds out and the catalog remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import spark_trickle
from spark_trickle import Lake, Limits, Settings
from spark_trickle.maintain.gather import finding
from spark_trickle.maintain.refresh import locally
from spark_trickle.storage.manifest import distinct
from spark_trickle.storage.read.column_cache import COLUMNS
from support import postgres
from support.streams import assert_exact, refreshed

pytestmark = pytest.mark.spark

ROWS = 30_000
FEW = 100
"""More than the rows of the other tables."""
SETTINGS = Settings(limits=Limits(near_rows=3_000, held_values=0))
KINDS = (
    "SELECT k.label, count(*) AS n FROM facts f JOIN kinds k ON f.kind = k.kind GROUP BY k.label"
)
KEYED = "SELECT m.label, count(*) AS n FROM facts f JOIN marks m ON f.id = m.id GROUP BY m.label"

Opener = Callable[[], Lake]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres.server() as found:
        yield found


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def opener(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> Opener:
    """Opens a lake with facts, of which 5 kinds are there and an id for each."""
    monkeypatch.setattr(locally, "CHECKED", 0)
    place, data = str(tmp_path / "lake"), None
    if request.param == "postgres":
        place = postgres.new_database(request.getfixturevalue("url"))
        data = str(tmp_path / "data")

    def opened() -> Lake:
        return spark_trickle.connect(place, data_path=data, spark=spark, settings=SETTINGS)

    with opened() as lake:
        lake.sql("CREATE TABLE facts (id STRING, kind STRING)")
        lake.sql("CREATE TABLE kinds (kind STRING, label STRING)")
        lake.sql("CREATE TABLE marks (id STRING, label STRING)")
        numbers = range(ROWS)
        facts = {"id": [f"id {n}" for n in numbers], "kind": [f"kind {n % 5}" for n in numbers]}
        lake.append("facts", pa.table(facts))
        lake.sql("INSERT INTO kinds VALUES ('kind 0', 'a'), ('kind 1', 'b'), ('kind 2', 'b')")
    return opened


def sampled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The columns that are counted from now on."""
    found: list[str] = []
    count = distinct.distinct_values

    def watched(plan: Any, column: Any, *rest: Any) -> Any:
        found.append(f"{plan.table}.{column.name}")
        return count(plan, column, *rest)

    monkeypatch.setattr(distinct, "distinct_values", watched)
    return found


def stored(lake: Lake) -> list[tuple[Any, ...]]:
    with lake._catalog.reading() as connection:
        if not connection.has_table("trickle_distinct"):
            return []
        return connection.execute("SELECT row_count, distinct_count FROM trickle_distinct")


def test_a_column_of_few_values(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    found = sampled(monkeypatch)
    searched: list[str] = []
    search = finding.search

    def watched(plan: Any, *rest: Any) -> Any:
        searched.append(str(plan.table))
        return search(plan, *rest)

    monkeypatch.setattr(finding, "search", watched)
    with opener() as lake:
        lake.create_stream_table("s", KINDS, refresh_mode="DIFFERENTIAL")
        assert (found, stored(lake)) == ([], []), "a full run does not ask"
        lake.sql("INSERT INTO kinds VALUES ('kind 3', 'c')")
        first = refreshed(lake, "s", "DIFFERENTIAL")
        assert (found, stored(lake)) == (["facts.kind"], [(ROWS, 5)])
        lake.sql("INSERT INTO kinds VALUES ('kind 4', 'c')")
        second = refreshed(lake, "s", "DIFFERENTIAL")
        assert (first.engine, second.engine) == ("spark", "spark")
        assert 0 <= first.rows_read - 2 * ROWS < FEW, "once for the estimate, once by Spark"
        assert 0 <= second.rows_read - ROWS < FEW
        assert "facts" not in searched
        version = lake.version
    COLUMNS.resize(0)  # as in another process: nothing is decoded yet
    found.clear()
    with opener() as lake:
        lake.sql("DELETE FROM kinds WHERE kind = 'kind 1'")
        third = refreshed(lake, "s", "DIFFERENTIAL")
        assert (found, stored(lake)) == ([], [(ROWS, 5)])
        assert 0 <= third.rows_read - ROWS < FEW
        assert lake.version == version + 2


def test_a_key(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten rows of each value were expected, and so too many."""
    found = sampled(monkeypatch)
    with opener() as lake:
        lake.create_stream_table("s", KEYED)
        marks = {"id": [f"id {n}" for n in range(1_000)], "label": ["x"] * 1_000}
        lake.append("marks", pa.table(marks))
        assert not found
        report = lake.refresh_stream_table("s")
        assert (report.effective_mode, report.engine) == ("DIFFERENTIAL", "local")
        assert (found, stored(lake)) == (["facts.id"], [(ROWS, ROWS)])
        assert_exact(lake, "s")


def test_explain_reads_no_file(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    found = sampled(monkeypatch)
    with opener() as lake:
        lake.create_stream_table("s", KEYED)
        lake.sql("INSERT INTO marks VALUES ('id 7', 'x')")
        assert "DIFFERENTIAL" in str(lake.explain("s"))
        assert (found, stored(lake)) == ([], [])


def test_commits_keep_them_too(opener: Opener) -> None:
    with opener() as lake:
        lake.create_stream_table("s", KEYED, refresh_mode="IMMEDIATE")
        lake.sql("INSERT INTO marks VALUES ('id 7', 'x')")
        assert stored(lake) == [(ROWS, ROWS)]
        assert_exact(lake, "s")
