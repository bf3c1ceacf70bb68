"""One operation on a lake in an object store, in a process that is told the point where it dies."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pyarrow as pa

import spark_trickle
from spark_trickle import Lake
from spark_trickle.settings import Settings
from support.lakes import modify


def append(lake: Lake) -> object:
    rows = {"id": range(1000, 1200), "g": [7] * 200, "v": [1] * 200}
    return lake.append("t", pa.table(rows))


def append_by_spark(lake: Lake) -> object:
    frame = lake.spark.range(2000, 22000).selectExpr("id", "id % 9 AS g", "id AS v")
    return lake.append("t", frame)


def update(lake: Lake) -> object:
    with lake._catalog.begin() as tx:
        modify(tx, "t", lambda row: row["id"] % 10 == 3, lambda row: row | {"v": row["v"] + 1})
    return None


def refresh(lake: Lake) -> object:
    return lake.refresh_stream_table("s")


def compact(lake: Lake) -> object:
    return lake.compact("t")


def expire(lake: Lake) -> object:
    return lake.expire(older_than=0.0)


def sweep(lake: Lake) -> object:
    return lake.remove_orphans(grace_seconds=-60.0)


OPERATIONS: dict[str, Callable[[Lake], object]] = {
    each.__name__: each
    for each in (append, append_by_spark, update, refresh, compact, expire, sweep)
}


def settings(storage: dict[str, str], spark: dict[str, str]) -> Settings:
    return Settings(inline_row_limit=10, inline_delete_limit=5, storage=storage, spark=spark)


def main(operation: str, url: str, storage: str, spark: str) -> None:
    with spark_trickle.connect(
        url, settings=settings(json.loads(storage), json.loads(spark))
    ) as lake:
        print(OPERATIONS[operation](lake))


if __name__ == "__main__":
    main(*sys.argv[1:])
