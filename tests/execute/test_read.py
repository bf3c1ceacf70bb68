"""One entry for all statements: which kind a text is, in each dialect."""

from __future__ import annotations

import pytest

from spark_trickle.errors import ParseError
from spark_trickle.statements import control, parse, stream
from spark_trickle.statements.conditions import conditions_by_place
from spark_trickle.statements.read import ForeignQuery, PostgresStatement, read_statement

BOTH = [
    ("/* x */ begin", control.Begin()),
    ("START TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", control.Begin("READ COMMITTED")),
    ("BEGIN WORK ISOLATION LEVEL SERIALIZABLE", control.Begin("SERIALIZABLE")),
    ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", control.SetTransaction("REPEATABLE READ")),
    ("END TRANSACTION;", control.End(commit=True)),
    ("ABORT", control.End(commit=False)),
    ("ROLLBACK WORK TO SAVEPOINT Here", control.RollbackTo("here")),
    ("savepoint s", control.Savepoint("s")),
    ("RELEASE s", control.Release("s")),
    ("REFRESH STREAM TABLE t FULL", stream.RefreshStreamTable(("t",), full=True)),
    ("SHOW STREAM TABLES", stream.ShowStreamTables()),
    ("-- which?\n SHOW SCHEMAS", parse.ShowSchemas()),
]
KINDS = [
    ("SELECT 1", parse.Query, PostgresStatement),
    ("DELETE FROM t WHERE k = 1", parse.Delete, PostgresStatement),
    ("DROP TABLE t", parse.DropTable, PostgresStatement),
    ("DESCRIBE t", parse.Describe, parse.Describe),
    ("SELECT pgtrickle.refresh_stream_table('t')", ForeignQuery, ForeignQuery),
    ("SELECT 'pgivm.x' AS a", parse.Query, PostgresStatement),
]


@pytest.mark.parametrize(("sql", "expected"), BOTH)
def test_the_same_in_every_dialect(sql: str, expected: object) -> None:
    for dialect in ("spark", "postgres"):
        assert read_statement(sql, dialect) == expected


@pytest.mark.parametrize(("sql", "spark", "postgres"), KINDS)
def test_of_one_dialect(sql: str, spark: type, postgres: type) -> None:
    assert isinstance(read_statement(sql), spark)
    assert isinstance(read_statement(sql, "postgres"), postgres)


def test_what_only_reads() -> None:
    for sql, reads in (
        ("WITH x AS (DELETE FROM t RETURNING k) SELECT * FROM x", False),
        ("VALUES (1)", True),
        ("INSERT INTO t VALUES (1)", False),
    ):
        statement = read_statement(sql, "postgres")
        assert isinstance(statement, PostgresStatement)
        assert statement.reads is reads


@pytest.mark.parametrize(
    ("sql", "dialect"),
    [
        ("", "spark"),
        ("BEGIN ISOLATION LEVEL NONE", "spark"),
        ("COMMIT now", "postgres"),
        ("SAVEPOINT", "spark"),
        ("FROBNICATE t", "spark"),
        ("SELECT 1; SELECT 2", "postgres"),
        ("SELECT 1", "oracle"),
    ],
)
def test_what_is_no_statement(sql: str, dialect: str) -> None:
    with pytest.raises(ParseError):
        read_statement(sql, dialect)


def test_a_filter_after_a_step_leaves_no_files_out() -> None:
    assert conditions_by_place("SELECT x FROM t WHERE g > 1").keys() == {14}
    assert conditions_by_place("SELECT x AS g FROM t |> WHERE g > 1") == {}
    assert conditions_by_place("FROM t |> ORDER BY g |> LIMIT 3 |> WHERE g > 1") == {}
