"""Runs in a process whose zone is not the session's: every type, edge value, role and path."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from tests.support import edges
from tests.support.java import SPARK_OF_TESTS
from tests.support.lakes import limited

import spark_trickle
from spark_trickle.maintain.refresh.compute import Computation

ZONE = "Asia/Kolkata"


def _near(_: spark_trickle.Lake) -> None:
    pass


def _searched(lake: spark_trickle.Lake) -> None:
    """The rows near the change are looked for by Spark."""
    limited(lake, held_values=0, near_bytes=0)


def _listed(lake: spark_trickle.Lake) -> None:
    """Spark joins the files, which lists of keys narrow; lost rows are found by Spark."""
    Computation._nearby = lambda *_: None  # type: ignore[method-assign,assignment]
    limited(lake, searched_bytes=-1)


def _spilled(lake: spark_trickle.Lake) -> None:
    """Nothing at all passes through this process."""
    limited(lake, delta_rows=0)


def _check(lake: spark_trickle.Lake, held: dict[str, pa.Table], path: str) -> list[Any]:
    """The stream tables that are not what plain Spark says of the same rows."""
    for name, rows in held.items():
        frame = lake.spark.createDataFrame(rows.combine_chunks(), edges.DDL)
        frame.createOrReplaceTempView(f"plain_{name}")
    wrong = []
    for name, query in edges.QUERIES.items():
        plain = query.replace("FROM a", "FROM plain_a").replace("JOIN b", "JOIN plain_b")
        wanted = edges.contents(lake.spark.sql(plain).toArrow())
        found = edges.contents(lake.table(name).toArrow())
        if found != wanted:
            gone, more = list((wanted - found).items()), list((found - wanted).items())
            wrong.append([path, name, repr(gone[:3]), repr(more[:3])])
    return wrong


def main(folder: str) -> None:
    settings = spark_trickle.Settings(
        time_zone=ZONE,
        inline_row_limit=3,
        spark={
            "spark.master": "local[2]",
            "spark.sql.shuffle.partitions": "2",
            **SPARK_OF_TESTS,
        },
    )
    lake = spark_trickle.connect(folder, settings=settings)
    held: dict[str, pa.Table] = {}
    for name in ("a", "b"):
        lake.sql(f"CREATE TABLE {name} ({edges.DDL})")
        held[name] = edges.rows(list(range(edges.ROWS)))
        lake.append(name, held[name])
    for name, query in edges.QUERIES.items():
        lake.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
    wrong = _check(lake, held, "created")
    paths: list[Callable[[spark_trickle.Lake], None]] = [_near, _searched, _listed, _spilled]
    for number, path in enumerate(paths):
        path(lake)
        first = 1000 * (number + 1)
        # Equal rows come to old ones, of every edge value, and other old ones go.
        came = edges.rows([first + i for i in range(edges.ROWS // 2)], number * 7)
        lake.append("a", came)
        lake.append("b", came.slice(0, 3))
        gone = [i for i in range(edges.ROWS) if i % 5 == number]
        listed = ", ".join(map(str, gone))
        lake.sql(f"DELETE FROM a WHERE id IN ({listed})")
        kept = [i not in gone for i in held["a"].column("id").to_pylist()]
        held["a"] = pa.concat_tables([held["a"].filter(pa.array(kept)), came])
        held["b"] = pa.concat_tables([held["b"], came.slice(0, 3)])
        for name in edges.QUERIES:
            try:
                report = lake.refresh_stream_table(name)
                if report.effective_mode not in ("DIFFERENTIAL", "TOPK"):
                    wrong.append([path.__name__, name, report.effective_mode, report.reason])
            except spark_trickle.TrickleError as error:
                wrong.append([path.__name__, name, "error", str(error)[:500]])
        wrong += _check(lake, held, path.__name__)
    lake.compact()
    wrong += _check(lake, held, "compacted")
    json.dump(wrong, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
