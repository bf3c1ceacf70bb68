"""Delete files are written before anybody has to wait for the commit, and tell the right versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_trickle.errors import CommitConflictError
from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.files import parquet
from spark_trickle.storage.records import NewColumn
from spark_trickle.storage.upkeep import maintenance
from support import lakes

TUNED = Settings(inline_row_limit=5, inline_delete_limit=5, retention_seconds=0.0)


@pytest.fixture
def lake(folder: Path):
    with Catalog.open(str(folder), settings=TUNED) as catalog:
        with catalog.begin() as tx:
            tx.create_table("t", [NewColumn("a", "bigint")])
        for start in (0, 100):
            with catalog.begin() as tx:
                tx.insert_rows("t", lakes.rows_of(catalog, "t", {"a": range(start, start + 100)}))
        yield catalog


@pytest.fixture
def late(lake: Catalog, monkeypatch) -> list[str]:
    """The files that are written while other writers wait."""
    written: list[str] = []
    locked: list[int] = []
    writing, write = lake.writing, parquet.write

    class Locked:
        def __enter__(self) -> Any:
            self.inner = writing()
            locked.append(1)
            return self.inner.__enter__()

        def __exit__(self, *error: Any) -> Any:
            locked.pop()
            return self.inner.__exit__(*error)

    def noting(files: Any, path: str, rows: Any) -> None:
        if locked:
            written.append(path)
        write(files, path, rows)

    monkeypatch.setattr(lake, "writing", Locked)
    monkeypatch.setattr(parquet, "write", noting)
    return written


def delete(catalog: Catalog, rest: int) -> None:
    with catalog.begin() as tx:
        assert lakes.modify(tx, "t", lambda row: row["a"] % 10 == rest, None)


def values(catalog: Catalog) -> set[int]:
    return {int(row[0]) for row in lakes.contents(catalog, "t")}


def test_nobody_waits_for_files(lake: Catalog, folder: Path, late: list[str]) -> None:
    for rest in (1, 2, 3):
        delete(lake, rest)
    assert values(lake) == {i for i in range(200) if i % 10 not in (1, 2, 3)}
    assert late == []
    lakes.agrees_with_duckdb(lake, folder, "t")


@pytest.mark.parametrize("dirty", [False, True], ids=["first", "later"])
def test_another_version_comes_between(
    lake: Catalog, folder: Path, late: list[str], dirty: bool
) -> None:
    """A file that tells no versions is right in any; one that does is written again."""
    if dirty:
        delete(lake, 1)
    mine = lake.begin()
    lakes.modify(mine, "t", lambda row: row["a"] % 10 == 2, None)
    mine._work(None)  # the files are written, and nothing is locked yet
    with lake.begin() as tx:
        tx.insert_rows("t", lakes.rows_of(lake, "t", {"a": [1000]}))
    mine.commit()
    gone = (1, 2) if dirty else (2,)
    assert values(lake) == {i for i in range(200) if i % 10 not in gone} | {1000}
    assert len(late) == (2 if dirty else 0), "one for each data file"
    lakes.agrees_with_duckdb(lake, folder, "t")
    maintenance.remove_orphans(lake, grace_seconds=-60)
    with lake.reading() as connection:
        live = maintenance.live_paths(connection, lake.files)
    assert {path for path, _ in lake.files.list(lake.files.root)} == live


def test_others_delete_in_the_same_file(lake: Catalog, folder: Path) -> None:
    mine, theirs = lake.begin(), lake.begin()
    lakes.modify(mine, "t", lambda row: row["a"] % 10 == 2, None)
    mine._work(None)
    lakes.modify(theirs, "t", lambda row: row["a"] % 10 == 4 and row["a"] < 100, None)
    theirs.commit()
    mine.commit()
    gone = {i for i in range(200) if i % 10 == 2 or (i % 10 == 4 and i < 100)}
    assert values(lake) == set(range(200)) - gone
    lakes.agrees_with_duckdb(lake, folder, "t")
    late, first = lake.begin(), lake.begin()
    lakes.modify(late, "t", lambda row: row["a"] % 10 == 5, None)
    late._work(None)
    lakes.modify(first, "t", lambda row: row["a"] == 5, None)
    first.commit()
    with pytest.raises(CommitConflictError):
        late.commit()


def test_compaction_takes_deaths_over_with_their_versions(lake: Catalog, folder: Path) -> None:
    """Deaths of files without versions are as old as the version that has the file."""
    begin = lake.version()
    for rest in (1, 2):
        delete(lake, rest)
    expected = {v: lakes.contents(lake, "t", v) for v in range(begin, lake.version() + 1)}
    feeds = {
        (a, b): lakes.net(lake, "t", a, b) for a in expected for b in expected if a < b
    }  # fmt: skip
    maintenance.compact(lake, "t")
    assert {v: lakes.contents(lake, "t", v) for v in expected} == expected
    assert {(a, b): lakes.net(lake, "t", a, b) for a, b in feeds} == feeds
