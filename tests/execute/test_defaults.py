"""A default that no row could get is refused where it is written; ordinary ones need no Spark."""

from __future__ import annotations

import pytest

from spark_trickle import Lake
from spark_trickle.errors import BindError, InvalidDataError, ParseError, UserError

IMPOSSIBLE = [
    ("TINYINT DEFAULT 300", "300 does not fit column d of (t|u)"),
    ("DECIMAL(3,1) DEFAULT 100", "does not fit column d of (t|u)"),
    ("VARCHAR(2) DEFAULT 'xxx'", "longer than its type"),
    ("INT DEFAULT b", "reads column b"),
    ("INT DEFAULT a + 1", "reads column a"),
    ("INT DEFAULT d", "reads column d"),
    ("INT DEFAULT (SELECT max(a) FROM t)", "knows no table"),
    ("INT DEFAULT if(EXISTS (SELECT 1 FROM t), 1, 2)", "knows no table"),
]
"""What can be told without Spark."""
ASKED = [
    ("INT DEFAULT 'x'", "'x'"),
    ("DATE DEFAULT '2020-13-01'", "2020-13-01"),
    ("TINYINT DEFAULT 100 + 200", "300"),
    ("INT DEFAULT nothing", "nothing"),
    ("VARCHAR(2) DEFAULT concat('ab', 'c')", "longer than its type"),
    ("INT NOT NULL DEFAULT nullif(1, 1)", "is NULL, but the column is NOT NULL"),
]
POSSIBLE = [
    "INT DEFAULT NULL",
    "VARCHAR(2) DEFAULT 'xx   '",
    "FLOAT DEFAULT 1.5",
    "DOUBLE DEFAULT -1",
    "DATE DEFAULT '2020-01-01'",
    "TIMESTAMP DEFAULT '2020-01-01 00:00:00'",
    "TIMESTAMP DEFAULT current_timestamp()",
    "DATE DEFAULT current_date",
    "STRING DEFAULT uuid()",
]


def _refused(lake: Lake, definition: str, words: str) -> None:
    kind, _, default = definition.partition(" DEFAULT ")
    for statement in (
        f"CREATE TABLE u (a INT, b BIGINT, d {definition})",
        f"ALTER TABLE t ADD COLUMN d {definition}",
    ):
        with pytest.raises(InvalidDataError, match=words) as caught:
            lake.sql(statement)
        assert definition in str(caught.value), "the place is shown"
    if "NOT NULL" not in kind:
        lake.sql(f"CREATE TABLE v (a INT, b BIGINT, d {kind} DEFAULT NULL)")
        with pytest.raises(
            InvalidDataError, match=words.replace("(t|u)", "v").replace("no table", "")
        ):
            lake.sql(f"ALTER TABLE v ALTER COLUMN d SET DEFAULT {default}")
        lake.sql("DROP TABLE v")
    with pytest.raises(InvalidDataError, match=words):
        lake.create_table("u", f"a INT, b BIGINT, d {definition}")
    assert [table.name for table in lake.tables()] == ["t"]


@pytest.mark.parametrize(("definition", "words"), IMPOSSIBLE)
def test_what_no_row_could_get_is_refused(dry_lake: Lake, definition: str, words: str) -> None:
    dry_lake.sql("CREATE TABLE t (a INT, b BIGINT)")
    _refused(dry_lake, definition, words)


def test_null_for_a_column_that_is_not_null(dry_lake: Lake) -> None:
    for column in ("a INT NOT NULL DEFAULT NULL", "a INT DEFAULT NULL NOT NULL"):
        with pytest.raises(InvalidDataError, match="is NULL, but the column is NOT NULL"):
            dry_lake.sql(f"CREATE TABLE t ({column})")
    dry_lake.sql("CREATE TABLE t (a INT NOT NULL)")
    with pytest.raises(InvalidDataError, match="is NULL, but the column is NOT NULL"):
        dry_lake.sql("ALTER TABLE t ALTER COLUMN a SET DEFAULT NULL")


def test_a_text_of_no_length(dry_lake: Lake) -> None:
    dry_lake.sql("CREATE TABLE t (a VARCHAR(1))")
    for statement in (
        "CREATE TABLE u (a VARCHAR(0))",
        "ALTER TABLE t ADD COLUMN b VARCHAR( 0 )",
        "ALTER TABLE t ALTER COLUMN a TYPE VARCHAR(0)",
    ):
        with pytest.raises(InvalidDataError, match="holds no text"):
            dry_lake.sql(statement)


@pytest.mark.parametrize("definition", POSSIBLE)
def test_ordinary_defaults_need_no_spark(dry_lake: Lake, definition: str) -> None:
    dry_lake.sql(f"CREATE TABLE t (a INT, d {definition})")
    kind, _, default = definition.partition(" DEFAULT ")
    dry_lake.sql(f"ALTER TABLE t ALTER COLUMN d SET DEFAULT {default}")
    dry_lake.sql(f"CREATE TABLE IF NOT EXISTS t (a INT, d {kind} DEFAULT array())")
    assert dry_lake.sql(f"CREATE TABLE s (a INT, b {kind}) CLUSTER BY (a)") is None


def test_defaults_in_words_of_postgres(dry_lake: Lake) -> None:
    with pytest.raises(InvalidDataError, match="70000 does not fit"):
        dry_lake.sql("CREATE TABLE t (a smallint DEFAULT 70000)", dialect="postgres")
    dry_lake.sql("CREATE TABLE t (a timestamp DEFAULT now())", dialect="postgres")


@pytest.mark.spark
def test_what_only_spark_can_tell(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a INT, b BIGINT)")
    for definition, words in ASKED:
        _refused(lake, definition, words)
    lake.sql("CREATE TABLE u (a INT, b INT DEFAULT '5', c ARRAY<INT> DEFAULT array(1), d INT)")
    lake.sql("ALTER TABLE u ALTER COLUMN d SET DEFAULT 1 + 1")
    for definition in POSSIBLE:
        lake.sql(f"CREATE TABLE v (a INT, d {definition})")
        lake.sql("INSERT INTO v (a) VALUES (1)")
        assert lake.table("v").count() == 1
        lake.sql("DROP TABLE v")
    lake.sql("INSERT INTO u (a) VALUES (1)")
    assert lake.table("u").toArrow().to_pylist() == [{"a": 1, "b": 5, "c": [1], "d": 2}]


def test_columns_that_may_be_there_and_places(dry_lake: Lake) -> None:
    dry_lake.sql("CREATE TABLE t (a INT, b BIGINT)")
    for _ in range(2):
        dry_lake.sql("ALTER TABLE t ADD COLUMN IF NOT EXISTS c INT DEFAULT 7")
        dry_lake.sql("ALTER TABLE t ADD COLUMNS IF NOT EXISTS (B STRING, d DATE)")
        dry_lake.sql("ALTER TABLE t ADD COLUMN IF NOT EXISTS e int", dialect="postgres")
        dry_lake.sql("ALTER TABLE t DROP COLUMN IF EXISTS z", dialect="postgres")
    assert [c.name for c in dry_lake._catalog.table("t").columns] == ["a", "b", "c", "d", "e"]
    for place in ("FIRST", "AFTER a"):
        for statement in (
            f"ALTER TABLE t ADD COLUMN z INT {place}",
            f"ALTER TABLE t ADD COLUMN z INT DEFAULT 1 {place}",
            f"ALTER TABLE t ALTER COLUMN b {place}",
        ):
            with pytest.raises(ParseError, match="place cannot be chosen"):
                dry_lake.sql(statement)
    dry_lake.sql("CREATE TABLE words (first INT, after INT, s STRUCT<first: INT, after: INT>)")


@pytest.mark.parametrize("thing", ["STREAM TABLE", "TABLE", "VIEW"])
def test_or_replace_and_if_not_exists_exclude_each_other(dry_lake: Lake, thing: str) -> None:
    for explain in ("EXPLAIN ", "") if thing == "STREAM TABLE" else ("",):
        with pytest.raises(ParseError, match="do not go together") as caught:
            dry_lake.sql(f"{explain}CREATE OR REPLACE {thing} IF NOT EXISTS x AS SELECT 1 AS a")
        assert "say one of them" in str(caught.value.hint)
    with pytest.raises(UserError, match="do not go together"):
        dry_lake.create_stream_table("x", "SELECT 1 AS a", or_replace=True, if_not_exists=True)


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
def test_schemas_that_queries_read_otherwise(dry_lake: Lake, dialect: str) -> None:
    for name in ("trickle", "Information_Schema", "IF NOT EXISTS TRICKLE", "pgtrickle", "pgivm"):
        with pytest.raises(BindError, match="is reserved") as caught:
            dry_lake.sql(f"CREATE SCHEMA {name}", dialect=dialect)
        assert "another name" in str(caught.value.hint)
    with pytest.raises(ParseError, match="cannot be replaced"):
        dry_lake.sql("CREATE OR REPLACE SCHEMA s")
    dry_lake.sql("CREATE SCHEMA trickles", dialect=dialect)
