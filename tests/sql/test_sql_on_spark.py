"""Statements that need Spark; one session for all of them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_trickle import BindError, DependencyError, TrickleError
from support import sqlfiles
from support.sqlfiles import examples

pytestmark = pytest.mark.spark

VALUES = {
    "none": None,
    "truth": True,
    "int": -(2**31),
    "long": -(2**63),
    "wide": 10**37,
    "double": -0.0,
    "nan": float("nan"),
    "huge": 1e300,
    "minus": float("-inf"),
    "decimal": Decimal("-12.340"),
    "whole": Decimal("1E+3"),
    "quotes": """it's "both" ''""",
    "backslash": r"C:\new\table",
    "all": "\\ ' \" ${spark.app.name} $ { ${env:HOME}",
    "bytes": b"\x00\xff'",
    "date": date(1582, 10, 4),
    "moment": datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC),
    "wall": datetime(2024, 5, 6, 7, 8, 9),
    "span": -timedelta(days=3, hours=2, microseconds=5),
    "list": [1, None, 3],
    "map": {"k": Decimal("1.5")},
}


def test_spark_reads_every_parameter_as_its_value(lake, spark):
    """Spark's own binding is the oracle for values and types."""
    text = "SELECT " + ", ".join(f":{name} AS `{name}`" for name in VALUES)
    ours = lake.sql(text, VALUES)
    plain = {name: value for name, value in VALUES.items() if name not in ("wide", "list", "map")}
    theirs = spark.sql("SELECT " + ", ".join(f":{name} AS `{name}`" for name in plain), plain)
    got, want = ours.toArrow().to_pylist()[0], theirs.toArrow().to_pylist()[0]
    assert {n: repr(got[n]) for n in plain} == {n: repr(want[n]) for n in plain}
    kinds = {f.name: f.dataType.simpleString() for f in ours.schema}
    exact = {f.name: f.dataType.simpleString() for f in theirs.schema}
    del exact["decimal"], exact["whole"]  # pyspark widens these to decimal(38,18)
    assert {name: kinds[name] for name in exact} == exact
    assert (kinds["decimal"], kinds["whole"]) == ("decimal(5,3)", "decimal(4,0)")
    assert (got["wide"], got["list"]) == (10**37, [1, None, 3])
    assert dict(got["map"]) == {"k": Decimal("1.5")}
    spark.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    try:
        again = lake.sql("SELECT ? AS a, ? AS b", [VALUES["backslash"], VALUES["all"]])
        assert again.toArrow().to_pylist() == [{"a": VALUES["backslash"], "b": VALUES["all"]}]
    finally:
        spark.conf.unset("spark.sql.parser.escapedStringLiterals")


def test_parameters_in_stream_tables_and_changes(lake):
    lake.sql("CREATE TABLE o (id INT, who STRING, n DECIMAL(10,2))")
    lake.sql(
        "INSERT INTO o VALUES (1, 'O''Brien', 5), (2, 'x', 7), (3, :back, 9)", {"back": "a\\b"}
    )
    lake.sql(
        "CREATE STREAM TABLE big AS SELECT who, sum(n) AS total FROM o "
        "WHERE who IN (:a, :b) AND n > :least GROUP BY who",
        {"a": "O'Brien", "b": "a\\b", "least": Decimal("4.5")},
    )
    assert lake.sql("UPDATE o SET n = n + ? WHERE who = ?", [-1, "a\\b"]) == 1
    assert lake.sql("DELETE FROM o WHERE id = :id", {"id": 2}) == 1
    lake.refresh_stream_table("big")
    assert not lake.verify("big")
    found = lake.sql("SELECT who, total FROM big WHERE total >= ? ORDER BY who", [5])
    assert [tuple(row) for row in found.collect()] == [
        ("O'Brien", Decimal("5.00")),
        ("a\\b", Decimal("8.00")),
    ]


def rows(frame) -> list[tuple]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_views_in_queries_changes_and_stream_tables(lake):
    lake.sql(
        """CREATE TABLE o (id INT, who STRING, n INT);
        INSERT INTO o VALUES (1, 'a', 1), (2, 'b', 2), (3, 'a', 3);
        CREATE SCHEMA s; CREATE TABLE p (who STRING, total BIGINT);
        CREATE VIEW v AS SELECT who, n FROM o WHERE n > 1;
        CREATE VIEW s.sums (name, total) AS SELECT who, sum(n) FROM v GROUP BY who"""
    )
    before = lake.version
    assert rows(lake.sql("SELECT s.sums.name, total FROM s.sums")) == [("a", 3), ("b", 2)]
    assert rows(lake.table("s.sums")) == [("a", 3), ("b", 2)]
    assert rows(lake.sql("WITH v AS (SELECT * FROM v WHERE n > 2) TABLE v")) == [("a", 3)]
    lake.sql(
        "CREATE STREAM TABLE st REFRESH MODE DIFFERENTIAL AS "
        "WITH x AS (SELECT * FROM s.sums) SELECT x.name, x.total FROM x"
    )
    lake.sql("CREATE TEMP VIEW mine AS SELECT who FROM s.sums JOIN o ON name = who")
    assert lake.sql("INSERT INTO p SELECT * FROM s.sums") == 2
    assert lake.sql("DELETE FROM p WHERE who IN (SELECT who FROM v WHERE n = 2)") == 1
    lake.sql("INSERT INTO o VALUES (4, 'c', 9)")
    assert rows(lake.sql("SELECT * FROM mine WHERE who = 'c'")) == [("c",)]
    assert rows(lake.sql(f"SELECT count(*) FROM v VERSION AS OF {before}")) == [(2,)]
    report = lake.refresh_stream_table("st")
    assert report.effective_mode == "DIFFERENTIAL"
    assert rows(lake.table("st")) == [("a", 3), ("b", 2), ("c", 9)]
    for statement in ("DROP VIEW v", "DROP VIEW s.sums", "DROP SCHEMA s CASCADE"):
        with pytest.raises(DependencyError):
            lake.sql(statement)
    lake.sql("CREATE OR REPLACE VIEW v AS SELECT who, n + 100 AS n FROM o")
    lake.sql("INSERT INTO o VALUES (5, 'c', 1)")
    lake.refresh_stream_table("st")
    assert rows(lake.table("st")) == [("a", 3), ("b", 2), ("c", 9)], "bound when made"
    with pytest.raises(BindError) as caught:
        lake.create_stream_table("bad", "SELECT name,\n nope FROM s.sums")
    assert (caught.value.position.line, caught.value.position.column) == (2, 2)
    kinds = lake.sql(
        "SELECT table_name, table_type FROM information_schema.tables ORDER BY table_name"
    )
    assert [tuple(r) for r in kinds.collect()] == [
        ("o", "BASE TABLE"),
        ("p", "BASE TABLE"),
        ("st", "STREAM TABLE"),
        ("sums", "VIEW"),
        ("v", "VIEW"),
    ]
    made = lake.listing("SHOW CREATE STREAM TABLE st").to_pylist()[0]["createtab_stmt"]
    lake.sql("DROP STREAM TABLE st; DROP VIEW s.sums; DROP VIEW v")
    lake.sql(made)
    assert lake.listing("SHOW CREATE STREAM TABLE st").to_pylist()[0]["createtab_stmt"] == made


FILES = sorted((Path(__file__).parent / "spark").glob("*.test"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_statements(lake, path):
    sqlfiles.run(lake, path)


def test_the_examples_of_the_page_run(lake):
    for number, statement in enumerate(examples()):
        try:
            lake.sql(statement)
        except TrickleError as error:
            raise AssertionError(f"example {number}: {statement}\n{error}") from error
    assert [str(table) for table in lake.tables()] == ["orders"]


def test_tables_from_files(lake, tmp_path):
    (tmp_path / "a.csv").write_text('id,who,n\n1,ada,1.5\n2,"b,c",\n')
    (tmp_path / "b.txt").write_text("1;x\n")
    (tmp_path / "c.json").write_text('{"k": 1, "v": ["x"]}\n{"k": 2}\n')
    pq.write_table(pa.table({"id": [7], "n": [Decimal("1.25")]}), tmp_path / "d.parquet")
    lake.sql(f"CREATE TABLE csv AS SELECT * FROM read_csv('{tmp_path}/a.csv')")
    assert [c.type for c in lake._catalog.table("csv").columns] == ["int", "string", "double"]
    assert rows(lake.table("csv")) == [(1, "ada", 1.5), (2, "b,c", None)]
    lake.sql(
        f"INSERT INTO csv SELECT x._c0, upper(x._c1), read_parquet.n FROM "
        f"read_files('{tmp_path}/b.txt', format => 'csv', header => false, delim => ';') AS x "
        f"CROSS JOIN read_parquet('{tmp_path}/d.parquet')"
    )
    assert rows(lake.table("csv"))[0] == (1, "X", 1.25)
    found = lake.arrow(f"SELECT * FROM read_json('{tmp_path}/c.json') ORDER BY k").to_pylist()
    assert found == [{"k": 1, "v": ["x"]}, {"k": 2, "v": None}]
    with pytest.raises(TrickleError, match="does not say what it is"):
        lake.sql(f"SELECT * FROM read_files('{tmp_path}/b.txt')")
    with pytest.raises(TrickleError):
        lake.sql(f"SELECT * FROM read_csv('{tmp_path}/nothing.csv')")
