"""What must work without Spark: DDL, small INSERT VALUES, append of small data, listings."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from spark_trickle import (
    AlreadyExistsError,
    BindError,
    InvalidDataError,
    NotFoundError,
    UserError,
)
from spark_trickle.storage.read.reader import read_scan


def contents(lake, name: str = "t") -> list[tuple]:
    data = read_scan(lake._catalog.scan(name))
    return sorted(zip(*(column.to_pylist() for column in data.columns), strict=True), key=repr)


def test_create_insert_and_list(dry_lake):
    lake = dry_lake
    assert (
        lake.sql(
            "CREATE TABLE t (id BIGINT NOT NULL, customer STRING, amount DECIMAL(12,2), PRIMARY KEY (id))"
        )
        is None
    )
    assert lake.sql("INSERT INTO t VALUES (1, 'ada', 10.00), (2, 'bob', -5)") == 2
    assert lake.sql("INSERT INTO t (amount, id) VALUES (1.005, 3)") == 1
    assert contents(lake) == [
        (1, "ada", Decimal("10.00")),
        (2, "bob", Decimal("-5.00")),
        (3, None, Decimal("1.01")),
    ]
    assert [str(table) for table in lake.tables()] == ["t"]
    assert lake.listing("SHOW TABLES").to_pylist() == [
        {"namespace": "main", "tableName": "t", "kind": "TABLE"}
    ]
    described = lake.listing("DESCRIBE t").to_pylist()
    assert [row["data_type"] for row in described] == ["bigint", "string", "decimal(12,2)"]
    assert lake.sql("TRUNCATE TABLE t") == 3
    assert contents(lake) == []


def test_all_flat_types(dry_lake):
    dry_lake.sql(
        """CREATE TABLE t (a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE,
             h DECIMAL(38,10), i STRING, j DATE, k TIMESTAMP, l TIMESTAMP_NTZ, m BINARY)"""
    )
    dry_lake.sql(
        """INSERT INTO t VALUES (TRUE, -128, 32767, -2147483648, 9223372036854775807, NULL, 1e300,
             0.1, 'é''x', DATE '0001-01-01', TIMESTAMP '2026-01-02 03:04:05.678901',
             TIMESTAMP '1969-12-31 23:59:59', NULL)"""
    )
    (row,) = contents(dry_lake)
    assert row == (
        *(True, -128, 32767, -2147483648, 9223372036854775807, None, 1e300),
        *(Decimal("0.1000000000"), "é'x", date(1, 1, 1)),
        datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59),
        None,
    )


def test_names_with_any_characters(dry_lake):
    lake = dry_lake
    lake.sql("CREATE SCHEMA `my schema`")
    lake.sql('CREATE TABLE `my schema`.`select * from; "x"` (`group by` INT, `a``b.c` STRING)')
    lake.sql("INSERT INTO `MY SCHEMA`.`select * from; \"x\"` VALUES (1, 'x')")
    (table,) = lake.tables()
    assert contents(lake, table) == [(1, "x")]
    lake.sql('ALTER TABLE `my schema`.`select * from; "x"` RENAME COLUMN `a``b.c` TO `order`')
    lake.sql('ALTER TABLE `my schema`.`select * from; "x"` RENAME TO `table`')
    assert [(t.schema, t.name) for t in lake.tables()] == [("my schema", "table")]
    assert [c.name for c in lake.tables()[0].columns] == ["group by", "order"]
    with pytest.raises(UserError):
        lake.sql("DROP SCHEMA `my schema`")
    lake.sql("DROP SCHEMA `my schema` CASCADE")
    assert lake.tables() == []
    lake.sql("DROP SCHEMA IF EXISTS `my schema`")


def test_alter_table(dry_lake):
    lake = dry_lake
    lake.sql("CREATE TABLE t (a INT, b STRING)")
    lake.sql("INSERT INTO t VALUES (1, 'x')")
    lake.sql("ALTER TABLE t ADD COLUMNS (c DECIMAL(5,2) DEFAULT 1.5 NOT NULL, d DATE)")
    lake.sql("INSERT INTO t VALUES (2, 'y', DEFAULT, DATE '2026-01-01')")
    assert contents(lake) == [
        (1, "x", Decimal("1.50"), None),
        (2, "y", Decimal("1.50"), date(2026, 1, 1)),
    ]
    lake.sql("ALTER TABLE t DROP COLUMN b")
    lake.sql("ALTER TABLE t DROP COLUMN IF EXISTS b")
    lake.sql("ALTER TABLE t RENAME COLUMN a TO b")
    assert contents(lake)[0] == (1, Decimal("1.50"), None)
    with pytest.raises(BindError, match="t has no column nope"):
        lake.sql("ALTER TABLE t DROP COLUMN nope")


def test_drop_and_recreate(dry_lake):
    lake = dry_lake
    lake.sql("CREATE TABLE t (a INT)")
    lake.sql("CREATE TABLE IF NOT EXISTS t (b INT)")
    with pytest.raises(AlreadyExistsError, match="t"):
        lake.sql("CREATE TABLE T (b INT)")
    lake.sql("CREATE OR REPLACE TABLE t (b INT)")
    assert [c.name for c in lake.tables()[0].columns] == ["b"]
    lake.sql("DROP TABLE t")
    lake.sql("DROP TABLE IF EXISTS t")
    with pytest.raises(NotFoundError, match="t"):
        lake.sql("DROP TABLE t")


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("INSERT INTO t VALUES (NULL, 'x')", InvalidDataError, "a"),
        ("INSERT INTO t VALUES (300, 'x')", InvalidDataError, "300.*column a of t.*tinyint"),
        ("INSERT INTO t (b) VALUES ('x')", InvalidDataError, "a"),
        ("INSERT INTO t (a, nope) VALUES (1, 2)", BindError, "t has no column nope"),
        ("INSERT INTO nope VALUES (1)", NotFoundError, "nope"),
        ("CREATE TABLE u (a INT, A STRING)", UserError, "(?i)a"),
        ("CREATE TABLE u (a INT) CLUSTER BY (b)", UserError, "b"),
        ("CREATE TABLE nowhere.u (a INT)", NotFoundError, "nowhere"),
    ],
)
def test_bad_statements_change_nothing(dry_lake, statement, error, message):
    dry_lake.sql("CREATE TABLE t (a TINYINT NOT NULL, b STRING)")
    dry_lake.sql("INSERT INTO t VALUES (1, 'x')")
    before = dry_lake.version
    with pytest.raises(error, match=message):
        dry_lake.sql(statement)
    assert dry_lake.version == before
    assert contents(dry_lake) == [(1, "x")]


def test_append_without_spark(dry_lake):
    import pandas as pd

    lake = dry_lake
    lake.sql("CREATE TABLE t (a INT NOT NULL, b STRING DEFAULT 'none', c DOUBLE)")
    assert lake.append("t", [{"a": 1, "c": 1.5}, {"A": 2, "b": "x"}][:1]) == 1
    assert lake.append("t", pa.table({"B": ["y"], "a": [2]})) == 1
    assert lake.append("t", pd.DataFrame({"a": [3], "b": ["z"], "c": [0.25]})) == 1
    assert lake.append("t", []) == 0
    assert contents(lake) == [(1, "none", 1.5), (2, "y", None), (3, "z", 0.25)]
    with pytest.raises(UserError, match="t has no column nope"):
        lake.append("t", [{"nope": 1}])
    with pytest.raises(InvalidDataError, match="a"):
        lake.append("t", [{"a": "text"}])
    with pytest.raises(InvalidDataError, match="a"):
        lake.append("t", [{"b": "no a"}])
    with pytest.raises(InvalidDataError, match="int cannot be appended"):
        lake.append("t", 5)
    assert len(contents(lake)) == 3


def test_append_of_much_arrow_needs_no_spark(dry_lake):
    dry_lake.sql("CREATE TABLE t (a BIGINT) CLUSTER BY (a)")
    assert dry_lake.append("t", pa.table({"a": list(range(5000, 0, -1))})) == 5000
    assert len(dry_lake._catalog.scan("t").files) == 1


def test_change_summary_without_spark(dry_lake):
    lake = dry_lake
    lake.sql("CREATE TABLE t (a INT)")
    lake.sql("CREATE TABLE other (a INT)")
    start = lake.version
    assert not lake.change_summary("t", start).changed
    lake.sql("INSERT INTO t VALUES (1), (2)")
    lake.sql("INSERT INTO other VALUES (1)")
    summary = lake.change_summary("t", start)
    assert (summary.changed, summary.rows, summary.insert_only) == (True, 2, True)
    middle = lake.version
    assert not lake.change_summary("t", middle).changed
    lake.sql("TRUNCATE TABLE t")
    summary = lake.change_summary("t", middle)
    assert (summary.inserted, summary.deleted, summary.insert_only) == (0, 2, False)
    assert not lake.change_summary("t", start, lake.version).changed


def test_transactions_without_spark(dry_lake):
    lake = dry_lake

    def undone(tx) -> None:
        with tx.savepoint():
            tx.sql("INSERT INTO t VALUES (2)")
            tx.sql("INSERT INTO nope VALUES (2)")

    def fails(tx) -> None:
        with tx:
            tx.sql("INSERT INTO t VALUES (3)")
            raise ZeroDivisionError

    lake.sql("CREATE TABLE t (a INT)")
    before = lake.version
    with lake.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (1)")
        tx.sql("CREATE TABLE u (b INT)")
        tx.append("u", [{"b": 5}])
        with pytest.raises(NotFoundError):
            undone(tx)
    assert lake.version == before + 1
    assert contents(lake) == [(1,)]
    assert contents(lake, "u") == [(5,)]
    tx = lake.transaction()
    with pytest.raises(ZeroDivisionError):
        fails(tx)
    assert lake.version == before + 1
    with pytest.raises(UserError, match="over"):
        tx.sql("INSERT INTO t VALUES (4)")
