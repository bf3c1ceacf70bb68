"""VALUES lists of plain literals are read without Spark; everything else is left to it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from spark_trickle.statements.values import Literal, Misfit, read_literal, read_values, store


def values(sql: str, width: int) -> list[tuple[object, ...]] | None:
    rows = read_values(sql, 0, len(sql), width)
    return None if rows is None else [tuple(v.value for v in row) for row in rows]


def test_plain_rows():
    sql = "VALUES (1, -2.50, 'it''s', NULL, TRUE, DATE '2026-02-03'), (2, .5, \"b\", 1e3, false, null)"
    assert values(sql, 6) == [
        (1, Decimal("-2.50"), "it's", None, True, date(2026, 2, 3)),
        (2, Decimal("0.5"), "b", 1000.0, False, None),
    ]
    assert values("VALUES 1, 2", 1) == [(1,), (2,)]
    assert values("VALUES (CAST('2026-01-01' AS DATE))", 1) == [(date(2026, 1, 1),)]


@pytest.mark.parametrize(
    "sql",
    [
        "VALUES (1 + 1)",
        "VALUES (now())",
        "VALUES (1e400)",
        "VALUES (-1e400D)",
        "VALUES ('a\\n')",
        "VALUES (r'a')",
        "VALUES ('a' 'b')",
        "VALUES (1), (SELECT 2)",
        "VALUES (1, 2)",
        "VALUES (CAST('1' AS INT))",
        "VALUES (TIMESTAMP '2026-01-01 00:00:00+01:00')",
        "VALUES (DATE '2026-02-30')",
        "VALUES (array(1))",
        "VALUES (1L)",
        "VALUES (1) AS t(a)",
        "SELECT 1",
    ],
)
def test_the_rest_is_left_to_spark(sql):
    assert values(sql, 1) is None


@pytest.mark.parametrize(
    ("text", "type_text", "stored"),
    [
        ("5", "tinyint", 5),
        ("5", "decimal(4,2)", Decimal("5.00")),
        ("1.005", "decimal(4,2)", Decimal("1.01")),
        ("-1.005", "decimal(4,2)", Decimal("-1.01")),
        ("2", "double", 2.0),
        ("'x'", "string", "x"),
        ("NULL", "array<int>", None),
        (
            "TIMESTAMP '2026-06-01 12:00:00.5'",
            "timestamp_ntz",
            datetime(2026, 6, 1, 12, 0, 0, 500000),
        ),
        ("TIMESTAMP '2026-06-01'", "timestamp", datetime(2026, 6, 1, tzinfo=UTC)),
    ],
)
def test_stored_values(text, type_text, stored):
    literal = read_literal(text)
    assert literal is not None
    assert store(literal, type_text, "UTC") == (True, stored)


def test_time_zones():
    literal = Literal("timestamp", datetime(2026, 7, 1, 12), "")
    known, value = store(literal, "timestamp", "Europe/Berlin")
    assert known
    assert value == datetime(2026, 7, 1, 10, tzinfo=UTC)
    skipped = Literal("timestamp", datetime(2026, 3, 29, 2, 30), "")
    assert store(skipped, "timestamp", "Europe/Berlin") == (False, None)


@pytest.mark.parametrize(
    ("text", "type_text"),
    [("'1'", "int"), ("5", "string"), ("1.5", "int"), ("TRUE", "int"), ("1", "float")],
)
def test_conversions_are_left_to_spark(text, type_text):
    literal = read_literal(text)
    assert literal is not None
    assert store(literal, type_text, "UTC") == (False, None)


@pytest.mark.parametrize(
    ("text", "type_text"), [("128", "tinyint"), ("-32769", "smallint"), ("100", "decimal(4,2)")]
)
def test_values_out_of_range(text, type_text):
    literal = read_literal(text)
    assert literal is not None
    with pytest.raises(Misfit):
        store(literal, type_text, "UTC")


@pytest.mark.parametrize("sign", ["", "-"])
def test_no_digit_of_a_long_number_is_lost(sign):
    """Python's own arithmetic keeps 28 digits."""
    text = sign + "3" * 30 + "." + "7" * 8
    literal = read_literal(text)
    assert literal is not None
    assert store(literal, "decimal(38,8)", "UTC") == (True, Decimal(text))
