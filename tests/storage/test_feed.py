"""Our change feed and DuckDB's over the same lake: net, they agree in every window."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.read.reader import read_scan
from spark_trickle.storage.records import NewColumn
from spark_trickle.storage.versions.transaction import Transaction
from support import lakes


def rows(first: int, count: int) -> pa.Table:
    ids = list(range(first, first + count))
    return pa.table({"id": pa.array(ids, pa.int64()), "s": [f"s{i}" for i in ids]})


def delete(tx: Transaction, low: int, high: int) -> int:
    return lakes.modify(tx, "t", lambda r: low <= r["id"] < high, None)


def update(tx: Transaction, low: int, high: int) -> int:
    return lakes.modify(tx, "t", lambda r: low <= r["id"] < high, lambda r: r | {"s": "u"})


SCENARIOS: dict[str, list[Any]] = {
    "delete files grow": [
        lambda tx: tx.insert_rows("t", rows(0, 60)),
        lambda tx: delete(tx, 0, 2),
        lambda tx: delete(tx, 5, 25),
        lambda tx: delete(tx, 30, 32),
        lambda tx: delete(tx, 35, 50),
    ],
    "deaths in the catalog before and after those in files, of two files": [
        lambda tx: (tx.insert_rows("t", rows(0, 30)), tx.insert_rows("t", rows(100, 30))),
        lambda tx: (delete(tx, 0, 2), delete(tx, 100, 101)),
        lambda tx: delete(tx, 2, 3),
        lambda tx: (update(tx, 10, 12), delete(tx, 103, 105)),
        lambda tx: delete(tx, 105, 120),
        lambda tx: delete(tx, 120, 122),
        lambda tx: tx.insert_rows("t", rows(200, 10)),
        lambda tx: (delete(tx, 3, 4), delete(tx, 201, 202), delete(tx, 122, 123)),
        lambda tx: delete(tx, 4, 25),
    ],
    "a file ends whole": [
        lambda tx: tx.insert_rows("t", rows(0, 20)),
        lambda tx: tx.insert_rows("t", rows(100, 20)),
        lambda tx: delete(tx, 0, 20),
        lambda tx: tx.insert_rows("t", rows(200, 2)),
    ],
    "a dirty file loses its last rows": [
        lambda tx: tx.insert_rows("t", rows(0, 20)),
        lambda tx: delete(tx, 0, 3),
        lambda tx: delete(tx, 3, 9),
        lambda tx: delete(tx, 9, 20),
    ],
    "truncate of dirty files": [
        lambda tx: tx.insert_rows("t", rows(0, 20)),
        lambda tx: tx.insert_rows("t", rows(50, 3)),
        lambda tx: delete(tx, 0, 3),
        lambda tx: delete(tx, 51, 52),
        lambda tx: tx.truncate("t"),
        lambda tx: tx.insert_rows("t", rows(70, 2)),
    ],
    "updates of updates": [
        lambda tx: tx.insert_rows("t", rows(0, 20)),
        lambda tx: update(tx, 0, 3),
        lambda tx: update(tx, 0, 15),
        lambda tx: update(tx, 2, 4),
        lambda tx: delete(tx, 1, 5),
    ],
    "rows that live for one transaction": [
        lambda tx: tx.insert_rows("t", rows(0, 20)),
        lambda tx: (tx.insert_rows("t", rows(100, 12)), delete(tx, 100, 105)),
        lambda tx: (tx.insert_rows("t", rows(200, 2)), delete(tx, 200, 202), delete(tx, 1, 2)),
    ],
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_windows(folder: Path, name: str) -> None:
    tuned = Settings(inline_row_limit=5, inline_delete_limit=8)
    with Catalog.open(str(folder), settings=tuned) as catalog:
        with catalog.begin() as tx:
            tx.create_table("t", [NewColumn("id", "bigint"), NewColumn("s", "string")])
        for step in SCENARIOS[name]:
            with catalog.begin() as tx:
                step(tx)
        lakes.agrees_with_duckdb(catalog, folder, "t")


def test_readers_beside_a_writer_see_whole_versions(folder: Path) -> None:
    """Threads of one process: each plan is one moment of the lake."""
    with Catalog.open(str(folder)) as catalog:
        with catalog.begin() as tx:
            tx.create_table("t", [NewColumn("id", "bigint"), NewColumn("s", "string")])
        first = catalog.version()
        wrong: list[Any] = []
        stop = threading.Event()

        def look() -> None:
            while not stop.is_set():
                plan = catalog.scan("t")
                if read_scan(plan).num_rows != 2 * (plan.version - first):
                    wrong.append(plan)

        threads = [threading.Thread(target=look) for _ in range(3)]
        for thread in threads:
            thread.start()
        for i in range(60):
            with catalog.begin() as tx:
                tx.insert_rows("t", rows(2 * i, 2))
        stop.set()
        for thread in threads:
            thread.join()
        assert not wrong
        assert catalog.scan("t").rows == 120
