"""Four writers, a compactor and a refresher at one table at once: nobody starves, nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.read.reader import read_scan
from spark_trickle.storage.records import NewColumn
from support.crowds import PATIENCE, SECONDS

from . import crowd_child

KINDS = ["update", "delete", "merge", "merge", "compact", "refresh"]


def test_everybody_gets_on(open_lake: Any, location: tuple[str, str]) -> None:
    crowd(open_lake(), location, seconds=6)


@pytest.mark.long
def test_everybody_gets_on_for_longer(open_lake: Any, location: tuple[str, str]) -> None:
    crowd(open_lake(), location, SECONDS)


def test_who_waits_for_the_lock_gets_it(open_lake: Any) -> None:
    """Three hold it again and again, for long; one comes now and then."""
    catalog: Catalog = open_lake()
    until = time.monotonic() + 4

    def hold() -> int:
        count = 0
        while time.monotonic() < until:
            with catalog.writing():
                time.sleep(0.05)
            count += 1
        return count

    waits = []
    with ThreadPoolExecutor(3) as pool:
        held = [pool.submit(hold) for _ in range(3)]
        while time.monotonic() < until:
            time.sleep(0.1)
            began = time.monotonic()
            with catalog.writing():
                waits.append(time.monotonic() - began)
    assert min(each.result() for each in held) > 3
    assert len(waits) > 3
    assert max(waits) < 2


def crowd(catalog: Catalog, location: tuple[str, str], seconds: float) -> None:
    with catalog.begin() as tx:
        for name in ("t", "copy"):
            tx.create_table(name, [NewColumn("k", "bigint"), NewColumn("n", "bigint")])
        tx.create_table("frontier", [NewColumn("version", "bigint")])
        tx.insert_rows("frontier", pa.table({"version": [catalog.version() + 1]}))
    children = [_start(location, i, kind, seconds) for i, kind in enumerate(KINDS)]
    for child in children:
        assert child.stdout.readline() == "ready\n", child.communicate()
    began = time.time()
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    told = [_end(child, seconds) for child in children]
    for kind, one in zip(KINDS, told, strict=True):
        moments = [began, *one["times"], began + seconds]
        longest = max(b - a for a, b in pairwise(moments))
        print(f"{kind}: {len(one['times'])} times, longest pause {longest:.1f} s")
        assert one["times"], f"{kind} never got on"
        assert longest < PATIENCE, f"{kind} stood still for {longest:.1f} s"
    _check(catalog, told)


def _start(location: tuple[str, str], seed: int, kind: str, seconds: float) -> Any:
    env = os.environ | {"PYTHONPATH": f"{Path(__file__).parents[1]}:{os.environ.get('PYTHONPATH')}"}
    command = [sys.executable, crowd_child.__file__, *location, str(seed), kind, str(seconds)]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, env=env, text=True, **pipes)


def _end(child: Any, seconds: float) -> dict[str, Any]:
    out, problem = child.communicate(timeout=seconds + 60)
    assert child.returncode == 0, problem
    found: dict[str, Any] = json.loads(out)
    return found


def _check(catalog: Catalog, told: list[dict[str, Any]]) -> None:
    """The table holds what the writers say, each shared key once, and the copy holds the same."""
    found = [(r["k"], r["n"]) for r in read_scan(catalog.scan("t")).to_pylist()]
    own = {int(k): n for one in told for k, n in one["own"].items()}
    assert sorted(kn for kn in found if kn[0] >= crowd_child.SHARED) == sorted(own.items())
    shared = [kn for kn in found if kn[0] < crowd_child.SHARED]
    assert len({k for k, _ in shared}) == len(shared)
    assert sum(n for _, n in shared) == sum(one["counted"] for one in told)
    crowd_child.Worker(catalog, 0).refresh()
    assert sorted((r["k"], r["n"]) for r in read_scan(catalog.scan("copy")).to_pylist()) == sorted(
        found
    )
