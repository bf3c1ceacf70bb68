"""Rows for the changes: values as the specification distributes them, from a seeded generator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from spark_trickle.tpch.schema import SUPPLIER, TpchTable

SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
INSTRUCTIONS = ("COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN")
SHIP_MODES = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")
COLOURS = ("almond", "azure", "blush", "chiffon", "forest", "green", "ivory", "linen", "plum")
TYPES = (
    ("ECONOMY", "LARGE", "MEDIUM", "PROMO", "SMALL", "STANDARD"),
    ("ANODIZED", "BRUSHED", "BURNISHED", "PLATED", "POLISHED"),
    ("BRASS", "COPPER", "NICKEL", "STEEL", "TIN"),
)
CONTAINERS = (
    ("JUMBO", "LG", "MED", "SM", "WRAP"),
    ("BAG", "BOX", "CAN", "CASE", "DRUM", "JAR", "PACK", "PKG"),
)
WORDS = (
    *("accounts", "bold", "carefully", "deposits", "even", "final", "foxes", "furiously", "ideas"),
    *("ironic", "packages", "pending", "quickly", "regular", "requests", "sleep", "special"),
)
FIRST_DAY, LAST_DAY = date(1992, 1, 1), date(1998, 8, 2)
TODAY = date(1995, 6, 17)
"""The specification's current date: what was received by then may have been returned."""

Row = dict[str, Any]
_ARROW = {
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "STRING": pa.string(),
    "DATE": pa.date32(),
    "DECIMAL(15,2)": pa.decimal128(15, 2),
}


def arrow_table(table: TpchTable, rows: Sequence[Row]) -> pa.Table:
    schema = pa.schema([pa.field(name, _ARROW[type], False) for name, type in table.columns])
    return pa.Table.from_pylist(list(rows), schema=schema)


def order_key(index: int) -> int:
    """The key of the order at a place, counted from 1: eight keys are used of every 32."""
    return (index >> 3) << 5 | (index & 7)


def cents(amount: int) -> Decimal:
    return Decimal(amount).scaleb(-2)


def retail_price(part: int) -> int:
    """In cents."""
    return 90_000 + (part // 10) % 20_001 + 100 * (part % 1_000)


def supplier_of(part: int, which: int, scale: float) -> int:
    """The key of one of a part's four suppliers."""
    suppliers = max(4, SUPPLIER.rows(scale))
    step = suppliers // 4 + (part - 1) // suppliers
    return (part + which * step) % suppliers + 1


@dataclass(frozen=True)
class Maker:
    """Makes rows; the same generator state makes the same rows."""

    random: Random
    scale: float

    def text(self, words: int = 5) -> str:
        return " ".join(self.random.choice(WORDS) for _ in range(words))

    def phone(self, nation: int) -> str:
        number = self.random.randint
        return f"{nation + 10}-{number(100, 999)}-{number(100, 999)}-{number(1000, 9999)}"

    def supplier(self, key: int) -> Row:
        nation = self.random.randrange(25)
        complaint = self.random.random() < 0.1
        return {
            "s_suppkey": key,
            "s_name": f"Supplier#{key:09d}",
            "s_address": self.text(2),
            "s_nationkey": nation,
            "s_phone": self.phone(nation),
            "s_acctbal": cents(self.random.randint(-99_999, 999_999)),
            "s_comment": "Customer sly Complaints" if complaint else self.text(),
        }

    def customer(self, key: int) -> Row:
        nation = self.random.randrange(25)
        return {
            "c_custkey": key,
            "c_name": f"Customer#{key:09d}",
            "c_address": self.text(2),
            "c_nationkey": nation,
            "c_phone": self.phone(nation),
            "c_acctbal": cents(self.random.randint(-99_999, 999_999)),
            "c_mktsegment": self.random.choice(SEGMENTS),
            "c_comment": self.text(),
        }

    def part(self, key: int) -> Row:
        maker = self.random.randint(1, 5)
        return {
            "p_partkey": key,
            "p_name": " ".join(self.random.sample(COLOURS, 5)),
            "p_mfgr": f"Manufacturer#{maker}",
            "p_brand": f"Brand#{maker}{self.random.randint(1, 5)}",
            "p_type": " ".join(self.random.choice(words) for words in TYPES),
            "p_size": self.random.randint(1, 50),
            "p_container": " ".join(self.random.choice(words) for words in CONTAINERS),
            "p_retailprice": cents(retail_price(key)),
            "p_comment": self.text(2),
        }

    def partsupps(self, part: int) -> Iterable[Row]:
        for which in range(4):
            yield {
                "ps_partkey": part,
                "ps_suppkey": supplier_of(part, which, self.scale),
                "ps_availqty": self.random.randint(1, 9_999),
                "ps_supplycost": cents(self.random.randint(100, 100_000)),
                "ps_comment": self.text(10),
            }

    def order(self, index: int, customer: int, parts: Sequence[int]) -> tuple[Row, list[Row]]:
        """An order and its lines."""
        return self._order(index, customer, parts, range(1, 51), self.random.randint(1, 7))

    def large_order(self, index: int, customer: int, parts: Sequence[int]) -> tuple[Row, list[Row]]:
        """An order of more than 300 pieces, which q18 looks for."""
        return self._order(index, customer, parts, range(45, 51), 7)

    def air_order(self, index: int, customer: int, parts: Sequence[int]) -> tuple[Row, list[Row]]:
        """Few pieces, by air, handed over in person, which q19 looks for."""
        order, lines = self._order(index, customer, parts, range(1, 30), 3)
        by_air = {"l_shipmode": "AIR", "l_shipinstruct": "DELIVER IN PERSON"}
        return order, [line | by_air for line in lines]

    def _order(
        self, index: int, customer: int, parts: Sequence[int], quantities: range, count: int
    ) -> tuple[Row, list[Row]]:
        key = order_key(index)
        day = FIRST_DAY + timedelta(days=self.random.randint(0, (LAST_DAY - FIRST_DAY).days))
        lines = [
            self._line(key, day, self.random.choice(parts), self.random.choice(quantities))
            | {"l_linenumber": number}
            for number in range(1, count + 1)
        ]
        open_lines = sum(line["l_linestatus"] == "O" for line in lines)
        total = sum(
            line["l_extendedprice"] * (1 + line["l_tax"]) * (1 - line["l_discount"])
            for line in lines
        )
        clerks = max(1, int(1_000 * self.scale))
        order = {
            "o_orderkey": key,
            "o_custkey": customer,
            "o_orderstatus": "F" if open_lines == 0 else "O" if open_lines == count else "P",
            "o_totalprice": Decimal(total).quantize(Decimal("0.01")),
            "o_orderdate": day,
            "o_orderpriority": self.random.choice(PRIORITIES),
            "o_clerk": f"Clerk#{self.random.randint(1, clerks):09d}",
            "o_shippriority": 0,
            "o_comment": self.text(),
        }
        return order, lines

    def _line(self, order: int, day: date, part: int, quantity: int) -> Row:
        ship = day + timedelta(days=self.random.randint(1, 121))
        receipt = ship + timedelta(days=self.random.randint(1, 30))
        return {
            "l_orderkey": order,
            "l_partkey": part,
            "l_suppkey": supplier_of(part, self.random.randrange(4), self.scale),
            "l_quantity": cents(100 * quantity),
            "l_extendedprice": cents(quantity * retail_price(part)),
            "l_discount": cents(self.random.randint(0, 10)),
            "l_tax": cents(self.random.randint(0, 8)),
            "l_returnflag": self.random.choice("AR") if receipt <= TODAY else "N",
            "l_linestatus": "O" if ship > TODAY else "F",
            "l_shipdate": ship,
            "l_commitdate": day + timedelta(days=self.random.randint(30, 90)),
            "l_receiptdate": receipt,
            "l_shipinstruct": self.random.choice(INSTRUCTIONS),
            "l_shipmode": self.random.choice(SHIP_MODES),
            "l_comment": self.text(3),
        }
