"""Upkeep after commits: what small ones leave in the catalog stays bounded, and no version changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import spark_trickle
from spark_trickle import Lake, Settings
from spark_trickle.errors import CommitConflictError
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.read.reader import read_scan
from spark_trickle.storage.upkeep import tending

COMMITS, ROWS = 40, 10


@pytest.fixture
def written(location: tuple[str, str]) -> Any:
    """Write in many small commits; the lake, and how many rows were in the catalog at most."""
    opened: list[Lake] = []

    def write(**tuned: Any) -> tuple[Catalog, int]:
        lake = spark_trickle.connect(location[0], data_path=location[1], settings=Settings(**tuned))
        opened.append(lake)
        lake.create_table("t", "id BIGINT, s STRING")
        most = 0
        for start in range(0, COMMITS * ROWS, ROWS):
            lake.append("t", [{"id": start + i, "s": "x"} for i in range(ROWS)])
            most = max(most, lake._catalog.scan("t").inlined.num_rows)
        return lake._catalog, most

    yield write
    for lake in opened:
        lake.close()


def check(catalog: Catalog) -> None:
    """Every version has one commit more than the one before, or was a compaction."""
    counts = [catalog.scan("t", version).rows for version in range(2, catalog.version() + 1)]
    steps = [b - a for a, b in zip(counts, counts[1:], strict=False)]
    assert set(steps) <= {0, ROWS}
    assert steps.count(ROWS) == COMMITS - 1 + (counts[0] == 0)
    ids = sorted(row["id"] for row in read_scan(catalog.scan("t")).to_pylist())
    assert ids == list(range(COMMITS * ROWS))


def test_rows_in_the_catalog_are_bounded(written: Any) -> None:
    catalog, most = written(catalog_rows=100)
    assert most <= 100 + 2 * ROWS
    assert catalog.version() > COMMITS + 1
    check(catalog)


def test_it_can_be_turned_off(written: Any) -> None:
    catalog, most = written(catalog_rows=0, small_files=0)
    assert most == COMMITS * ROWS
    check(catalog)


def test_small_files_are_bounded(written: Any) -> None:
    catalog, _ = written(inline_row_limit=5, small_files=10)
    assert len(catalog.scan("t").files) <= 12
    check(catalog)


def test_a_commit_stands_whatever_comes_after(
    written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse(*_: object) -> None:
        asked.append(1)
        raise CommitConflictError("somebody else compacts")

    monkeypatch.setattr(tending, "compact", refuse)
    catalog, most = written(catalog_rows=100)
    assert asked
    assert most == COMMITS * ROWS
    check(catalog)


def test_rows_in_the_catalog_are_found_by_index(tmp_path: Path) -> None:
    with spark_trickle.connect(tmp_path / "lake") as lake:
        lake.create_table("t", [{"id": 1}])
        with lake._catalog.reading() as connection:
            ((name,),) = connection.execute("SELECT table_name FROM ducklake_inlined_data_tables")
            for where in (
                "row_id IN (1, 2) AND end_snapshot IS NULL",
                "begin_snapshot > 5 AND begin_snapshot <= 9",
                "end_snapshot > 5 AND end_snapshot <= 9",
            ):
                plan = connection.execute(f"EXPLAIN QUERY PLAN SELECT * FROM {name} WHERE {where}")
                assert "USING INDEX" in plan[0][3], plan
