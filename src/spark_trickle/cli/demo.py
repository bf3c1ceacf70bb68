"""The tour that ``make demo`` gives: a small lake, some DML, time travel and the change feed."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from rich.panel import Panel
from rich.syntax import Syntax

import spark_trickle
from spark_trickle.cli import output

_ORDERS = """CREATE TABLE orders (
  id BIGINT NOT NULL, customer STRING, amount DECIMAL(12,2), PRIMARY KEY (id))"""
_INSERT = """INSERT INTO orders VALUES
  (1, 'ada', 10.00), (2, 'bob', 5.00), (3, 'ada', 7.50), (4, 'cyd', 1.25)"""
_MERGE = """MERGE INTO orders AS o
USING (SELECT * FROM VALUES (2, 'bob', 6.00), (9, 'eve', 99.00) AS n(id, customer, amount)) AS n
ON o.id = n.id
WHEN MATCHED THEN UPDATE SET amount = n.amount
WHEN NOT MATCHED THEN INSERT *"""


class Tour:
    """Shows a statement, runs it, shows its answer and how long it took."""

    def __init__(self, lake: spark_trickle.Lake) -> None:
        self.lake = lake

    def say(self, text: str) -> None:
        output.console.print()
        output.console.print(Panel(text, border_style="cyan", expand=False))

    def sql(self, text: str) -> None:
        output.console.print(Syntax(text, "sql", background_color="default", word_wrap=True))
        started = time.perf_counter()
        result: Any = self.lake.sql(text)
        output.answer(result, 20)
        seconds = time.perf_counter() - started
        output.console.print(f"version {self.lake.version}, {seconds * 1000:.0f} ms", style="dim")


def run(folder: Path | None) -> None:
    """The whole tour; leaves nothing behind unless a folder is given."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="trickle-demo-") as temporary:
        location = folder or Path(temporary) / "lake"
        output.console.print(f"a lake in {location}", style="dim")
        with spark_trickle.connect(location) as lake:
            _tour(Tour(lake))
    seconds = time.perf_counter() - started
    output.console.print(f"\n{seconds:.0f} seconds, Spark's start included", style="dim")


def _tour(tour: Tour) -> None:
    lake = tour.lake
    tour.say("1  Tables. DDL and small INSERTs are catalog work: no Spark is started for them.")
    tour.sql("DROP TABLE IF EXISTS orders")
    tour.sql(_ORDERS)
    tour.sql(_INSERT)
    first = lake.version
    tour.say("2  Queries are Spark SQL; a local Spark starts now, because one is needed.")
    tour.sql(
        "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer ORDER BY customer"
    )
    tour.say("3  UPDATE, DELETE and MERGE answer the number of rows they changed.")
    tour.sql("UPDATE orders SET amount = amount + 1 WHERE customer = 'ada'")
    tour.sql("DELETE FROM orders WHERE amount < 2")
    tour.sql(_MERGE)
    tour.say("4  Every commit is a version, and old versions can be read.")
    tour.sql(f"SELECT * FROM orders VERSION AS OF {first} ORDER BY id")
    tour.sql("SELECT * FROM orders ORDER BY id")
    _changes(tour, first)
    _transaction(tour)


def _changes(tour: Tour, before: int) -> None:
    lake = tour.lake
    tour.say("5  The change feed is net: +1 came, -1 went, an UPDATE is both.")
    summary = lake.change_summary("orders", before)
    output.console.print(
        f"lake.change_summary('orders', {before}): {summary.inserted} in, {summary.deleted} out, "
        f"insert-only: {summary.insert_only} (from metadata, no Spark)"
    )
    output.console.print(f"lake.changes('orders', {before}, {lake.version})")
    output.answer(lake.changes("orders", before, lake.version).orderBy("id", "__weight"), 20)


def _transaction(tour: Tour) -> None:
    lake = tour.lake
    tour.say("6  A transaction commits several tables together, or nothing.")
    tour.sql("CREATE TABLE IF NOT EXISTS audit (what STRING, orders BIGINT)")
    before = lake.version
    with lake.transaction() as tx:
        tx.sql("DELETE FROM orders WHERE customer = 'bob'")
        tx.sql("INSERT INTO audit SELECT 'after bob left', count(*) FROM orders")
    output.console.print(f"two tables, one commit: version {before} -> {lake.version}")
    tour.sql("SELECT * FROM audit")
