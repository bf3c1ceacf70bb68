"""A table of 100,000 files in a lake of a million versions, beside its small twin.

The catalog is filled by script: ten files are real, the others are rows of the catalog alone. Nobody
may open one of those, so a plan that keeps a file too many fails instead of being slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from tests.support import growth, postgres
from tests.support.growth import COLUMNS, ROWS

from bench.figures import Figure, console, seconds
from spark_trickle import Lake, connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES, VERSIONS = 100_000, 1_000_000
REAL = 10
CUSTOMERS = 1_000
BAR = 2.0
_number = count(10**12)


def run(folder: Path, repeat: int) -> list[Figure]:
    """With both kinds of catalogs."""
    from spark_trickle.spark.sessions.session import start_session

    spark = start_session("UTC", {"spark.driver.memory": "2g"})
    figures = _figures(folder, spark, "SQLite", lambda name: str(folder / name), repeat)
    with _postgres() as new_database:
        if new_database is not None:
            figures += _figures(folder, spark, "PostgreSQL", lambda _: new_database(), repeat)
    return figures


@contextmanager
def _postgres() -> Iterator[Callable[[], str] | None]:
    """New databases on a server of our own, where there is one."""
    if postgres.binaries() is None:
        console.print("no PostgreSQL on this machine: its catalog is not measured")
        yield None
        return
    with postgres.server() as url:
        yield lambda: postgres.new_database(url)


def _figures(
    folder: Path, spark: SparkSession, kind: str, place: Callable[[str], str], repeat: int
) -> list[Figure]:
    console.print(f"growth, {kind} …")
    places = {}
    for name, files, versions in (("small", REAL, 10), ("large", FILES, VERSIONS)):
        where = (place(f"growth_{name}"), folder / f"growth_{kind}_{name}")
        with connect(where[0], data_path=where[1], spark=spark) as lake:
            make(lake)
            grow(lake, files, versions)
        places[name] = where

    def opened(name: str) -> Lake:
        return connect(places[name][0], data_path=places[name][1], spark=spark)

    first = {name: [seconds(partial(_first, opened, name)) for _ in range(3)] for name in places}
    with opened("small") as small, opened("large") as large:
        figures = [_figure("connect to first answer", kind, first["large"], first["small"], 0)]
        for title, before, work in _WORK:
            times: dict[Lake, list[float]] = {small: [], large: []}
            for _ in range(repeat + 3):
                for lake, own in times.items():
                    before(lake)
                    own.append(seconds(partial(work, lake)))
            figures.append(_figure(title, kind, times[large], times[small]))
        for lake in (small, large):
            _check(lake)
    return figures


def _figure(
    name: str, kind: str, large: list[float], small: list[float], warming: int = 3
) -> Figure:
    ours, other = min(large[warming:]), min(small[warming:])
    title = f"{FILES:,} files, {VERSIONS:,} versions, {kind}: {name}"
    return Figure(title, ours, other, ours / other, BAR)


def _first(opened: Callable[[str], Lake], name: str) -> None:
    with opened(name) as lake:
        _answer(lake)


def _key() -> int:
    """A key in a real file, another one each time."""
    return next(_number) * 7919 % (REAL * ROWS)


def _answer(lake: Lake) -> None:
    key = _key()
    assert lake.sql(f"SELECT id FROM facts WHERE id = {key}").collect() == [(key,)]


def _plan(lake: Lake) -> None:
    lake.sql(f"SELECT customer, amount FROM facts WHERE id = {_key()}")


def _nothing(lake: Lake) -> None:
    pass


def _insert(lake: Lake) -> None:
    number = next(_number)
    lake.sql(f"INSERT INTO facts VALUES ({number}, {number % CUSTOMERS}, 1.50, NULL, 'new')")


def _move(lake: Lake) -> None:
    lake.sql(f"UPDATE customers SET nation = nation + 1 WHERE customer = {_key() % CUSTOMERS}")


def _refresh(name: str) -> Callable[[Lake], None]:
    def refresh(lake: Lake) -> None:
        report = lake.refresh_stream_table(name)
        assert report.rows_inserted, report

    return refresh


_WORK: tuple[tuple[str, Callable[[Lake], None], Callable[[Lake], None]], ...] = (
    ("plan a look-up", _nothing, _plan),
    ("plan it after a commit", _insert, _plan),
    ("insert a row", _nothing, _insert),
    ("refresh an aggregate", _insert, _refresh("totals")),
    ("refresh a join", _insert, _refresh("joined")),
    ("refresh a join, its other side changed", _move, _refresh("joined")),
    ("update a row of a file", _nothing, lambda lake: _update(lake)),
)


def _update(lake: Lake) -> None:
    lake.sql(f"UPDATE facts SET amount = amount + 1 WHERE id = {_key()}")


def _check(lake: Lake) -> None:
    """What was measured gave the right answers."""
    for name in ("totals", "joined"):
        lake.refresh_stream_table(name)
    rows = lake.sql("SELECT sum(n) FROM totals").collect()[0][0]
    assert rows == lake.sql("SELECT count(*) FROM joined").collect()[0][0] > REAL * ROWS, rows


# How the lakes are made


def make(lake: Lake) -> None:
    """A table of real files, one beside it, and two stream tables over them."""
    lake.sql(f"CREATE TABLE facts ({COLUMNS}, PRIMARY KEY (id))")
    lake.sql("CREATE TABLE customers (customer BIGINT, nation INT)")
    lake.sql("CREATE TABLE other (k BIGINT)")
    everybody = [{"customer": i, "nation": i % 25} for i in range(CUSTOMERS)]
    lake.append("customers", pa.Table.from_pylist(everybody))
    for number in range(REAL):
        lake.append("facts", _rows(number))
    lake.create_stream_table(
        "totals",
        f"SELECT customer, sum(amount) AS s, count(*) AS n FROM facts WHERE customer < {CUSTOMERS} "
        "GROUP BY customer",
        refresh_mode="DIFFERENTIAL",
    )
    lake.create_stream_table(
        "joined",
        "SELECT id, amount, nation FROM facts JOIN customers USING (customer)",
        refresh_mode="DIFFERENTIAL",
    )


def _rows(number: int) -> pa.Table:
    ids = range(number * ROWS, (number + 1) * ROWS)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "customer": pa.array([i % CUSTOMERS for i in ids], pa.int64()),
            "amount": pa.array([Decimal(i % 97) for i in ids], pa.decimal128(12, 2)),
            "day": pa.array([date(2020, 1, 1 + i % 28) for i in ids]),
            "note": [f"note {i}" for i in ids],
        }
    )


def grow(lake: Lake, files: int, versions: int) -> None:
    """Add files and versions to the catalog; the stream tables have seen all of them.

    The files hold customers whom nobody knows, so that the stream tables are as they should be.
    """
    catalog = lake._catalog
    tables = (catalog.table("facts"), catalog.table("other"))
    newest = growth.grow(catalog, *tables, files - REAL, versions)
    with catalog.writing() as connection:
        connection.execute("UPDATE trickle_source SET version = ?", (newest,))
