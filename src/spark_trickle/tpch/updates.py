"""The UPDATE statements of RF3 and RF4, and the scripts for nation and region.

They move rows across what the queries test: dates, discounts, quantities, segments, brands, and
the columns they join by. Expressions keep values within the specification's ranges, so that any
number of cycles can follow each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from spark_trickle.tpch.values import PRIORITIES, SEGMENTS

_PHONE_CODES = ("13", "31", "23", "29", "30", "18", "17")
"""The country codes that q22 asks for."""
_NATIONS = 26
"""One more than there are at first: rows wait for the nation that comes and goes."""
_WANTED_NATIONS = (25, 3, 2, 20, 7, 6)
"""The one that comes and goes, CANADA, BRAZIL, SAUDI ARABIA, GERMANY, FRANCE."""
_WANTED_PARTS = (
    "p_brand = 'Brand#12', p_container = 'SM BOX', p_type = 'PROMO PLATED STEEL', p_size = 3",
    "p_brand = 'Brand#23', p_container = 'MED BOX', p_type = 'ECONOMY ANODIZED STEEL', p_size = 5",
    "p_brand = 'Brand#34', p_container = 'LG BOX', p_type = 'LARGE POLISHED BRASS', p_size = 15",
)


def _update(table: str, assignments: str, column: str, keys: Sequence[int]) -> list[str]:
    if not keys:
        return []
    listed = ", ".join(str(key) for key in keys)
    return [f"UPDATE {table} SET {assignments} WHERE {column} IN ({listed})"]


def _halves(keys: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    """Every other key, so that both halves are scattered."""
    return keys[::2], keys[1::2]


def _days(column: str, days: int) -> str:
    # DuckDB makes a timestamp of date plus interval, Spark a date.
    return f"{column} = CAST({column} + INTERVAL '{days}' DAY AS DATE)"


def lineitem(random: Random, orders: Sequence[int], suppliers: int, parts: int) -> list[str]:
    """The first line of each order: half get other prices, the rest other dates or suppliers."""
    priced, others = _halves(orders)
    shifted, moved = _halves(others)
    price = random.randint(1, 99_999)
    days = random.randint(1, 60)
    first_line = "l_linenumber = 1 AND l_orderkey"
    return [
        *_update(
            "lineitem",
            "l_quantity = 51 - l_quantity, l_discount = 0.10 - l_discount, "
            f"l_extendedprice = l_extendedprice % 90000 + {price // 100}.{price % 100:02d}",
            first_line,
            priced,
        ),
        *_update(
            "lineitem",
            f"{_days('l_shipdate', days)}, {_days('l_receiptdate', days + 5)}, "
            f"{_days('l_commitdate', 30 - days)}",
            first_line,
            shifted,
        ),
        *_update(
            "lineitem",
            f"l_suppkey = (l_suppkey + {random.randrange(suppliers)}) % {suppliers} + 1, "
            f"l_returnflag = '{random.choice('AR')}', l_shipmode = 'MAIL', "
            f"l_partkey = (l_partkey + {random.randrange(parts)}) % {parts} + 1",
            first_line,
            moved,
        ),
    ]


def orders(random: Random, keys: Sequence[int], customers: int) -> list[str]:
    moved, delayed = _halves(keys)
    return [
        *_update(
            "orders",
            f"o_custkey = (o_custkey + {random.randrange(customers)}) % {customers} + 1, "
            f"o_orderpriority = '{random.choice(PRIORITIES)}'",
            "o_orderkey",
            moved,
        ),
        *_update(
            "orders",
            f"{_days('o_orderdate', random.choice((-90, -30, 30, 90)))}, o_orderstatus = 'F', "
            "o_totalprice = o_totalprice + 1000.00, o_comment = 'special foxes sleep requests'",
            "o_orderkey",
            delayed,
        ),
    ]


def customer(random: Random, keys: Sequence[int]) -> list[str]:
    courted, moved = _halves(keys)
    code = random.choice(_PHONE_CODES)
    return [
        *_update(
            "customer",
            f"c_mktsegment = '{random.choice(SEGMENTS)}', c_acctbal = c_acctbal + 250.00",
            "c_custkey",
            courted,
        ),
        *_update(
            "customer",
            f"c_nationkey = (c_nationkey + {random.randint(1, 24)}) % {_NATIONS}, "
            f"c_phone = '{code}-{random.randint(100, 999)}-555-0100'",
            "c_custkey",
            moved,
        ),
    ]


def part(cycle: int, resized: Sequence[int], wanted: Sequence[int]) -> list[str]:
    """Some get other sizes, some become what the queries look for."""
    return [
        *_update(
            "part",
            "p_size = p_size % 50 + 1, p_retailprice = p_retailprice % 2000 + 1.00",
            "p_partkey",
            resized,
        ),
        *_update(
            "part",
            f"p_name = 'forest green linen', {_WANTED_PARTS[cycle % 3]}",
            "p_partkey",
            wanted,
        ),
    ]


def partsupp(parts: Sequence[int]) -> list[str]:
    return _update(
        "partsupp",
        "ps_availqty = 10000 - ps_availqty, ps_supplycost = 1001.00 - ps_supplycost",
        "ps_partkey",
        parts,
    )


def supplier(cycle: int, keys: Sequence[int]) -> list[str]:
    moved, blamed = _halves(keys)
    nation_key = _WANTED_NATIONS[cycle % len(_WANTED_NATIONS)]
    return [
        *_update(
            "supplier",
            f"s_nationkey = {nation_key}, s_acctbal = s_acctbal + 1.00",
            "s_suppkey",
            moved,
        ),
        *_update("supplier", "s_comment = 'Customer bold Complaints'", "s_suppkey", blamed),
    ]


def nation(cycle: int) -> list[str]:
    """In turn: one takes another's name, one a region yet to come; a GERMANY comes, PERU goes; back."""
    match cycle % 3:
        case 1:
            return [
                "UPDATE nation SET n_name = 'BRAZIL' WHERE n_nationkey = 18",
                "UPDATE nation SET n_regionkey = 5 WHERE n_nationkey = 23",
            ]
        case 2:
            return [
                "INSERT INTO nation VALUES (25, 'GERMANY', 3, 'a second one')",
                "DELETE FROM nation WHERE n_name = 'PERU'",
            ]
        case _:
            return [
                "DELETE FROM nation WHERE n_nationkey = 25",
                "INSERT INTO nation VALUES (17, 'PERU', 1, 'back again')",
                "UPDATE nation SET n_name = 'CHINA' WHERE n_nationkey = 18",
                "UPDATE nation SET n_regionkey = 3 WHERE n_nationkey = 23",
            ]


def region(cycle: int) -> list[str]:
    """In turn: MIDDLE EAST becomes a second ASIA; a second EUROPE comes; and back."""
    match cycle % 3:
        case 1:
            return ["UPDATE region SET r_name = 'ASIA' WHERE r_regionkey = 4"]
        case 2:
            return ["INSERT INTO region VALUES (5, 'EUROPE', 'a second one')"]
        case _:
            return [
                "DELETE FROM region WHERE r_regionkey = 5",
                "UPDATE region SET r_name = 'MIDDLE EAST' WHERE r_regionkey = 4",
            ]
