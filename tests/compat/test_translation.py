"""What becomes of PostgreSQL's statements on the way to Spark, without Spark."""

from __future__ import annotations

import pytest
import sqlglot

from spark_trickle import TrickleError
from spark_trickle.sql.pg import types as t
from spark_trickle.sql.pg.queries import PgColumns
from spark_trickle.statements.dialect import to_spark
from spark_trickle.statements.parse import parse_statement

TABLES: dict[str, PgColumns] = {
    "t": [("id", t.INT4), ("n", t.numeric(8, 2)), ("s", t.TEXT), ("d", t.DATE)],
    "u": [("id", t.INT4), ("w", t.FLOAT8)],
}


def spark(sql: str) -> list[str]:
    return to_spark(sql, "postgres", lambda schema, name: None if schema else TABLES.get(name))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id + 1 AS b, b FROM t",
        "SELECT id AS b FROM t WHERE b > 1",
        "SELECT id FROM t FOR UPDATE",
        "SELECT count(*) OVER w FROM t WINDOW w AS (ORDER BY id)",
        "SELECT id FROM t TABLESAMPLE SYSTEM (10)",
        "SELECT id FROM ONLY t",
        "SELECT id FROM t ORDER BY id FETCH FIRST 2 ROWS WITH TIES",
        "SELECT string_agg(s, ',') FROM t",
        "SELECT array_agg(s) FROM t",
        "SELECT sum(id ORDER BY n) FROM t",
        "SELECT sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM t",
        "SELECT id FROM t WHERE s SIMILAR TO 'a'",
        "SELECT id FROM t WHERE s < 1",
        "SELECT n::text FROM (SELECT n / 3 AS n FROM t) AS q",
        "SELECT my_function(id) FROM t",
        "SELECT id FROM t UNION SELECT w FROM u",
        "WITH RECURSIVE r AS (SELECT 1) SELECT * FROM r",
        "INSERT INTO t (id, nothing) VALUES (1, 2)",
        "INSERT INTO t (id, n) VALUES (1)",
        "INSERT INTO t (id, n) SELECT id, w FROM u",
        "INSERT INTO t (id) VALUES ('x')",
        "INSERT INTO t (n) VALUES (1234567.89)",
        "UPDATE t SET (id, n) = (SELECT 1, 2)",
        "UPDATE t SET n = u.w FROM u",
        "CREATE TABLE c (id int CHECK (id > 0))",
        "CREATE TABLE c (id int REFERENCES t)",
        "CREATE TEMP TABLE c (id int)",
        "CREATE INDEX i ON t (id)",
        "CREATE TABLE c (j jsonb)",
        "ALTER TABLE t ALTER COLUMN id TYPE bigint",
        "VACUUM t",
        "COPY t FROM STDIN",
    ],
)
def test_refused(sql: str) -> None:
    with pytest.raises(TrickleError):
        spark(sql)


def test_values_are_cast_as_an_assignment_does() -> None:
    (text,) = spark(
        "INSERT INTO t VALUES (1, 2.345, 'it''s', '2024-01-31'), (-2, NULL, DEFAULT, NULL)"
    )
    assert text == (
        "INSERT INTO t (`id`, `n`, `s`, `d`) VALUES (1, 2.35, 'it\\'s', CAST('2024-01-31' AS DATE)), "
        "((-2), NULL, DEFAULT, NULL)"
    )
    (text,) = spark("UPDATE t SET n = n / 3 WHERE id / 2 = 1")
    assert "DIV" in text


def test_columns_have_the_names_that_postgresql_gives() -> None:
    (text,) = spark(
        "SELECT id, count(*), max(n)::int, 1 + 1, CASE WHEN true THEN 1 END FROM t GROUP BY 1"
    )
    names = [item.alias_or_name for item in sqlglot.parse_one(text, read="spark").selects]
    assert names == ["id", "count", "max", "?column?", "case"]


def test_statements_about_structure() -> None:
    for sql, expected in {
        "TRUNCATE t, u": ["TRUNCATE TABLE t", "TRUNCATE TABLE u"],
        "DROP TABLE IF EXISTS t, public.u": [
            "DROP TABLE IF EXISTS t",
            "DROP TABLE IF EXISTS main.u",
        ],
        "CREATE SCHEMA s": ["CREATE SCHEMA s"],
        "DROP SCHEMA s CASCADE": ["DROP SCHEMA s CASCADE"],
        "ALTER TABLE t DROP COLUMN n": ["ALTER TABLE t DROP COLUMN n"],
        "ALTER TABLE t RENAME COLUMN n TO m": ["ALTER TABLE t RENAME COLUMN n TO m"],
        "ALTER TABLE t RENAME TO v": ["ALTER TABLE t RENAME TO v"],
        "ALTER TABLE t ADD COLUMN x numeric": ["ALTER TABLE t ADD COLUMN `x` DECIMAL(38, 18)"],
        "CREATE TABLE c (id serial PRIMARY KEY, s varchar(3) DEFAULT 'a', a int[])": [
            "CREATE TABLE c (`id` INT NOT NULL, `s` VARCHAR(3) DEFAULT 'a', `a` ARRAY<INT>, "
            "PRIMARY KEY (`id`))"
        ],
        "DELETE FROM t USING u WHERE u.id = t.id": [
            "DELETE FROM t AS t WHERE EXISTS(SELECT 1 AS `?column?` FROM u WHERE (u.id = t.id))"
        ],
    }.items():
        assert spark(sql) == expected
        for text in expected:
            parse_statement(text)
