"""A process killed at any point of an operation leaves the lake as before or as after it."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from spark_trickle.storage import faults
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import NewColumn
from spark_trickle.storage.upkeep import maintenance
from support import duck, lakes
from support.postgres import new_database

from . import crash_child

CRASHES = {
    "insert": ["locked", "inlined-rows-written", "before-commit", "after-commit"],
    "insert_file": ["file-written", "files-synced", "first-table-written", "snapshot-row-written"],
    "update": ["deletes-written", "inlined-rows-written", "before-commit", "after-commit"],
    "delete_many": ["delete-file-written", "deletes-written", "before-commit", "after-commit"],
    "two_tables": ["first-table-written", "records-written", "before-commit", "after-commit"],
    "compact": [
        "compaction-file-written",
        "compaction-swapped",
        "compaction-before-commit",
        "compaction-after-commit",
    ],
    "expire": ["expiry-marked", "expiry-before-commit", "expiry-after-commit"],
    "sweep": ["removal-half-done"],
}
State = dict[str, Any]


def test_every_point_is_tried() -> None:
    own = {p for p in faults.POINTS if not p.startswith("refresh-")}
    assert {p for points in CRASHES.values() for p in points} == own


@dataclass(frozen=True)
class Seed:
    """A lake to be copied; each copy has a catalog and files of its own."""

    location: str
    data: Path

    def copy(self, target: Path) -> str:
        """The lake in another place; where."""
        return _sqlite_copy(self, target) if self._in_folder else _postgres_copy(self, target)

    @property
    def _in_folder(self) -> bool:
        return not self.location.startswith("postgresql:")


def _sqlite_copy(seed: Seed, target: Path) -> str:
    shutil.copytree(seed.location, target)
    with closing(sqlite3.connect(target / "catalog.sqlite")) as raw, raw:
        for statement, *values in _moved(seed.data, target / "data"):
            raw.execute(statement, values)
    return str(target)


def _postgres_copy(seed: Seed, target: Path) -> str:
    shutil.copytree(seed.data, target / "data")
    url = new_database(seed.location, copy=True)
    with psycopg.connect(url) as raw:
        for statement, *values in _moved(seed.data, target / "data"):
            raw.execute(statement.replace("?", "%s"), values)
    return url


def _moved(old: Path, new: Path) -> list[tuple[str, ...]]:
    return [
        ("UPDATE ducklake_metadata SET value = ? WHERE key = 'data_path'", f"{new}/"),
        (
            "UPDATE ducklake_files_scheduled_for_deletion SET path = replace(path, ?, ?)",
            str(old),
            str(new),
        ),
    ]


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Seed:
    folder = tmp_path_factory.mktemp("seed") / "lake"
    return filled(Seed(str(folder), folder / "data"))


@pytest.fixture(scope="module")
def postgres_seed(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Seed:
    data = tmp_path_factory.mktemp("seed") / "data"
    return filled(Seed(new_database(postgres_url), data))


def filled(seed: Seed) -> Seed:
    """With files, inlined rows, deletes, an orphan and files due for removal."""
    with Catalog.open(seed.location, str(seed.data), crash_child.TUNED) as catalog:
        with catalog.begin() as tx:
            for name in ("a", "b"):
                tx.create_table(name, [NewColumn("id", "bigint"), NewColumn("s", "string")])
            tx.insert_rows("a", crash_child.rows(0, 40))
        with catalog.writing() as connection:
            connection.execute("CREATE TABLE trickle_log (version BIGINT)")
        for first in (100, 200):
            with catalog.begin() as tx:
                tx.insert_rows("a", crash_child.rows(first, 30))
        with catalog.begin() as tx:
            tx.insert_rows("a", crash_child.rows(300, 5))
            lakes.modify(tx, "a", lambda r: r["id"] % 10 == 3, None)
        maintenance.compact(catalog, "a")
        for first in (400, 500):
            with catalog.begin() as tx:
                tx.insert_rows("a", crash_child.rows(first, 30))
        with catalog.begin() as tx:
            lakes.modify(tx, "a", lambda r: r["id"] == 405, None)
            path = tx.new_file("a")
        shutil.copy(catalog.scan("a").files[0].path, path)
    return seed


def state(location: str) -> State:
    """All that an onlooker can see: every version's rows, and the records beside them."""
    with Catalog.open(location) as catalog:
        versions = range(catalog.oldest_version(), catalog.version() + 1)
        rows = {
            (v, t.name): lakes.contents(catalog, t.name, v)
            for v in versions
            for t in catalog.tables(v)
        }
        with catalog.reading() as connection:
            log = connection.execute("SELECT version FROM trickle_log")
        return {"rows": rows, "log": log, "newest": catalog.version()}


@pytest.fixture(scope="module")
def kill() -> Iterator[Callable[[str, str, str], int]]:
    """Runs an operation in a process of its own that dies at a point; how it ended."""
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    server = subprocess.Popen(
        [sys.executable, crash_child.__file__],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None

    def run(location: str, operation: str, point: str) -> int:
        print(location, operation, point, sep="\t", file=server.stdin, flush=True)
        return int(server.stdout.readline())

    yield run
    server.stdin.close()
    assert server.wait(30) == 0


@pytest.mark.parametrize("operation", CRASHES)
def test_killed(seed: Seed, tmp_path: Path, kill: Any, operation: str) -> None:
    _killed(seed, tmp_path, kill, operation)


@pytest.mark.postgres
@pytest.mark.parametrize("operation", ["insert", "insert_file", "two_tables", "compact"])
def test_killed_on_postgres(postgres_seed: Seed, tmp_path: Path, kill: Any, operation: str) -> None:
    _killed(postgres_seed, tmp_path, kill, operation)


def _killed(seed: Seed, tmp_path: Path, kill: Any, operation: str) -> None:
    before = state(seed.copy(tmp_path / "before"))
    done = seed.copy(tmp_path / "done")
    crash_child.run(done, operation)
    after = state(done)
    assert before != after or operation == "sweep"
    for point in CRASHES[operation]:
        location = seed.copy(tmp_path / point)
        assert kill(location, operation, point) == -signal.SIGKILL, point
        found = state(location)
        assert found in (before, after), point
        assert (found == after) or not point.endswith("after-commit"), point
        crash_child.run(location, operation)
        _no_litter(location)
    _duckdb_agrees(location, state(location))


def _no_litter(location: str) -> None:
    """What the dead process left behind goes away, and nothing else does."""
    with Catalog.open(location) as catalog:
        maintenance.remove_orphans(catalog, grace_seconds=-60)
        with catalog.reading() as connection:
            known = maintenance.live_paths(connection, catalog.files)
        assert {path for path, _ in catalog.files.list(catalog.data_path)} == known
    state(location)


def _duckdb_agrees(location: str, found: State) -> None:
    keys = list(found["rows"])
    queries = [f"SELECT * FROM {t} AT (VERSION => {v})" for v, t in keys]
    for key, rows in zip(keys, duck.read(duck.catalog_of(location), queries), strict=True):
        assert lakes.bag(rows) == found["rows"][key], key
