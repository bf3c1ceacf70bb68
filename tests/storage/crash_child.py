"""Runs operations on lakes, each in a process that is told the point where it dies."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pyarrow as pa

from spark_trickle.settings import Settings
from spark_trickle.storage import faults
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.upkeep import maintenance
from support import lakes


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int64()), "s": ["new"] * count})


def insert(catalog: Catalog) -> None:
    with catalog.begin() as tx:
        tx.insert_rows("a", rows(1000, 3))


def insert_file(catalog: Catalog) -> None:
    with catalog.begin() as tx:
        tx.insert_rows("a", rows(1000, 50))


def update(catalog: Catalog) -> None:
    with catalog.begin() as tx:
        lakes.modify(tx, "a", lambda r: r["id"] % 50 == 0, lambda r: r | {"s": "updated"})


def delete_many(catalog: Catalog) -> None:
    with catalog.begin() as tx:
        lakes.modify(tx, "a", lambda r: r["id"] % 2 == 0, None)


def two_tables(catalog: Catalog) -> None:
    with catalog.begin() as tx:
        lakes.modify(tx, "a", lambda r: r["id"] == 1, None)
        tx.insert_rows("b", rows(1000, 2))
        tx.record(lambda c, v: c.execute("INSERT INTO trickle_log VALUES (?)", (v,)) and None)


def compact(catalog: Catalog) -> None:
    maintenance.compact(catalog, "a")


def expire(catalog: Catalog) -> None:
    maintenance.expire(catalog, keep_from=4)


def sweep(catalog: Catalog) -> None:
    maintenance.remove_orphans(catalog, grace_seconds=-60)


OPERATIONS: dict[str, Callable[[Catalog], None]] = {
    f.__name__: f
    for f in (insert, insert_file, update, delete_many, two_tables, compact, expire, sweep)
}
TUNED = Settings(inline_row_limit=20, inline_delete_limit=10, retention_seconds=0.0)


def run(location: str, operation: str) -> None:
    with Catalog.open(location, settings=TUNED) as opened:
        OPERATIONS[operation](opened)


def serve() -> None:
    """For each line (location, operation, point): a fork that does it; answers how it ended."""
    for line in sys.stdin:
        location, operation, point = line.rstrip("\n").split("\t")
        child = os.fork()
        if child == 0:
            faults.arm(point)
            run(location, operation)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
