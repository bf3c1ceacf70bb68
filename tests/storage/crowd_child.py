"""One of a crowd of processes at work on one table: writers, a compactor, a refresher.

Each does its work until the time is over, then prints what it did: when it got on, and what the
table must hold of it.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.commits import retrying
from spark_trickle.storage.read.reader import read_changes
from spark_trickle.storage.records import WEIGHT
from spark_trickle.storage.upkeep import maintenance
from spark_trickle.storage.versions.transaction import Transaction
from support import lakes

SHARED = 20
"""Keys below this are counted up by two writers, and inserted when they are not there."""
TUNED = Settings(inline_row_limit=20, inline_delete_limit=50)
Step = Callable[[], Any]


def rows(found: dict[int, int]) -> pa.Table:
    keys, numbers = pa.array(found, pa.int64()), pa.array(found.values(), pa.int64())
    return pa.table({"k": keys, "n": numbers})


class Worker:
    def __init__(self, catalog: Catalog, seed: int) -> None:
        self.catalog = catalog
        self.seed = seed
        self.random = random.Random(seed)
        self.own: dict[int, int] = {}
        """Rows that only this writer changes."""
        self.counted = 0
        self._keys: Iterator[int] = iter(range(1000 + seed * 10**6, 1000 + (seed + 1) * 10**6))

    def commit(self, work: Callable[[Transaction], Any]) -> Any:
        return retrying.committed(self.catalog.begin, work, self.catalog.settings)

    def insert(self) -> None:
        new = {next(self._keys): 0 for _ in range(self.random.choice((1, 5, 30)))}
        self.commit(lambda tx: tx.insert_rows("t", rows(new)))
        self.own |= new

    def update(self) -> None:
        while len(self.own) < 50:
            self.insert()
        hit = set(self.random.sample(sorted(self.own), self.random.choice((1, 10, 40))))
        self.commit(lambda tx: self._changed(tx, hit, lambda r: r | {"n": r["n"] + 1}))
        self.own |= {key: self.own[key] + 1 for key in hit}

    def delete(self) -> None:
        self.insert()
        hit = set(self.random.sample(sorted(self.own), len(self.own) // 2))
        self.commit(lambda tx: self._changed(tx, hit, None))
        self.own = {key: n for key, n in self.own.items() if key not in hit}

    def _changed(self, tx: Transaction, hit: set[int], change: Any) -> None:
        assert lakes.modify(tx, "t", lambda r: r["k"] in hit, change) == len(hit)

    def merge(self) -> None:
        """Count a shared key up, or insert it if it is not there; sometimes delete it."""
        key = self.random.randrange(SHARED)

        def work(tx: Transaction) -> int:
            there = [row["n"] for row, _, _ in lakes.located(tx.scan("t")) if row["k"] == key]
            if there and there[0] > 5:
                self._changed(tx, {key}, None)
                return -there[0]
            if there:
                self._changed(tx, {key}, lambda r: r | {"n": r["n"] + 1})
            else:
                tx.assume("t")
                tx.insert_rows("t", rows({key: 1}))
            return 1

        self.counted += self.commit(work)

    def compact(self) -> bool:
        before = self.catalog.version()
        return maintenance.compact(self.catalog, "t").version > before

    def refresh(self) -> bool:
        """Bring the copy up to date from the change feed; a row it loses must be there."""
        with self.catalog.begin() as tx:
            (row,) = lakes.located(tx.scan("frontier"))
            before = row[0]["version"]
            if before == tx.base:
                return False
            changes = read_changes(self.catalog.changes("t", before, tx.base)).to_pylist()
            lost = {(r["k"], r["n"]) for r in changes if r[WEIGHT] < 0}
            gained = [{"k": r["k"], "n": r["n"]} for r in changes if r[WEIGHT] > 0]
            hit = lakes.modify(tx, "copy", lambda r: (r["k"], r["n"]) in lost, None)
            assert hit == len(lost), "a row that went was not there"
            schema = pa.schema({"k": pa.int64(), "n": pa.int64()})
            tx.insert_rows("copy", pa.Table.from_pylist(gained, schema=schema))
            base = tx.base
            lakes.modify(tx, "frontier", lambda _: True, lambda _: {"version": base})
        return bool(changes)


def main(location: str, data_path: str, seed: str, kind: str, seconds: float) -> None:
    times = []
    with Catalog.open(location, data_path, TUNED) as catalog:
        worker = Worker(catalog, int(seed))
        step = getattr(worker, kind)
        print("ready", flush=True)
        sys.stdin.readline()
        until = time.time() + seconds
        while time.time() < until:
            if step() is not False:
                times.append(time.time())
            time.sleep(worker.random.uniform(0, 0.02) if kind != "compact" else 0.2)
    print(json.dumps({"times": times, "own": worker.own, "counted": worker.counted}))


if __name__ == "__main__":
    main(*sys.argv[1:5], seconds=float(sys.argv[5]))
