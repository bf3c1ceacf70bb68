"""Several processes commit at once: nothing is lost, nothing is done twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_trickle.storage.read.reader import read_scan
from spark_trickle.storage.records import NewColumn
from spark_trickle.storage.upkeep import maintenance
from support import lakes

from . import race_child

WORKERS, COMMITS = 4, 100


@pytest.mark.parametrize(
    "orders",
    [["a", "a", "a", "a"], ["a,b", "b,a", "a,b", "b,a"]],
    ids=["one table", "two tables in opposite order"],
)
def test_four_processes(open_lake: Any, location: tuple[str, str], orders: list[str]) -> None:
    catalog = open_lake()
    with catalog.begin() as tx:
        for name in ("a", "b"):
            tx.create_table(f"count_{name}", [NewColumn("n", "bigint")])
            tx.insert_rows(f"count_{name}", pa.table({"n": [0]}))
            columns = [NewColumn("worker", "bigint"), NewColumn("number", "bigint")]
            tx.create_table(f"log_{name}", columns)
    first = catalog.version()
    children = [_start(location, i, order) for i, order in enumerate(orders)]
    passes = 0
    while any(c.poll() is None for c in children):  # compaction goes on beside the writers
        maintenance.compact(catalog, "log_a")
        maintenance.compact(catalog, "count_a")
        passes += 1
        _wait_a_little(children)
    for child in children:
        assert child.wait() == 0, child.stderr and child.stderr.read()
    _check(catalog, first, orders)
    assert passes > 1


def _start(location: tuple[str, str], worker: int, order: str) -> subprocess.Popen[str]:
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, race_child.__file__, *location, str(worker), str(COMMITS), order]
    return subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _wait_a_little(children: list[subprocess.Popen[str]]) -> None:
    running = next((c for c in children if c.poll() is None), None)
    if running is not None:
        try:
            running.wait(2)
        except subprocess.TimeoutExpired:
            return


def _check(catalog: Any, first: int, orders: list[str]) -> None:
    wanted = sorted((w, n) for w in range(WORKERS) for n in range(COMMITS))
    for name in {n for order in orders for n in order.split(",")}:
        (row,) = read_scan(catalog.scan(f"count_{name}")).to_pylist()
        assert row == {"n": WORKERS * COMMITS}
        log = read_scan(catalog.scan(f"log_{name}")).to_pylist()
        assert sorted((r["worker"], r["number"]) for r in log) == wanted
        for version in range(first, catalog.version() + 1, 37):
            counted = read_scan(catalog.scan(f"count_{name}", version)).to_pylist()[0]["n"]
            assert catalog.scan(f"log_{name}", version).rows == counted
            changed = lakes.net(catalog, f"log_{name}", version, catalog.version())
            assert sum(changed.values()) == WORKERS * COMMITS - counted
