"""What IMMEDIATE stream tables cost the statements that they follow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.figures import Figure, console, side_by_side
from spark_trickle import Lake, connect
from spark_trickle.spark.sessions.session import start_session
from spark_trickle.tpch import data, queries

SINGLE = 200
FEW = 20


def run(folder: Path, repeat: int) -> list[Figure]:
    """Statements with and without followers, in turns within one run; the best of each counts."""
    spark = start_session("UTC", {"spark.driver.memory": "2g"})
    console.print("what IMMEDIATE costs …")
    with connect(folder / "immediate", spark=spark) as lake:
        figures = [*_folded(lake, repeat), *_unfollowed(lake, folder, repeat)]
        return [*figures, *_many_in_one(lake, repeat), *_bulk(lake, folder, repeat)]


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


def _unfollowed(lake: Lake, folder: Path, repeat: int) -> list[Figure]:
    """A table that nothing follows, beside eleven stream tables over others, and in a lake of its own."""
    with connect(folder / "alone", spark=lake.spark) as other:
        other.sql("CREATE TABLE bare (k INT, v INT)")

        def write(place: Lake) -> None:
            for i in range(FEW):
                place.sql(f"INSERT INTO bare VALUES ({i % 3}, {i})")

        name = "single-row INSERT that nothing follows, beside 11 IMMEDIATE tables, to without them"
        return [_compared(name, 1.2, repeat, partial(write, lake), partial(write, other))]


def _bulk(lake: Lake, folder: Path, repeat: int) -> list[Figure]:
    """Lineitems of scale factor 1 into a lake with a follower, and into one without."""
    source = data.generate(1.0)
    lines = _lines(source)
    figures = []
    with (
        connect(folder / "plain", spark=lake.spark) as plain,
        connect(folder / "followed", spark=lake.spark) as followed,
    ):
        for place in (plain, followed):
            data.load(place, source)
        for number, bar in ((1, 2.0), (3, 3.0)):
            name = queries.name(number)
            followed.create_stream_table(name, queries.text(number), refresh_mode="IMMEDIATE")
            figures.append(
                _compared(
                    f"INSERT of {lines.num_rows} lineitems (SF 1) with an IMMEDIATE {name} to without",
                    bar,
                    repeat,
                    partial(followed.append, "lineitem", lines),
                    partial(plain.append, "lineitem", lines),
                )
            )
            followed.drop_stream_table(name)
    return figures


def _lines(source: Path) -> pa.Table:
    """The lines of every hundredth order, once more: they meet orders and customers everywhere."""
    lines = pq.read_table(source / "lineitem.parquet", schema=_plain(source))
    key = lines.column("l_orderkey").to_numpy() - 1
    number = key // 32 * 8 + key % 32  # of 32 keys, TPC-H uses the first eight
    return lines.filter(pa.array(number % 100 == 0)).combine_chunks()


def _plain(source: Path) -> pa.Schema:
    """With texts that Arrow has filters for."""
    fields = pq.read_schema(source / "lineitem.parquet")
    views = pa.string_view()
    return pa.schema([f.with_type(pa.string()) if f.type == views else f for f in fields])
