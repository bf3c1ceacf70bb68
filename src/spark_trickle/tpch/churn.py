"""Changes to the eight tables: refresh functions RF1 to RF4, each one transaction.

RF1 inserts orders with their lines at the end of the key range, RF2 deletes the oldest ones,
RF3 updates scattered orders, lines and customers, RF4 inserts, deletes and updates in the other
tables. A cycle's steps depend on the scale, the size, the seed and the cycle's number only, not
on what is in the tables, and their SQL means the same to Spark and to DuckDB: any engine that
holds the same data can follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pyarrow as pa

from spark_trickle.lake import Lake
from spark_trickle.tpch import updates
from spark_trickle.tpch.schema import (
    CUSTOMER,
    LINEITEM,
    NATION,
    ORDERS,
    PART,
    PARTSUPP,
    REGION,
    SUPPLIER,
    TpchTable,
)
from spark_trickle.tpch.values import Maker, Row, arrow_table, order_key


@dataclass(frozen=True)
class NewRows:
    """Rows that come."""

    table: str
    rows: pa.Table


@dataclass(frozen=True)
class ChurnStatement:
    """An UPDATE or DELETE."""

    table: str
    sql: str


ChurnStep = NewRows | ChurnStatement


@dataclass(frozen=True)
class Batch:
    """The steps of one refresh function: one transaction."""

    name: str
    steps: tuple[ChurnStep, ...]


@dataclass(frozen=True)
class Counts:
    """How many keys of a table a cycle inserts, deletes and updates."""

    inserts: int = 0
    deletes: int = 0
    updates: int = 0


@dataclass(frozen=True)
class Churn:
    """Changes of a given size.

    A cycle changes ``fraction`` of each table's rows: a quarter of them are inserts at the end of
    the key range, a quarter deletes at its start, half scattered updates. A table is left alone
    if the fraction of it is less than one row at scale 1 (nation and region, mostly); smaller
    scales then change at least one row.
    """

    scale: float
    fraction: float = 0.001
    seed: int = 1
    every_table: bool = False
    """Change nation and region too, however small the fraction."""
    ends_first: float = 0
    """So many cycles, before the others, have RF1 and RF2 only: half of the fraction comes, half of
    it goes."""

    def cycle(self, number: int) -> tuple[Batch, ...]:
        """The batches of a cycle, counted from 1; cycles build on each other."""
        batches = [("RF1", self._new_orders(number)), ("RF2", self._old_orders(number))]
        if number > self.ends_first:
            batches += [("RF3", self._updates(number)), ("RF4", self._other_tables(number))]
        return tuple(Batch(name, tuple(steps)) for name, steps in batches if steps)

    def counts(self, table: TpchTable, cycle: int) -> Counts:
        """How many keys the cycle changes; lines follow their orders, partsupps their parts."""
        at_scale_one = self.fraction * table.rows_at_one
        if at_scale_one < 1 and not self.every_table:
            return Counts()
        rows = max(1, round(self.fraction * table.rows(self.scale)))
        if cycle <= self.ends_first:
            half = max(1, rows // 2)
            return Counts(half, half) if table in (ORDERS, LINEITEM) else Counts()
        quarter = rows // 4
        if quarter > 0:
            return Counts(quarter, quarter, rows - 2 * quarter)
        # Too few for every kind at once: one kind after the other.
        return (Counts(rows), Counts(0, rows), Counts(0, 0, rows))[cycle % 3]

    def window(self, table: TpchTable, cycle: int) -> range:
        """The places of the keys that are there before the cycle, counted from 1."""
        past = [self.counts(table, earlier) for earlier in range(1, cycle)]
        first = 1 + sum(counts.deletes for counts in past)
        return range(first, table.rows(self.scale) + sum(counts.inserts for counts in past) + 1)

    def _random(self, cycle: int, function: str) -> Random:
        return Random(f"{self.seed}/{cycle}/{function}")

    def _new_orders(self, cycle: int) -> list[ChurnStep]:
        count = self.counts(ORDERS, cycle).inserts
        maker = Maker(self._random(cycle, "RF1"), self.scale)
        customers, parts = self.window(CUSTOMER, cycle), self.window(PART, cycle)
        first = self.window(ORDERS, cycle).stop
        orders: list[Row] = []
        lines: list[Row] = []
        for place in range(count):
            index, buyer = first + place, _buyer(maker.random, customers)
            if place % 50 == 0:
                order, its_lines = maker.large_order(index, buyer, parts)
            elif place % 50 == 1:
                order, its_lines = maker.air_order(index, buyer, self._parts(cycle)[1] or parts)
            else:
                order, its_lines = maker.order(index, buyer, parts)
            orders.append(order)
            lines += its_lines
        return [*_insert(ORDERS, orders), *_insert(LINEITEM, lines)]

    def _old_orders(self, cycle: int) -> list[ChurnStep]:
        window = self.window(ORDERS, cycle)
        count = self.counts(ORDERS, cycle).deletes
        if count == 0:
            return []
        first, last = order_key(window.start), order_key(window.start + count - 1)
        return [
            _delete(LINEITEM, "l_orderkey", first, last),
            _delete(ORDERS, "o_orderkey", first, last),
        ]

    def _updates(self, cycle: int) -> list[ChurnStep]:
        random = self._random(cycle, "RF3")
        places = self._after(ORDERS, cycle)
        orders = [order_key(p) for p in _some(random, places, self.counts(ORDERS, cycle).updates)]
        lines = [order_key(p) for p in _some(random, places, self.counts(LINEITEM, cycle).updates)]
        customers = _some(
            random, self.window(CUSTOMER, cycle), self.counts(CUSTOMER, cycle).updates
        )
        parts, suppliers = PART.rows(self.scale), SUPPLIER.rows(self.scale)
        return [
            *_statements(LINEITEM, updates.lineitem(random, lines, suppliers, parts)),
            *_statements(ORDERS, updates.orders(random, orders, CUSTOMER.rows(self.scale))),
            *_statements(CUSTOMER, updates.customer(random, customers)),
        ]

    def _other_tables(self, cycle: int) -> list[ChurnStep]:
        maker = Maker(self._random(cycle, "RF4"), self.scale)
        parts = self._new_keys(PART, cycle)
        steps = [
            *_insert(SUPPLIER, [maker.supplier(key) for key in self._new_keys(SUPPLIER, cycle)]),
            *_insert(CUSTOMER, [maker.customer(key) for key in self._new_keys(CUSTOMER, cycle)]),
            *_insert(PART, [maker.part(key) for key in parts]),
            *_insert(PARTSUPP, [row for key in parts for row in maker.partsupps(key)]),
            *self._old_keys(SUPPLIER, cycle, SUPPLIER, "s_suppkey"),
            *self._old_keys(CUSTOMER, cycle, CUSTOMER, "c_custkey"),
            *self._old_keys(PART, cycle, PART, "p_partkey"),
            *self._old_keys(PART, cycle, PARTSUPP, "ps_partkey"),
            *self._scattered(cycle, maker.random),
        ]
        if self.counts(NATION, cycle) != Counts():
            steps += _statements(NATION, updates.nation(cycle))
        if self.counts(REGION, cycle) != Counts():
            steps += _statements(REGION, updates.region(cycle))
        return steps

    def _scattered(self, cycle: int, random: Random) -> list[ChurnStep]:
        # All four rows of a part change.
        count = -(-self.counts(PARTSUPP, cycle).updates // 4)
        supplied = _some(random, self._after(PART, cycle), count)
        suppliers = _some(
            random, self._after(SUPPLIER, cycle), self.counts(SUPPLIER, cycle).updates
        )
        return [
            *_statements(PART, updates.part(cycle, *self._parts(cycle))),
            *_statements(PARTSUPP, updates.partsupp(supplied)),
            *_statements(SUPPLIER, updates.supplier(cycle, suppliers)),
        ]

    def _parts(self, cycle: int) -> tuple[list[int], list[int]]:
        """The parts to update: most of them anyhow, one in ten to what the queries look for."""
        count = self.counts(PART, cycle).updates
        chosen = _some(self._random(cycle, "parts"), self._after(PART, cycle), count)
        wanted = chosen[::10]
        return [key for key in chosen if key not in wanted], wanted

    def _after(self, table: TpchTable, cycle: int) -> range:
        """The places that are there once the cycle's inserts and deletes are done."""
        return self.window(table, cycle + 1)

    def _new_keys(self, table: TpchTable, cycle: int) -> range:
        first = self.window(table, cycle).stop
        return range(first, first + self.counts(table, cycle).inserts)

    def _old_keys(
        self, counted: TpchTable, cycle: int, table: TpchTable, column: str
    ) -> list[ChurnStep]:
        count = self.counts(counted, cycle).deletes
        first = self.window(counted, cycle).start
        return [_delete(table, column, first, first + count - 1)] if count else []


def _buyer(random: Random, customers: range) -> int:
    """A third of the customers never buy anything."""
    while True:
        key = random.choice(customers)
        if key % 3 != 0:
            return key


def _some(random: Random, places: range, count: int) -> list[int]:
    return sorted(random.sample(places, min(count, len(places))))


def _insert(table: TpchTable, rows: Sequence[Row]) -> list[ChurnStep]:
    return [NewRows(table.name, arrow_table(table, rows))] if rows else []


def _delete(table: TpchTable, column: str, first: int, last: int) -> ChurnStatement:
    return ChurnStatement(
        table.name, f"DELETE FROM {table.name} WHERE {column} BETWEEN {first} AND {last}"
    )


def _statements(table: TpchTable, texts: Sequence[str]) -> list[ChurnStep]:
    return [ChurnStatement(table.name, text) for text in texts]


def apply(lake: Lake, batch: Batch) -> dict[str, int]:
    """Do a batch in one transaction; the rows inserted, deleted and updated by table."""
    changed: dict[str, int] = {}
    with lake.transaction() as tx:
        for step in batch.steps:
            match step:
                case NewRows(table, rows):
                    count = tx.append(table, rows)
                case ChurnStatement(table, sql):
                    count = tx.sql(sql)
            changed[step.table] = changed.get(step.table, 0) + count
    return changed
