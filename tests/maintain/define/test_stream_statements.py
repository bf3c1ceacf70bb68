"""The grammar of stream-table statements."""

from __future__ import annotations

import pytest

from spark_trickle.errors import ParseError
from spark_trickle.statements.stream import (
    AlterStreamTable,
    CreateStreamTable,
    DropStreamTable,
    ExplainStreamTable,
    RefreshStreamTable,
    ShowStreamTables,
    StreamStatement,
    parse,
)
from spark_trickle.statements.text.cursor import Cursor


def parsed(sql: str, dialect: str = "spark") -> StreamStatement | None:
    return parse(Cursor(sql, dialect))


STATEMENTS = [
    (
        "CREATE STREAM TABLE t AS SELECT 1",
        CreateStreamTable(("t",), "SELECT 1"),
    ),
    (
        "create or replace stream table a.`b.c` schedule '*/5 * * * *' "
        "refresh mode differential with no data as /* AS FROM */ select 'AS' -- x\n from t ;",
        CreateStreamTable(
            ("a", "b.c"),
            "select 'AS' -- x\n from t",
            or_replace=True,
            schedule="*/5 * * * *",
            refresh_mode="DIFFERENTIAL",
            initialize=False,
        ),
    ),
    (
        "EXPLAIN CREATE STREAM TABLE t SCHEDULE CALCULATED AS WITH c AS (SELECT 1) SELECT * FROM c",
        CreateStreamTable(
            ("t",), "WITH c AS (SELECT 1) SELECT * FROM c", schedule="CALCULATED", explain=True
        ),
    ),
    ("REFRESH STREAM TABLE t", RefreshStreamTable(("t",))),
    ("refresh stream table a.b full", RefreshStreamTable(("a", "b"), full=True)),
    ("DROP STREAM TABLE t", DropStreamTable(("t",))),
    (
        "DROP STREAM TABLE IF EXISTS t CASCADE",
        DropStreamTable(("t",), if_exists=True, cascade=True),
    ),
    ("SHOW STREAM TABLES", ShowStreamTables()),
    ("EXPLAIN STREAM TABLE `select`", ExplainStreamTable(("select",))),
    (
        "CREATE STREAM TABLE t SCHEDULE NULL AS SELECT 1",
        CreateStreamTable(("t",), "SELECT 1", schedule="UNSET"),
    ),
    (
        "ALTER STREAM TABLE t SET (schedule = NULL, refresh_mode = 'full')",
        AlterStreamTable(("t",), schedule="UNSET", refresh_mode="FULL"),
    ),
    (
        "ALTER STREAM TABLE t SET (schedule = CALCULATED)",
        AlterStreamTable(("t",), schedule="CALCULATED"),
    ),
    (
        "ALTER STREAM TABLE t SET (schedule = '5m', refresh_mode = 'full')",
        AlterStreamTable(("t",), schedule="5m", refresh_mode="FULL"),
    ),
    ("ALTER STREAM TABLE t SUSPEND", AlterStreamTable(("t",), status="SUSPENDED")),
    ("ALTER STREAM TABLE t RESUME", AlterStreamTable(("t",), status="ACTIVE")),
    ("ALTER STREAM TABLE t RENAME TO u", AlterStreamTable(("t",), rename_to=("u",))),
    ("ALTER STREAM TABLE t AS SELECT 2", AlterStreamTable(("t",), query="SELECT 2")),
]


@pytest.mark.parametrize(("sql", "expected"), STATEMENTS)
def test_statements(sql: str, expected: object) -> None:
    assert parsed(sql) == expected


POSTGRES = [
    (
        """CREATE STREAM TABLE "my view" AS SELECT "a b", 'it''s \\' FROM "odd.table";""",
        CreateStreamTable(("my view",), """SELECT "a b", 'it''s \\' FROM "odd.table\""""),
    ),
    (
        """create stream table if not exists Mart."a""b" schedule $$5m$$
           refresh mode full with no data as select $tag$ 'AS; $$ $tag$ as c, e'\\'' as d -- "x""",
        CreateStreamTable(
            ("Mart", 'a"b'),
            "select $tag$ 'AS; $$ $tag$ as c, e'\\'' as d",
            if_not_exists=True,
            schedule="5m",
            refresh_mode="FULL",
            initialize=False,
        ),
    ),
    ('REFRESH STREAM TABLE "select" FULL', RefreshStreamTable(("select",), full=True)),
    ('DROP STREAM TABLE IF EXISTS a."b.c"', DropStreamTable(("a", "b.c"), if_exists=True)),
    ('ALTER STREAM TABLE "t" RENAME TO "U"', AlterStreamTable(("t",), rename_to=("U",))),
    ("""ALTER STREAM TABLE "t" SET (schedule = '5m')""", AlterStreamTable(("t",), schedule="5m")),
    ('EXPLAIN STREAM TABLE "t"', ExplainStreamTable(("t",))),
]


@pytest.mark.parametrize(("sql", "expected"), POSTGRES)
def test_names_quoted_as_in_postgresql(sql: str, expected: object) -> None:
    assert parsed(sql, "postgres") == expected


def test_quotes_are_those_of_the_dialect() -> None:
    for sql, dialect in [
        ('CREATE STREAM TABLE "t" AS SELECT 1', "spark"),
        ("CREATE STREAM TABLE `t` AS SELECT 1", "postgres"),
    ]:
        with pytest.raises(ParseError, match="name is expected") as caught:
            parsed(sql, dialect)
        assert caught.value.position is not None
        assert caught.value.position.column == 21
    with pytest.raises(ParseError, match="never closed"):
        parsed('DROP STREAM TABLE "t', "postgres")
    assert parsed('"CREATE" STREAM TABLE t AS SELECT 1', "postgres") is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "CREATE TABLE stream (a INT)",
        "DROP TABLE t",
        "SELECT 'CREATE STREAM TABLE t AS SELECT 1'",
        "EXPLAIN SELECT 1",
        "",
    ],
)
def test_other_statements_are_left_alone(sql: str) -> None:
    assert parsed(sql) is None


@pytest.mark.parametrize(
    ("sql", "line", "column", "message"),
    [
        ("CREATE STREAM TABLE", 1, 19, "name is expected"),
        ("CREATE STREAM TABLE t\nSCHEDULE 30", 2, 10, "schedule"),
        ("CREATE STREAM TABLE t SCHEDULE r'5m' AS SELECT 1", 1, 32, "schedule"),
        ("CREATE STREAM TABLE t REFRESH MODE SOMETIMES AS SELECT 1", 1, 36, "SOMETIMES"),
        ("ALTER STREAM TABLE t SET (colour = 'red')", 1, 27, "colour"),
        ("DROP STREAM TABLE t NOW", 1, 21, "NOW"),
        ("REFRESH STREAM TABLE 'never closed", 1, 22, "never closed"),
    ],
)
def test_errors_point_at_the_fault(sql: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parsed(sql)
    assert caught.value.position is not None
    assert (caught.value.position.line, caught.value.position.column) == (line, column)
