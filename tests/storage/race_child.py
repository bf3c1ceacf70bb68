"""One of several processes that commit to the same lake: counts up, and logs each step."""

from __future__ import annotations

import random
import sys
import time

import pyarrow as pa

from spark_trickle.errors import TransientError
from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from support import lakes


def step(catalog: Catalog, worker: int, number: int, order: list[str]) -> None:
    with catalog.begin() as tx:
        for name in order:
            lakes.modify(tx, f"count_{name}", lambda _: True, lambda r: {"n": r["n"] + 1})
            row = {"worker": [worker], "number": [number]}
            tx.insert_rows(f"log_{name}", pa.table(row))


def main(location: str, data_path: str, worker: int, commits: int, order: list[str]) -> None:
    conflicts = 0
    with Catalog.open(location, data_path, Settings(inline_row_limit=1000)) as catalog:
        for number in range(commits):
            while True:
                try:
                    step(catalog, worker, number, order)
                    break
                except TransientError:
                    conflicts += 1
                    time.sleep(random.uniform(0, 0.05))
    print(conflicts)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5].split(","))
