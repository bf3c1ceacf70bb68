"""One changed row: what its refresh takes, beside a Spark query that does nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import track

from bench.figures import Figure, console, seconds
from spark_trickle import Lake, connect
from spark_trickle.spark.sessions.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 100_000
CHAIN, FAN, IDLE, MANY = 10, 20, 200, 1_000
_number = count(1_000_000)


def run(folder: Path, repeat: int) -> list[Figure]:
    """Each in turns with the trivial query; the best of each counts."""
    spark = start_session("UTC", {"spark.driver.memory": "2g"})
    console.print("one changed row …")
    figures = []
    for name, bar, make in (
        ("a one-table aggregate", 0.5, _one),
        ("a three-table join aggregate", 1.5, _three),
        (f"a chain of {CHAIN}", 5.0, _chain),
        (f"a fan of {FAN}", 8.0, _fan),
    ):
        with connect(folder / name.replace(" ", "_"), spark=spark) as lake:
            _tables(lake)
            make(lake)
            figures.append(_made_by(lake, name))
            figures.append(_figure(lake, f"one row changed, {name}", bar, repeat, _change))
    with connect(folder / "idle_200", spark=spark) as lake:
        _tables(lake)
        for n in range(IDLE):
            _made(
                lake, f"s{n}", f"SELECT customer, amount + {n} AS amount FROM orders WHERE id < 10"
            )
        figures.append(
            _figure(lake, f"refresh_all of {IDLE} idle stream tables", 5.0, repeat, lambda _: None)
        )
    return [*figures, _among_many(folder, spark, repeat)]


def _among_many(folder: Path, spark: SparkSession, repeat: int) -> Figure:
    """One of many stream tables has a changed row, beside the only one of a small lake."""
    with (
        connect(folder / "few", spark=spark) as few,
        connect(folder / "many", spark=spark) as many,
    ):
        for lake, others in ((few, 0), (many, MANY - 1)):
            _tables(lake)
            _one(lake)
            lake.sql("CREATE TABLE quiet (k BIGINT)")
            for n in track(range(others), f"{MANY} stream tables", console=console):
                _made(lake, f"s{n}", f"SELECT k + {n} AS k FROM quiet")
        best: dict[Lake, list[float]] = {few: [], many: []}
        for _ in range(repeat + 3):
            for lake, times in best.items():
                _change(lake)
                times.append(seconds(partial(lake.refresh_stream_table, "one")))
        ours, other = (min(best[lake][3:]) for lake in (many, few))
    name = f"one row changed, one of {MANY} stream tables to the only one of a lake"
    return Figure(name, ours, other, ours / other, 2.0)


def _figure(
    lake: Lake, name: str, bar: float, repeat: int, change: Callable[[Lake], None]
) -> Figure:
    ours, trivial = [], []
    for _ in range(repeat + 3):
        change(lake)
        ours.append(seconds(lambda: lake.refresh_all(errors="raise")))
        trivial.append(seconds(lambda: lake.spark.range(1).collect()))
    best, other = min(ours[3:]), min(trivial[3:])
    return Figure(f"{name} to a trivial Spark query", best, other, best / other, bar)


def _made_by(lake: Lake, what: str) -> Figure:
    """The Spark queries that the dearest of the new stream tables took."""
    most = max(report.spark_queries for report in lake.refresh_history())
    detail = f"{len(lake.stream_tables())} made"
    return Figure(f"making {what}: Spark queries", most, None, most, 1.0, "queries", detail)


def _tables(lake: Lake) -> None:
    lake.sql("CREATE TABLE orders (id BIGINT, customer BIGINT, amount DECIMAL(12,2))")
    lake.sql("CREATE TABLE customers (customer BIGINT, nation INT)")
    lake.sql("CREATE TABLE nations (nation INT, name STRING)")
    lake.sql(f"INSERT INTO orders SELECT id, id % 1000, id % 97 FROM range({ROWS})")
    lake.sql("INSERT INTO customers SELECT id, id % 25 FROM range(1000)")
    lake.sql("INSERT INTO nations SELECT id, concat('nation ', id) FROM range(25)")


def _change(lake: Lake) -> None:
    number = next(_number)
    lake.sql(f"INSERT INTO orders VALUES ({number}, {number % 1000}, 1.50)")


def _made(lake: Lake, name: str, query: str) -> None:
    lake.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")


def _one(lake: Lake) -> None:
    _made(
        lake,
        "one",
        "SELECT customer, sum(amount) AS s, count(*) AS n FROM orders GROUP BY customer",
    )


def _three(lake: Lake) -> None:
    _made(
        lake,
        "three",
        "SELECT name, sum(amount) AS s FROM orders JOIN customers USING (customer) "
        "JOIN nations USING (nation) GROUP BY name",
    )


def _chain(lake: Lake) -> None:
    _made(lake, "hop_0", "SELECT customer, sum(amount) AS v FROM orders GROUP BY customer")
    for hop in range(1, CHAIN):
        _made(lake, f"hop_{hop}", f"SELECT customer, v + 1 AS v FROM hop_{hop - 1}")


def _fan(lake: Lake) -> None:
    for n in range(FAN):
        _made(
            lake,
            f"fan_{n}",
            f"SELECT customer, sum(amount + {n}) AS s FROM orders GROUP BY customer",
        )
