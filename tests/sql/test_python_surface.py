"""The Python surface without Spark: create_table, arrow, what records look like, a closed lake."""

from __future__ import annotations

import inspect
import json
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

import spark_trickle
from spark_trickle import BindError, RefreshReport, UserError
from spark_trickle.maintain.records.monitor import Difference
from spark_trickle.storage.read.reader import read_scan

QUERY = "SELECT city, sum(n) AS t FROM o JOIN c USING (who) GROUP BY city"


def rows(lake, name: str) -> list[dict]:
    return read_scan(lake._catalog.scan(name)).to_pylist()


def test_create_table_from_words_schemas_and_data(dry_lake):
    lake = dry_lake
    made = lake.create_table(
        "a",
        "id BIGINT NOT NULL, price DECIMAL(5,2) DEFAULT 1.5 COMMENT 'each'",
        primary_key="id",
        cluster_by=["price"],
        comment="prices",
    )
    assert repr(made) == "Table(a: id bigint, price decimal(5,2), PRIMARY KEY (id))"
    assert (made.cluster_by, made.comment, made.columns[1].comment) == (
        ("price",),
        "prices",
        "each",
    )
    assert lake.append("a", [{"id": 1}]) == 1
    assert rows(lake, "a") == [{"id": 1, "price": Decimal("1.50")}]
    lake.create_table("b", {"x": "int", "y": "array<string>"})
    schema = pa.schema([("d", pa.date32()), ("m", pa.map_(pa.string(), pa.int16()))])
    lake.create_table("c", schema)
    assert [c.type for c in lake._catalog.table("c").columns] == ["date", "map<string,smallint>"]
    before = lake.version
    lake.create_table("d", [{"k": 1, "s": {"u": 1.5}}, {"k": None, "when": date(2024, 1, 2)}])
    assert lake.version == before + 1, "columns and rows are one commit"
    assert rows(lake, "d") == [
        {"k": 1, "s": {"u": 1.5}, "when": None},
        {"k": None, "s": None, "when": date(2024, 1, 2)},
    ]
    for data in (
        5,
        [],
        [{"x": 1}, {"x": "a"}],
        "id",
        {"x": "frob"},
        pa.schema([("t", pa.time64("us"))]),
    ):
        with pytest.raises(UserError):
            lake.create_table("e", data)
    assert lake.arrow("SHOW TABLES LIKE 'e'").num_rows == 0
    assert lake.listing("SHOW TABLES; SHOW SCHEMAS") is None, "a script is for lake.sql"
    with pytest.raises(UserError, match="answers no rows"):
        lake.arrow("CREATE SCHEMA s; CREATE SCHEMA s2")


def test_a_closed_lake_says_so(tmp_path):
    lake = spark_trickle.connect(tmp_path / "lake")
    lake.sql("CREATE TABLE t (a INT)")
    lake.close()
    for use in (
        lambda: lake.version,
        lambda: lake.sql("SHOW TABLES"),
        lambda: lake.append("t", [{"a": 1}]),
        lake.transaction,
        lake.stream_tables,
        lake.refresh_all,
    ):
        with pytest.raises(UserError, match="the lake is closed"):
            use()
    assert repr(lake).endswith("closed)")
    lake.close()


def test_records_are_made_for_reading(dry_lake):
    dry_lake.sql("CREATE TABLE `<b>` (x INT) COMMENT 'a & b'; INSERT INTO `<b>` VALUES (1)")
    assert repr(dry_lake).endswith("version 2: 1 table, 0 views, 0 stream tables)")
    assert "<td>&lt;b&gt;</td>" in dry_lake._repr_html_()
    (table,) = dry_lake.tables()
    assert "a &amp; b" in table._repr_html_()
    summary = dry_lake.change_summary("<b>", 1)
    assert repr(summary) == "ChangeSummary(versions 1 to 2: 1 row inserted, 0 deleted, 0 bytes)"
    report = RefreshReport("t", "FULL", "INITIALIZE: it is new", rows_inserted=1200, seconds=0.123)
    assert repr(report) == (
        "RefreshReport(t: FULL, +1,200 -0 rows, 0 read, 0.12 s, version 0; INITIALIZE: it is new)"
    )
    assert "<th style='text-align:left'>reason</th>" in report._repr_html_()
    nothing = pa.table({"a": pa.array([], pa.int64()), "__weight": pa.array([], pa.int64())})
    assert str(Difference("t", nothing, 3)) == "t: equal (3 rows)"
    some = pa.table({"a": [1, None], "__weight": [2, -1]})
    assert str(Difference("t", some, 3)) == (
        "t: differs from its query in 2 rows\n  is missing: a=1 (2 times)\n  should not be there: a=NULL"
    )
    assert "<i>NULL</i>" in Difference("t", some, 3)._repr_html_()


def test_explain_opens_with_five_lines_and_has_forms(dry_lake):
    dry_lake.sql("CREATE TABLE o (who STRING, n INT); CREATE TABLE c (who STRING, city STRING)")
    first = dry_lake.explain(QUERY).split("\n")[:6]
    words = [line.split()[0] for line in first[:5]]
    assert words == ["explain", "verdict", "mode", "parts", "changes"]
    assert first[1:3] == ["verdict  Incremental", "mode     AUTO chooses by cost at each refresh"]
    assert first[3].endswith("private state, additive; result: algebra")
    assert "c: o near the change, its change" in first[4]
    assert first[5] == ""
    parsed = json.loads(dry_lake.explain(QUERY, format="json"))
    assert parsed["verdict"] == "Incremental"
    assert {"normalized", "delta", "sql"} <= parsed["stages"].keys()
    assert dry_lake.explain(QUERY, format="mermaid").startswith("graph LR\n")
    assert dry_lake.explain(QUERY, format="tree").startswith("Project")
    assert "__weight" in dry_lake.explain(QUERY, format="sql")
    assert dry_lake.explain("SELECT rand() AS r FROM o").split("\n")[2] == (
        "mode     FULL, because nothing else can be done"
    )
    for mode, said in [("IMMEDIATE", "none: IMMEDIATE refuses it"), ("FULL", "FULL, as asked for")]:
        text = f"EXPLAIN CREATE STREAM TABLE t REFRESH MODE {mode} AS SELECT rand() AS r FROM o"
        assert dry_lake.sql(text).split("\n")[2] == f"mode     {said}"
    with pytest.raises(BindError) as caught:
        dry_lake.sql("CREATE VIEW v AS SELECT who FROM oo")
    assert caught.value.hint == "did you mean o?"
    with pytest.raises(UserError, match="there is no format 'yaml'"):
        dry_lake.explain(QUERY, format="yaml")


def test_every_public_name_says_what_it_is():
    for name in spark_trickle.__all__:
        thing = getattr(spark_trickle, name)
        assert inspect.getdoc(thing), name
        if not inspect.isclass(thing) or issubclass(thing, Exception):
            continue
        for member, value in inspect.getmembers(thing):
            known = inspect.isfunction(value) or isinstance(value, property)
            if known and not member.startswith("_"):
                assert inspect.getdoc(value), f"{name}.{member}"
