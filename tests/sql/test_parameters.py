"""Parameters and scripts, without Spark: values go in as they are, faults are told with their place."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from spark_trickle import BindError, NotFoundError, ParseError, TrickleError, UserError
from spark_trickle.statements.text.parameters import bound
from spark_trickle.storage.read.reader import read_scan

COLUMNS = (
    "a INT, b BIGINT, c DECIMAL(20,4), d DOUBLE, s STRING, t DATE, m TIMESTAMP, x BINARY, f BOOLEAN"
)
TEXTS = [
    "",
    "'",
    "''; DROP TABLE v; --",
    'she said "hi"',
    "NULL",
    ":a ?",
    "two\nlines",
    "/* no comment */",
    "é✓",
    r"C:\new '${env:HOME}'",
]


def rows(lake, name: str = "v") -> list[tuple]:
    data = read_scan(lake._catalog.scan(name))
    return list(zip(*(column.to_pylist() for column in data.columns), strict=True))


def test_typed_values_go_in_as_they_are(dry_lake):
    dry_lake.sql(f"CREATE TABLE v ({COLUMNS})")
    full = (
        -(2**31),
        -(2**63),
        Decimal("-1234567890.5000"),
        -0.1,
        "it's",
        date(2024, 2, 29),
        datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC),
        b"\x00'\xff",
        False,
    )
    assert dry_lake.sql("INSERT INTO v VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", list(full)) == 1
    names = "abcdstmxf"
    marks = ", ".join(f":{name}" for name in names)
    moved = dict(zip(names, full, strict=True))
    moved["m"] = full[6].astimezone(timezone(timedelta(hours=-8)))
    dry_lake.sql(f"INSERT INTO v VALUES ({marks})", moved)
    dry_lake.sql(f"INSERT INTO v VALUES ({marks})", dict.fromkeys(names))
    assert rows(dry_lake) == [full, full, (None,) * 9]


@pytest.mark.parametrize("text", TEXTS)
def test_no_text_ends_its_literal(dry_lake, text):
    dry_lake.sql("CREATE TABLE v (s STRING)")
    dry_lake.sql("INSERT INTO v VALUES (:s)", {"s": text})
    assert rows(dry_lake) == [(text,)]


def test_markers_are_tokens():
    sql = "SELECT ':a', `b:a`, x::int, v:a, '?' /* :a ? */, CAST(y AS STRUCT<z:int, w: ARRAY<INT>>) -- :a"
    assert bound(sql, None).text == sql
    assert bound("SELECT :a<:b AND c -:a, x[:a]", {"a": -1, "b": 2}).text == (
        "SELECT (-1)<2 AND c -(-1), x[(-1)]"
    )


@pytest.mark.parametrize(
    ("sql", "args", "message", "place"),
    [
        ("DELETE FROM v\nWHERE s = :who", {"whom": 1}, "the parameter :who has no value", (2, 11)),
        ("DELETE FROM v WHERE s = :who", None, "the parameter :who has no value", (1, 25)),
        ("DELETE FROM v WHERE s = :who", ["x"], "the parameter :who has no value", (1, 25)),
        ("DELETE FROM v WHERE a = ? OR a = ?", [1], "the parameter ? has no value", (1, 34)),
        ("DELETE FROM v WHERE a = ?", {"a": 1}, "the parameter ? has no value", (1, 25)),
        ("DELETE FROM v WHERE a = ?", [object()], "a parameter cannot be a object", (1, 25)),
        ("DELETE FROM v WHERE a = ?", [10**40], "more than 38 digits", (1, 25)),
        ("DELETE FROM v WHERE a = ?", [Decimal("NaN")], "cannot be the decimal NaN", (1, 25)),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(dry_lake, sql, args, message, place):
    dry_lake.sql(f"CREATE TABLE v ({COLUMNS})")
    with pytest.raises(BindError, match="parameter|digits") as caught:
        dry_lake.sql(sql, args)
    assert message in caught.value.message
    position = caught.value.position
    assert (position.sql, position.line, position.column) == (sql, *place)


@pytest.mark.parametrize("args", [[1, 2], {"a": 1, "b": 2}, "x", 5])
def test_too_much_is_refused(dry_lake, args):
    dry_lake.sql("CREATE TABLE v (a INT)")
    marker = ":a" if isinstance(args, dict) else "?"
    with pytest.raises(UserError):
        dry_lake.sql(f"INSERT INTO v VALUES ({marker})", args)
    assert rows(dry_lake) == []


def test_later_faults_are_shown_in_the_users_text(dry_lake):
    sql = "INSERT INTO v VALUES (:long) nonsense"
    dry_lake.sql("CREATE TABLE v (a STRING)")
    with pytest.raises(ParseError) as caught:
        dry_lake.sql("UPDAET v SET a = :long", {"long": "x" * 50})
    assert caught.value.position.sql == "UPDAET v SET a = :long"
    with pytest.raises(TrickleError) as caught:
        dry_lake.sql("CREATE TABLE v2 (a INT DEFAULT :d) :e", {"d": 12345, "e": 1})
    assert caught.value.position.sql == "CREATE TABLE v2 (a INT DEFAULT :d) :e"
    assert caught.value.position.column == 36
    assert "nonsense" in sql


def test_a_script_runs_all_and_answers_the_last(dry_lake):
    answer = dry_lake.sql(
        """-- a script
        CREATE TABLE v (s STRING); INSERT INTO v VALUES ('a;b'), (?);
        INSERT INTO v VALUES (?);""",
        ["x", "y"],
    )
    assert answer == 1
    assert rows(dry_lake) == [("a;b",), ("x",), ("y",)]


def test_an_error_says_which_statement_it_was(dry_lake):
    script = "CREATE TABLE v (a INT);\nINSERT INTO v VALUES (:n);\nINSERT INTO w VALUES (1)"
    with pytest.raises(NotFoundError) as caught:
        dry_lake.sql(script, {"n": 1234567})
    assert caught.value.message.startswith("statement 3 of 3: ")
    assert caught.value.position.line == 3
    assert caught.value.position.sql == script
    assert rows(dry_lake) == [(1234567,)], "what came before is committed"


def test_in_a_transaction_a_script_is_all_or_nothing(dry_lake):
    dry_lake.sql("CREATE TABLE v (a INT)")
    with dry_lake.transaction() as tx:
        assert tx.sql("INSERT INTO v VALUES (?); INSERT INTO v VALUES (?), (3)", [1, 2]) == 2
    with pytest.raises(NotFoundError, match="statement 2 of 2"), dry_lake.transaction() as tx:
        tx.sql("INSERT INTO v VALUES (9); DROP TABLE nothing")
    assert rows(dry_lake) == [(1,), (2,), (3,)]
