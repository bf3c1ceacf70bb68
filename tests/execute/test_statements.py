"""The frames of statements are read right, and the user's text stays his."""

from __future__ import annotations

import pytest

from spark_trickle.errors import ParseError
from spark_trickle.statements import parse as ast
from spark_trickle.statements.parse import parse_statement
from spark_trickle.statements.text.names import find_tables
from spark_trickle.statements.text.splices import TextBuilder, splice_names


def spliced(sql: str, known: frozenset[str] | None = None) -> str:
    """``sql`` with every table name replaced by <name> (and its version)."""

    def replacement(reference) -> str | None:
        name = ".".join(reference.name.parts)
        if known is not None and name not in known:
            return None
        at = reference.version or reference.timestamp
        return f"<{name}@{at}>" if at else f"<{name}>"

    references = find_tables(sql)
    splices = splice_names(sql, references, replacement, (0, len(sql)))
    return TextBuilder(sql).user(0, len(sql), splices).build().text


NAMES = [
    ("SELECT * FROM orders", "SELECT * FROM <orders> AS `orders`"),
    ("SELECT * FROM orders o", "SELECT * FROM <orders> o"),
    ("SELECT * FROM orders AS o WHERE o.a = 1", "SELECT * FROM <orders> AS o WHERE o.a = 1"),
    ("SELECT main.orders.id FROM main.orders", "SELECT `orders`.id FROM <main.orders> AS `orders`"),
    (
        "SELECT a.t.id, b.t.id FROM a.t JOIN b.t ON a.t.id = b.t.id",
        "SELECT `a.t`.id, `b.t`.id FROM <a.t> AS `a.t` JOIN <b.t> AS `b.t` ON `a.t`.id = `b.t`.id",
    ),
    ("SELECT * FROM `we``ird name`", "SELECT * FROM <we`ird name> AS `we``ird name`"),
    ("SELECT * FROM t VERSION AS OF 3 x", "SELECT * FROM <t@3> x"),
    ("SELECT * FROM t VERSION AS OF 3", "SELECT * FROM <t@3> AS `t`"),
    ("SELECT * FROM t FOR VERSION AS OF '7' WHERE a", "SELECT * FROM <t@'7'> AS `t` WHERE a"),
    (
        "SELECT * FROM t TIMESTAMP AS OF TIMESTAMP '2026-01-01' u",
        "SELECT * FROM <t@TIMESTAMP '2026-01-01'> u",
    ),
    (
        "SELECT * FROM t TIMESTAMP AS OF date_sub(current_date(), 1)",
        "SELECT * FROM <t@date_sub(current_date(), 1)> AS `t`",
    ),
    ("WITH t AS (SELECT 1 a) SELECT * FROM t", "WITH t AS (SELECT 1 a) SELECT * FROM t"),
    (
        "WITH t AS (SELECT * FROM t) SELECT * FROM t, u",
        "WITH t AS (SELECT * FROM <t> AS `t`) SELECT * FROM t, <u> AS `u`",
    ),
    (
        "WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT * FROM r JOIN s) SELECT * FROM r",
        "WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT * FROM r JOIN <s> AS `s`) SELECT * FROM r",
    ),
    (
        "SELECT * FROM (WITH x AS (SELECT 1) SELECT * FROM x) a, x",
        "SELECT * FROM (WITH x AS (SELECT 1) SELECT * FROM x) a, <x> AS `x`",
    ),
    (
        "SELECT extract(YEAR FROM d), trim(BOTH 'x' FROM s), a IS DISTINCT FROM b FROM t",
        "SELECT extract(YEAR FROM d), trim(BOTH 'x' FROM s), a IS DISTINCT FROM b FROM <t> AS `t`",
    ),
    (
        "SELECT 'from a', \"from b\" -- from c\n /* from d /* from e */ */ FROM t",
        "SELECT 'from a', \"from b\" -- from c\n /* from d /* from e */ */ FROM <t> AS `t`",
    ),
    (
        "SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x = a.x)",
        "SELECT * FROM <a> AS `a` WHERE EXISTS (SELECT 1 FROM <b> AS `b` WHERE b.x = a.x)",
    ),
    (
        "SELECT * FROM (a JOIN b ON a.x = b.x) LEFT JOIN c USING (x)",
        "SELECT * FROM (<a> AS `a` JOIN <b> AS `b` ON a.x = b.x) LEFT JOIN <c> AS `c` USING (x)",
    ),
    (
        "SELECT * FROM t LATERAL VIEW explode(m) e AS k, v WHERE k > 1",
        "SELECT * FROM <t> AS `t` LATERAL VIEW explode(m) e AS k, v WHERE k > 1",
    ),
    (
        "SELECT * FROM range(10), t, LATERAL (SELECT * FROM u) l, VALUES (1), (2) AS w(a)",
        "SELECT * FROM range(10), <t> AS `t`, LATERAL (SELECT * FROM <u> AS `u`) l, "
        "VALUES (1), (2) AS w(a)",
    ),
    (
        "SELECT * FROM t TABLESAMPLE (5 ROWS) WHERE a",
        "SELECT * FROM <t> TABLESAMPLE (5 ROWS) AS `t` WHERE a",
    ),
    ("TABLE a UNION ALL TABLE b", "TABLE <a> UNION ALL TABLE <b>"),
    ("FROM t SELECT a", "FROM <t> AS `t` SELECT a"),
    ("FROM t |> JOIN u ON t.a = u.a", "FROM <t> AS `t` |> JOIN <u> AS `u` ON t.a = u.a"),
    ("SELECT s.from, `join` FROM s", "SELECT s.from, `join` FROM <s> AS `s`"),
    (
        "((SELECT * FROM a) UNION (SELECT * FROM b)) ORDER BY 1",
        "((SELECT * FROM <a> AS `a`) UNION (SELECT * FROM <b> AS `b`)) ORDER BY 1",
    ),
]


@pytest.mark.parametrize(("sql", "expected"), NAMES, ids=[sql[:50] for sql, _ in NAMES])
def test_table_names_are_spliced(sql, expected):
    assert spliced(sql) == expected


def test_names_that_are_not_ours_stay():
    assert spliced("SELECT * FROM a, b", frozenset({"b"})) == "SELECT * FROM a, <b> AS `b`"


def test_places_lead_back_to_the_users_text():
    sql = "SELECT x FROM a, b WHERE y"
    splices = splice_names(sql, find_tables(sql), lambda _: "view_of_it", (0, len(sql)))
    sent = TextBuilder(sql).own("/* ours */ ").user(0, len(sql), splices).build()
    assert sent.origin(sent.text.index("WHERE")) == sql.index("WHERE")
    assert sent.origin(sent.text.index("x FROM")) == sql.index("x FROM")
    assert sent.origin(sent.text.index("view_of_it")) is None
    assert sent.origin(0) is None


def test_create_table():
    statement = parse_statement(
        """CREATE TABLE IF NOT EXISTS `a b`.`sel``ect` (
             id BIGINT NOT NULL, m MAP<STRING, DECIMAL(10, 2)> COMMENT 'x',
             s STRUCT<a: INT NOT NULL, b: ARRAY<MAP<INT, INT>>>,
             d DECIMAL(3,2) DEFAULT -1.5 NOT NULL, `table` STRING DEFAULT concat('a', 'b'),
             CONSTRAINT k PRIMARY KEY (id, d)) CLUSTER BY (d);"""
    )
    assert isinstance(statement, ast.CreateTable)
    assert statement.name.parts == ("a b", "sel`ect")
    assert statement.if_not_exists
    assert [(c.name, c.type, c.nullable, c.default) for c in statement.columns] == [
        ("id", "BIGINT", False, None),
        ("m", "MAP<STRING, DECIMAL(10, 2)>", True, None),
        ("s", "STRUCT<a: INT NOT NULL, b: ARRAY<MAP<INT, INT>>>", True, None),
        ("d", "DECIMAL(3,2)", False, "-1.5"),
        ("table", "STRING", True, "concat('a', 'b')"),
    ]
    assert statement.primary_key == ("id", "d")
    assert statement.cluster_by == ("d",)


def test_merge():
    sql = """MERGE INTO t AS x USING (SELECT * FROM s) y ON x.id = y.id
      WHEN MATCHED AND CASE WHEN y.a = 1 THEN TRUE ELSE FALSE END THEN
        UPDATE SET a = CASE WHEN x.a = 1 THEN 2 ELSE y.a END, x.b = 2
      WHEN MATCHED THEN DELETE
      WHEN NOT MATCHED AND y.z THEN INSERT (a, b) VALUES (f(y.a, 2), y.b)
      WHEN NOT MATCHED BY TARGET THEN INSERT *
      WHEN NOT MATCHED BY SOURCE AND x.a > 0 THEN UPDATE SET a = 0
      WHEN NOT MATCHED BY SOURCE THEN DELETE"""
    statement = parse_statement(sql)
    assert isinstance(statement, ast.Merge)

    def text(span):
        return None if span is None else sql[span.start : span.end]

    assert (statement.alias, statement.source_alias) == ("x", "y")
    assert text(statement.source) == "(SELECT * FROM s)"
    assert text(statement.condition) == "x.id = y.id"
    assert [(c.when, text(c.condition), type(c.action).__name__) for c in statement.clauses] == [
        ("MATCHED", "CASE WHEN y.a = 1 THEN TRUE ELSE FALSE END", "MergeUpdate"),
        ("MATCHED", None, "MergeDelete"),
        ("NOT MATCHED", "y.z", "MergeInsert"),
        ("NOT MATCHED", None, "MergeInsert"),
        ("NOT MATCHED BY SOURCE", "x.a > 0", "MergeUpdate"),
        ("NOT MATCHED BY SOURCE", None, "MergeDelete"),
    ]
    first = statement.clauses[0].action
    assert isinstance(first, ast.MergeUpdate)
    assert first.assignments is not None
    assert [text(a.value) for a in first.assignments] == [
        "CASE WHEN x.a = 1 THEN 2 ELSE y.a END",
        "2",
    ]
    inserted = statement.clauses[2].action
    assert isinstance(inserted, ast.MergeInsert)
    assert [text(v) for v in inserted.values or ()] == ["f(y.a, 2)", "y.b"]


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT 1", ast.Query),
        ("WITH a AS (SELECT 1) SELECT * FROM a", ast.Query),
        ("(SELECT 1)", ast.Query),
        ("VALUES (1)", ast.Query),
        ("EXPLAIN FORMATTED SELECT 1", ast.Query),
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", ast.Insert),
        ("INSERT INTO TABLE t VALUES (1)", ast.Insert),
        ("INSERT INTO `table` VALUES (1)", ast.Insert),
        ("INSERT OVERWRITE t (SELECT 1)", ast.Insert),
        ("INSERT INTO t BY NAME SELECT 1 AS a", ast.Insert),
        ("UPDATE t SET a = 1", ast.Update),
        ("DELETE FROM t", ast.Delete),
        ("TRUNCATE TABLE t", ast.Truncate),
        ("CREATE DATABASE IF NOT EXISTS x", ast.CreateSchema),
        ("DROP SCHEMA x CASCADE", ast.DropSchema),
        ("DROP TABLE IF EXISTS a.b", ast.DropTable),
        ("ALTER TABLE t ADD COLUMN a INT DEFAULT 3", ast.AddColumns),
        ("ALTER TABLE t ADD COLUMNS (a INT, b STRING)", ast.AddColumns),
        ("ALTER TABLE t DROP COLUMN a", ast.DropColumns),
        ("ALTER TABLE t RENAME COLUMN a TO b", ast.RenameColumn),
        ("ALTER TABLE t RENAME TO u", ast.RenameTable),
        ("SHOW TABLES IN x", ast.ShowTables),
        ("SHOW SCHEMAS", ast.ShowSchemas),
        ("DESCRIBE TABLE t", ast.Describe),
    ],
)
def test_kinds(sql, kind):
    assert isinstance(parse_statement(sql), kind)


@pytest.mark.parametrize(
    ("sql", "message", "line", "column"),
    [
        ("", "no statement", 1, 1),
        ("GRANT ALL ON t TO u", "not known here", 1, 1),
        ("SELECT 'abc", "never closed", 1, 8),
        ("SELECT 1 /* x", "never closed", 1, 10),
        ("SELECT 1; SELECT 2", "more than one statement", 1, 9),
        ("CREATE TABLE t (\n  a INT,\n  b INT NOT NULL FOO)", "FOO", 3, 18),
        ("CREATE TABLE t USING delta", "USING", 1, 16),
        ("UPDATE t SET", "a column's name is expected", 1, 12),
        ("MERGE INTO t USING s ON a WHEN MATCHED THEN INSERT *", "UPDATE SET", 1, 45),
        ("DROP INDEX i", "TABLE or SCHEMA", 1, 6),
        ("INSERT INTO t (a, b VALUES (1, 2)", "')' is expected", 1, 21),
    ],
)
def test_faults_have_a_place(sql, message, line, column):
    with pytest.raises(ParseError) as caught:
        parse_statement(sql)
    assert message in caught.value.message
    assert caught.value.position is not None
    assert (caught.value.position.line, caught.value.position.column) == (line, column)
