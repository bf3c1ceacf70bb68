"""Hidden arithmetic is never narrower than Spark's own: sums and averages at the ends of their types.

Expected values are computed here in whole numbers and fractions, or by Spark over the same rows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import ROUND_HALF_UP, Context, Decimal

import pytest

from spark_trickle import Lake
from spark_trickle.errors import ExecutionError
from support.streams import refreshed, rows

pytestmark = pytest.mark.spark

LOW, HIGH = -(2**63), 2**63 - 1


@contextmanager
def ansi(lake: Lake, on: bool) -> Iterator[None]:
    """ANSI mode as asked, and as it was afterwards."""
    before = lake.spark.conf.get("spark.sql.ansi.enabled")
    lake.spark.conf.set("spark.sql.ansi.enabled", str(on).lower())
    try:
        yield
    finally:
        lake.spark.conf.set("spark.sql.ansi.enabled", before)


def values(column: list[object]) -> str:
    return ", ".join(f"(1, {value})" for value in column)


def bits(value: object) -> object:
    return struct.pack(">d", value) if isinstance(value, float) else value


STEPS = [
    ([HIGH, 5], []),
    ([LOW, HIGH], [HIGH]),  # what the delta takes away and adds passes both ends
    ([HIGH, HIGH], []),
    ([-1], [HIGH]),
]
"""Rows inserted and values deleted, in one commit each; the sum of what is left fits or not."""


@pytest.mark.parametrize("on", [True, False], ids=["ansi", "legacy"])
def test_sums_and_averages_of_bigint_at_its_ends(lake: Lake, on: bool) -> None:
    with ansi(lake, on):
        lake.sql("CREATE TABLE t (g INT, b BIGINT)")
        lake.sql("INSERT INTO t VALUES (1, 1), (2, -9223372036854775808)")
        lake.create_stream_table(
            "s", "SELECT g, sum(b) AS s FROM t GROUP BY g", refresh_mode="DIFFERENTIAL"
        )
        lake.create_stream_table(
            "a", "SELECT avg(b) AS a, count(b) AS n FROM t", refresh_mode="DIFFERENTIAL"
        )
        left, failed = [1], 0
        for added, removed in STEPS:
            with lake.transaction() as tx:
                for value in removed:
                    tx.sql(f"DELETE FROM t WHERE g = 1 AND b = {value}")
                    left = [v for v in left if v != value]
                if added:
                    tx.sql(f"INSERT INTO t VALUES {values(added)}")
                    left += added
            total = sum(left)
            wrapped = (total - LOW) % 2**64 + LOW
            if total == wrapped or not on:
                lake.refresh_stream_table("s")
                assert rows(lake, "s") == [(1, wrapped), (2, LOW)]
            else:
                failed += 1
                with pytest.raises(ExecutionError, match="(?i)overflow"):
                    lake.refresh_stream_table("s")
            lake.refresh_stream_table("a")
            whole = [*left, LOW]
            # Each value as Spark has it, a double; the sum of these is exact here.
            average = float(sum(int(float(v)) for v in whole)) / len(whole)
            assert rows(lake, "a") == [(average, len(whole))]
        assert failed == (2 if on else 0), "some sums must not fit, or nothing was tested"


def test_averages_of_few_large_integers_are_sparks_to_the_bit(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (g INT, b BIGINT)")
    lake.sql("INSERT INTO t VALUES (0, 0)")
    query = "SELECT g, avg(b) AS a FROM t GROUP BY g"
    lake.create_stream_table("s", query, refresh_mode="DIFFERENTIAL")
    odd = 2**53 + 1
    groups = [[odd] * 3, [HIGH], [HIGH, LOW + 1], [odd, 2**60 + 7], [-odd, 5], [LOW, LOW], [7, 8]]
    text = ", ".join(f"({g}, {b})" for g, group in enumerate(groups, 1) for b in group)
    lake.sql(f"INSERT INTO t VALUES {text}")
    lake.refresh_stream_table("s")
    spark = {g: bits(a) for g, a in map(tuple, lake.sql(query).collect())}
    assert {g: bits(a) for g, a in rows(lake, "s")} == spark


@pytest.mark.parametrize("type", ["TINYINT", "BIGINT"])
def test_the_smallest_integer_is_summed_and_taken_away(lake: Lake, type: str) -> None:
    """-1 times the smallest integer is no integer of its type; as a key it is one like any other."""
    low = -(1 << {"TINYINT": 7, "BIGINT": 63}[type])
    lake.sql(f"CREATE TABLE t (k {type}, v {type})")
    lake.sql(f"INSERT INTO t VALUES ({low}, {low}), ({low}, 1), (1, 2)")
    for name, query in {
        "s": "SELECT k, sum(v) AS s, avg(v) AS a, min(v) AS l, count(*) AS n FROM t GROUP BY k",
        "j": "SELECT a.k, b.v FROM t a JOIN t b ON a.k = b.v",
    }.items():
        lake.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
    for statement in (
        f"DELETE FROM t WHERE v = {low}",
        f"INSERT INTO t VALUES (1, {low}), ({low}, {low})",
    ):
        lake.sql(statement)
        for name in "sj":
            refreshed(lake, name, "DIFFERENTIAL")
    assert rows(lake, "j") == [(low, low)] * 4 + [(1, 1)] * 2


DECIMALS = [
    (15, 2),
    (16, 10),
    (18, 2),
    (20, 4),
    (27, 5),
    (27, 16),
    (28, 4),
    (32, 4),
    (38, 2),
    (38, 20),
]
WIDE = Context(prec=200, rounding=ROUND_HALF_UP)


def test_averages_of_decimals_keep_every_digit(lake: Lake) -> None:
    columns = {f"d{p}_{s}": (p, s) for p, s in DECIMALS}
    types = ", ".join(f"{name} DECIMAL({p},{s})" for name, (p, s) in columns.items())
    lake.sql(f"CREATE TABLE t (g INT, {types})")
    calls = ", ".join(f"avg({c}) AS {c}_a, sum({c}) AS {c}_s" for c in columns)
    lake.create_stream_table(
        "s", f"SELECT g, {calls}, count(*) AS n FROM t GROUP BY g", refresh_mode="DIFFERENTIAL"
    )

    def row(digit: int) -> list[Decimal]:
        # As many digits as leave room for the four that an average has more.
        shown = [min(p, 34 if p > 34 else p) for p, _ in columns.values()]
        sign = -1 if digit < 0 else 1
        return [
            Decimal(sign * int(str(abs(digit)) * min(n, p))).scaleb(-s, WIDE)
            for n, (p, s) in zip(shown, columns.values(), strict=True)
        ]

    left: list[list[Decimal]] = []
    for added, removed in (([7, 1, 2], []), ([4, -3], []), ([5], [1]), ([-6, 8], [7, 4])):
        for digit in removed:
            lake.sql(f"DELETE FROM t WHERE d15_2 = {row(digit)[0]}")
            left.remove(row(digit))
        texts = ", ".join(f"(1, {', '.join(map(str, row(d)))})" for d in added)
        lake.sql(f"INSERT INTO t VALUES {texts}")
        left += [row(d) for d in added]
        lake.refresh_stream_table("s")
        ((_, *found, count),) = rows(lake, "s")
        assert count == len(left)
        for place, (p, s) in enumerate(columns.values()):
            total = Decimal(0)
            for line in left:
                total = WIDE.add(total, line[place])
            average = WIDE.divide(total, Decimal(count))
            digits = Decimal(1).scaleb(-min(38, s + 4))
            expected = (WIDE.quantize(average, digits), total)
            assert tuple(found[2 * place : 2 * place + 2]) == expected, (p, s)
    refreshed(lake, "s", "NO_DATA")


def test_literals_beyond_64_bits(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (g INT, b BIGINT, d DECIMAL(38,0))")
    lake.sql(f"INSERT INTO t VALUES (1, {LOW}, {10**38 - 1}), (2, {HIGH}, {1 - 10**38})")
    queries = {
        "a": "SELECT g FROM t WHERE b < 9223372036854775808 AND b > -9223372036854775809",
        "b": f"SELECT g, b + {2**63} AS z, {LOW} AS l FROM t WHERE b = {LOW}",
        "c": f"SELECT g, d FROM t WHERE d IN ({10**38 - 1}, {1 - 10**38}, 5)",
        "d": f"SELECT g, sum(g + {10**18}) AS s, sum({2**63} - b) AS m FROM t GROUP BY g",
        "e": f"SELECT d, count(*) AS n FROM t WHERE d BETWEEN {1 - 10**38} AND {10**30} GROUP BY d",
    }
    for name, query in queries.items():
        lake.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
    lake.sql(f"INSERT INTO t VALUES (3, {LOW}, {1 - 10**38}), (3, {HIGH}, 5), (4, NULL, NULL)")
    lake.sql("DELETE FROM t WHERE g = 2")
    for name in queries:
        refreshed(lake, name, "DIFFERENTIAL")
    assert rows(lake, "a")[:3] == [(1,), (3,), (3,)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT (SELECT count(*) FROM t) AS n", (3,)),
        (
            "SELECT (SELECT max(v) FROM t) + 1 AS m, (SELECT count(*) FROM u) AS n, 7 AS c",
            (31, 1, 7),
        ),
        ("SELECT (SELECT sum(v) FROM t WHERE v > 10) AS s FROM VALUES (1) x(a)", (50,)),
        ("SELECT (SELECT count(*) FROM t) AS n FROM u a CROSS JOIN u b", (3,)),
        ("SELECT EXISTS (SELECT 1 FROM t WHERE v = 30) AS e", (True,)),
        ("SELECT w, EXISTS (SELECT 1 FROM t WHERE v = 30) AS e FROM u", (1, True)),
        ("SELECT 1 AS one WHERE (SELECT count(*) FROM t) > 2", (1,)),
    ],
)
def test_a_value_without_from(lake: Lake, query: str, expected: tuple[object, ...]) -> None:
    lake.sql("CREATE TABLE t (v INT)")
    lake.sql("CREATE TABLE u (w INT)")
    lake.sql("INSERT INTO t VALUES (10), (20)")
    lake.sql("INSERT INTO u VALUES (1)")
    lake.create_stream_table("s", query, refresh_mode="DIFFERENTIAL")
    lake.sql("INSERT INTO t VALUES (30)")
    refreshed(lake, "s", "DIFFERENTIAL")
    assert rows(lake, "s") == [expected]
    lake.sql("DELETE FROM t")
    refreshed(lake, "s", "DIFFERENTIAL")


def test_text_beside_numbers_without_ansi(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (s STRING, i INT)")
    lake.sql("INSERT INTO t VALUES ('x', 1), ('1', 2)")
    with ansi(lake, False):
        for name, query in {
            "u": "SELECT s FROM t UNION SELECT i FROM t",
            "a": "SELECT s FROM t UNION ALL SELECT i FROM t",
        }.items():
            lake.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
        lake.sql("INSERT INTO t VALUES ('y', 3)")
        lake.sql("DELETE FROM t WHERE s = 'x'")
        for name in "ua":
            refreshed(lake, name, "DIFFERENTIAL")
        assert rows(lake, "u") == [("1",), ("2",), ("3",), ("y",)]


@pytest.mark.parametrize("key", ["g", None])
def test_a_sum_of_38_digits_overflows_only_with_its_group(lake: Lake, key: str | None) -> None:
    """What comes and goes at once may pass 38 digits where the sum of the group does not."""
    lake.sql("CREATE TABLE t (g INT, d DECIMAL(38,0))")
    nine = 9 * 10**37
    lake.sql(f"INSERT INTO t VALUES (1, -{nine}), (1, 7)")
    query = f"SELECT {key}, sum(d) AS s FROM t GROUP BY g" if key else "SELECT sum(d) AS s FROM t"
    lake.create_stream_table("s", query, refresh_mode="DIFFERENTIAL")
    lake.sql("UPDATE t SET d = -d WHERE d < 0")
    refreshed(lake, "s", "DIFFERENTIAL")
    total = Decimal(nine + 7)
    assert rows(lake, "s") == [(1, total) if key else (total,)]
    lake.sql(f"INSERT INTO t VALUES (1, {nine})")
    with pytest.raises(ExecutionError, match="(?i)overflow|represented"):
        lake.refresh_stream_table("s")
    lake.sql(f"UPDATE t SET d = 1 WHERE d = {nine}")
    refreshed(lake, "s", "DIFFERENTIAL")
