"""DDL: what readers of every version see of it, DuckDB among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_trickle.errors import (
    AlreadyExistsError,
    BindError,
    InvalidDataError,
    NotFoundError,
    SourceChangedError,
)
from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.files.types import arrow_type
from spark_trickle.storage.read.reader import read_scan
from spark_trickle.storage.records import NewColumn, NewFile, TableName
from support import duck, lakes


def create(catalog: Catalog, name: str = "t") -> None:
    with catalog.begin() as tx:
        tx.create_table(
            name,
            [
                NewColumn("id", "bigint", nullable=False),
                NewColumn("Name", "string", default="'none'"),
                NewColumn("at", "timestamp", default="current_timestamp()"),
            ],
            primary_key=["ID"],
            cluster_by=["name", "id"],
        )


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "Name": ["n"] * len(ids)})


def test_what_was_declared_is_there(open_lake: Any) -> None:
    create(open_lake())
    table = open_lake().table("T")
    assert (table.schema, table.name) == ("main", "t")
    assert [(c.id, c.name, c.type, c.nullable) for c in table.columns] == [
        (1, "id", "bigint", False),
        (2, "Name", "string", True),
        (3, "at", "timestamp", True),
    ]
    assert [c.default for c in table.columns] == [None, "'none'", "current_timestamp()"]
    assert table.primary_key == ("id",)
    assert table.cluster_by == ("Name", "id")
    assert table.sort_key == ("Name", "id")


@pytest.mark.parametrize("limit", [100, 0], ids=["inlined", "files"])
def test_every_version_keeps_its_columns(folder: Path, limit: int) -> None:
    with Catalog.open(str(folder), settings=Settings(inline_row_limit=limit)) as catalog:
        create(catalog)
        with catalog.begin() as tx:
            tx.insert_rows("t", rows(1, 2))
        with catalog.begin() as tx:
            tx.add_column("t", NewColumn("z", "int", nullable=False, default="7", initial=7))
        with catalog.begin() as tx:
            tx.rename_column("t", "NAME", "title")
            tx.insert_rows("t", pa.table({"id": [3], "title": ["x"], "z": [1]}))
        with catalog.begin() as tx:
            tx.drop_column("t", "at")
        with catalog.begin() as tx:
            tx.add_column("t", NewColumn("at", "string", initial="later"))
            lakes.modify(tx, "t", lambda r: r["id"] == 1, lambda r: r | {"at": "now"})
        table = catalog.table("t")
        assert table.cluster_by == ("title", "id")
        assert [c.id for c in table.columns] == [1, 2, 4, 5]
        assert read_scan(catalog.scan("t")).sort_by("id").to_pylist() == [
            {"id": 1, "title": "n", "z": 7, "at": "now"},
            {"id": 2, "title": "n", "z": 7, "at": "later"},
            {"id": 3, "title": "x", "z": 1, "at": "later"},
        ]
        assert catalog.scan("t", 2).table.columns[1].name == "Name"
        lakes.agrees_with_duckdb(catalog, folder, "t", feed=False)


def test_rows_and_columns_in_one_transaction(catalog: Catalog, folder: Path) -> None:
    with catalog.begin() as tx:
        tx.create_table("t", [NewColumn("a", "int"), NewColumn("b", "int")])
        tx.insert_rows("t", pa.table({"a": pa.array([1, 2], pa.int32())}))
        tx.add_column("t", NewColumn("c", "int", initial=5))
        tx.rename_column("t", "a", "x")
        tx.drop_column("t", "b")
        tx.insert_rows("t", pa.table({"x": pa.array([3], pa.int32())}))
        tx.rename_table("t", "u")
        assert tx.scan("u").rows == 3
    assert read_scan(catalog.scan("u")).to_pylist() == [
        {"x": 1, "c": 5},
        {"x": 2, "c": 5},
        {"x": 3, "c": None},
    ]
    assert [t.name for t in catalog.tables()] == ["u"]
    lakes.agrees_with_duckdb(catalog, folder, "u")


def test_schemas_and_odd_table_names(catalog: Catalog, folder: Path) -> None:
    odd = TableName("my schema", 'a "b".c/d')
    with catalog.begin() as tx:
        tx.create_schema("my schema")
        tx.create_table(odd, [NewColumn("a", "int")])
        tx.insert_rows(odd, pa.table({"a": [1]}))
        tx.create_table("`my schema`.plain", [NewColumn("a", "int")])
    assert catalog.schemas() == ["main", "my schema"]
    assert [str(t) for t in catalog.tables()] == ['my schema.`a "b".c/d`', "my schema.plain"]
    assert catalog.scan(odd).rows == 1
    query = 'SELECT a FROM "my schema"."a ""b"".c/d"'
    assert duck.read(folder / "catalog.sqlite", [query]) == [[["1"]]]
    with catalog.begin() as tx:
        with pytest.raises(BindError, match="schema my schema is not empty"):
            tx.drop_schema("my schema")
        tx.drop_schema("my schema", cascade=True)
        tx.drop_schema("no such", if_exists=True)
        tx.create_schema("main", if_not_exists=True)
    assert catalog.tables() == []
    assert duck.read(folder / "catalog.sqlite", ["SHOW ALL TABLES"]) == [[]]


def test_dropped_and_made_anew(catalog: Catalog) -> None:
    create(catalog)
    with catalog.begin() as tx:
        tx.insert_rows("t", rows(1))
    old = catalog.version()
    with catalog.begin() as tx:
        tx.drop_table("t")
        tx.create_table("t", [NewColumn("other", "int")])
        tx.insert_rows("t", pa.table({"other": pa.array([5], pa.int32())}))
    assert read_scan(catalog.scan("t")).to_pylist() == [{"other": 5}]
    assert catalog.scan("t", old).rows == 1
    with pytest.raises(SourceChangedError, match="table t was dropped and made anew"):
        catalog.changes("t", old)
    with catalog.begin() as tx:
        tx.drop_table("t")
    with pytest.raises(NotFoundError, match="table t does not exist"):
        catalog.scan("t")


def test_bad_ddl_names_the_thing(catalog: Catalog) -> None:
    create(catalog)
    tx = catalog.begin()
    with pytest.raises(AlreadyExistsError, match="table T already exists"):
        tx.create_table("T", [NewColumn("a", "int")])
    with pytest.raises(AlreadyExistsError, match="two columns named A"):
        tx.create_table("u", [NewColumn("a", "int"), NewColumn("A", "int")])
    with pytest.raises(NotFoundError, match="schema nope does not exist"):
        tx.create_table("nope.u", [NewColumn("a", "int")])
    with pytest.raises(NotFoundError, match="table t has no column zz") as caught:
        tx.drop_column("t", "zz")
    assert caught.value.hint == "columns: id, Name, at"
    with pytest.raises(BindError, match="column id is part of a key of table t"):
        tx.drop_column("t", "id")
    with pytest.raises(BindError, match="NOT NULL without a default"):
        tx.add_column("t", NewColumn("n", "int", nullable=False))
    with pytest.raises(AlreadyExistsError, match="two columns named ID"):
        tx.rename_column("t", "at", "ID")
    with pytest.raises(BindError, match="cannot be renamed into another schema"):
        tx.rename_table("t", "s.t")
    with pytest.raises(NotFoundError, match="version 99 does not exist; the newest is 1"):
        catalog.table("t", 99)


def test_files_of_somebody_else(catalog: Catalog, folder: Path) -> None:
    """As Spark writes them: with field ids, but none for array elements, map keys and values."""
    with catalog.begin() as tx:
        tx.create_table(
            "t",
            [
                NewColumn("id", "bigint"),
                NewColumn("l", "array<struct<a:int>>"),
                NewColumn("m", "map<string,int>"),
            ],
        )
    row = {"id": 1, "l": [{"a": 5}], "m": [("k", 3)]}
    empty = {"id": 2, "l": None, "m": None}
    with catalog.begin() as tx:
        table = tx.table("t")
        fields = [
            pa.field(c.name, arrow_type(c), metadata={"PARQUET:field_id": str(c.id)})
            for c in table.columns
        ]
        path = tx.new_file("t")
        Path(path).parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist([row, empty], schema=pa.schema(fields)), path)
        assert tx.insert_files("t", [NewFile(path)]) == 2
        assert tx.changes("t").inserted_rows == 2
    assert read_scan(catalog.scan("t")).to_pylist() == [row, empty]
    (rows,) = duck.read(folder / "catalog.sqlite", ["SELECT id, l[1].a, m['k'] FROM t ORDER BY id"])
    assert rows == [["1", "5", "3"], ["2", None, None]]
    assert [p for p, _ in catalog.files.list(catalog.data_path)] == [
        catalog.scan("t").files[0].path
    ]


def test_files_without_field_ids_are_refused(catalog: Catalog) -> None:
    with catalog.begin() as tx:
        tx.create_table("t", [NewColumn("id", "bigint")])
        path = tx.new_file("t")
        Path(path).parent.mkdir(parents=True)
        pq.write_table(pa.table({"id": [1]}), path)
        with pytest.raises(InvalidDataError, match="column without field id: id"):
            tx.insert_files("t", [NewFile(path)])
