"""What IMMEDIATE stream tables cost the statements that they follow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

from bench.figures import Figure, console, side_by_side
from spark_trickle import Lake, connect
from spark_trickle.spark.sessions.session import start_session
from spark_trickle.tpch import data, queries
from spark_trickle.tpch.churn import Churn, NewRows

SINGLE = 200
FEW = 20
LINES = 60_000


def run(folder: Path, repeat: int) -> list[Figure]:
    """Statements with and without followers, in turns within one run; the best of each counts."""
    spark = start_session("UTC", {"spark.driver.memory": "2g"})
    console.print("what IMMEDIATE costs …")
    with connect(folder / "immediate", spark=spark) as lake:
        figures = [*_folded(lake, repeat), *_many_in_one(lake, repeat)]
        return [*figures, *_bulk(lake, folder, max(2, repeat // 2))]


def _compared(
    name: str, bar: float, repeat: int, followed: Callable[[], object], plain: Callable[[], object]
) -> Figure:
    with_it, without = side_by_side(followed, plain, repeat)
    return Figure(name, with_it, without, with_it / without, bar)


def _folded(lake: Lake, repeat: int) -> list[Figure]:
    """Sums over one table fold at commit, without Spark."""
    for table, followers in (("bare", 0), ("one", 1), ("ten", 10)):
        lake.sql(f"CREATE TABLE {table} (k INT, v INT)")
        for number in range(followers):
            query = f"SELECT k, sum(v) AS s, count(*) AS n FROM {table} GROUP BY k"
            lake.create_stream_table(f"{table}_{number}", query, refresh_mode="IMMEDIATE")

    def write(table: str) -> None:
        for i in range(FEW):
            lake.sql(f"INSERT INTO {table} VALUES ({i % 3}, {i})")

    return [
        _compared(
            f"single-row INSERT with {name} FAST_PATH table(s) to without",
            bar,
            repeat,
            partial(write, name),
            partial(write, "bare"),
        )
        for name, bar in (("one", 2.0), ("ten", 5.0))
    ]


def _many_in_one(lake: Lake, repeat: int) -> list[Figure]:
    """Folded at commit, computed here, and by Spark: sums of DOUBLE depend on their order."""
    lake.sql("CREATE TABLE alone (k INT, v INT)")
    figures = []
    for name, type, value in (
        ("sum", "INT", "sum(v)"),
        ("max", "INT", "max(v)"),
        ("float sum", "DOUBLE", "sum(v)"),
    ):
        table = f"followed_by_{name.replace(' ', '_')}"
        lake.sql(f"CREATE TABLE {table} (k INT, v {type})")
        query = f"SELECT k, {value} AS s FROM {table} GROUP BY k"
        lake.create_stream_table(f"of_{table}", query, refresh_mode="IMMEDIATE")
        figures.append(
            _compared(
                f"{SINGLE} single-row INSERTs in one transaction, with an IMMEDIATE {name} to without",
                2.0,
                repeat,
                partial(_write_many, lake, table),
                partial(_write_many, lake, "alone"),
            )
        )
    return figures


def _write_many(lake: Lake, table: str) -> None:
    with lake.transaction() as tx:
        for i in range(SINGLE):
            tx.sql(f"INSERT INTO {table} VALUES ({i % 7}, {i})")


def _bulk(lake: Lake, folder: Path, repeat: int) -> list[Figure]:
    """60,000 lineitems of scale factor 1 into a lake with a follower, and into one without."""
    source = data.generate(1.0, Path(data.CACHE))
    lines = _lines()
    figures = []
    for number, bar in ((1, 2.0), (3, 3.0)):
        lakes = []
        for follows in (False, True):
            place = connect(folder / f"bulk_{number}_{follows}", spark=lake.spark)
            data.load(place, source)
            if follows:
                place.create_stream_table(
                    queries.name(number), queries.text(number), refresh_mode="IMMEDIATE"
                )
            lakes.append(place)
        plain, followed = lakes
        figures.append(
            _compared(
                f"INSERT of {LINES} lineitems (SF 1) with an IMMEDIATE {queries.name(number)} "
                "to without",
                bar,
                repeat,
                partial(followed.append, "lineitem", lines),
                partial(plain.append, "lineitem", lines),
            )
        )
        for place in lakes:
            place.close()
    return figures


def _lines() -> pa.Table:
    share = 2 * LINES / 6_000_000
    for batch in Churn(1.0, share, ends_only=True).cycle(1):
        for step in batch.steps:
            if isinstance(step, NewRows) and step.table == "lineitem":
                return step.rows
    raise AssertionError("no lines")
