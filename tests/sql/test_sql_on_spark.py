"""Statements that need Spark; one session for all of them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

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
