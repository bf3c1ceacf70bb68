"""The sieve drops no row that the filter keeps; DuckDB says which these are."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from random import Random

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot

from spark_trickle.maintain.gather.finding import may_pass
from spark_trickle.sql.dialects import TrickleSpark

JUDGED = [
    "i = 3",
    "i <> 3",
    "i < 3 AND i >= 1",
    "i IN (1, 4, 5)",
    "i BETWEEN 2 AND 4",
    "i < 2 OR i > 4",
    "i > j",
    "d >= CAST('2024-01-03' AS DATE)",
    "s = 'ab'",
    "s <> 'ab'",
    "s IN ('a', 'ab')",
    "s LIKE 'a%'",
    "s LIKE '%b'",
    "s LIKE '%b%'",
    "m > 2.5",
    "m = 3",
    "m >= i",
    "k > 5.0",
    "k <= 5.000",
    "(i = 1 OR s = 'b') AND d < CAST('2024-01-05' AS DATE)",
]
LEFT_ALONE = [
    "i < 2147483648.5",
    "k > 5",
    "k = 5.00000000000000000000000000000000001",
    "k >= j",
    "s NOT LIKE 'a%'",
    "s NOT IN ('a', 'ab')",
    "i NOT IN (1, 2)",
    "i NOT BETWEEN 2 AND 4",
    "NOT i = 3",
    "s LIKE 'a_'",
    "s LIKE '%a%b%'",
    "i + 1 = 3",
    "i IS NULL",
    "i = 3 OR i IS NULL",
    "f > 1.0",
    "s NOT LIKE '%b'",
    "i IS NOT DISTINCT FROM j",
]


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    chance = Random(5)

    def some(values: list[object]) -> list[object]:
        return [chance.choice([*values, None]) for _ in range(400)]

    return pa.table(
        {
            "i": pa.array(some([*range(6)]), pa.int32()),
            "j": pa.array(some([*range(6)]), pa.int64()),
            "d": pa.array(some([date(2024, 1, n) for n in range(1, 8)]), pa.date32()),
            "s": pa.array(some(["", "a", "ab", "b", "ba", "cab", "A"]), pa.string()),
            "m": pa.array(some([Decimal(f"{n}.50") for n in range(5)] + [Decimal("3.00")])).cast(
                pa.decimal128(10, 2)
            ),
            "k": pa.array(
                some([Decimal(f"4.{'9' * 30}"), Decimal(5), Decimal(f"5.{'0' * 29}1")])
            ).cast(pa.decimal128(38, 30)),
            "f": pa.array(some([0.5, 1.5, float("nan")]), pa.float64()),
        }
    )


def kept(rows: pa.Table, test: str) -> np.ndarray:
    numbered = rows.append_column("n", pa.array(range(rows.num_rows)))
    with duckdb.connect() as connection:
        connection.register("rows", numbered)
        found = connection.execute(f"SELECT n FROM rows WHERE {test}").fetchall()
    mask = np.zeros(rows.num_rows, dtype=bool)
    mask[[n for (n,) in found]] = True
    return mask


@pytest.mark.parametrize("test", JUDGED)
def test_what_is_judged_is_judged_right(rows: pa.Table, test: str) -> None:
    passed = may_pass(rows, [sqlglot.parse_one(test, read=TrickleSpark)])
    assert passed is not None
    assert (passed == kept(rows, test)).all()
    assert 0 < passed.sum() < rows.num_rows


@pytest.mark.parametrize("test", LEFT_ALONE)
def test_what_cannot_be_judged_drops_nothing(rows: pa.Table, test: str) -> None:
    passed = may_pass(rows, [sqlglot.parse_one(test, read=TrickleSpark)])
    assert passed is None
    both = may_pass(rows, [sqlglot.parse_one(f"({test}) AND i = 3", read=TrickleSpark)])
    assert both is not None
    assert not (kept(rows, f"({test}) AND i = 3") & ~both).any()
