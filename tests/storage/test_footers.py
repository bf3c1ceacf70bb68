"""Ids of nested columns in the footer: the schema gets them, and nothing else moves."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.files import parquet
from spark_trickle.storage.files.types import make_column, parse_spark
from spark_trickle.storage.records import Column, NewColumn, NewFile, Table
from support import lakes

TYPES = {
    "a": "bigint",
    "l": "array<array<struct<x:int,y:map<string,array<double>>>>>",
    "m": "map<string,struct<k:int,v:array<string>>>",
    "s": "struct<p:decimal(20,3),q:struct<r:array<timestamp>>>",
    "z": "string",
}
ROWS = [
    {
        "a": i,
        "l": [[{"x": i, "y": [("k", [1.5, None])]}], None, []],
        "m": [("one", {"k": i, "v": ["x" * i, None]}), ("two", None)],
        "s": None if i % 3 == 0 else {"p": None, "q": {"r": []}},
        "z": f"z{i}",
    }
    for i in range(50)
]


def columns() -> tuple[Column, ...]:
    numbers = itertools.count(1)
    return tuple(make_column(name, parse_spark(text), numbers) for name, text in TYPES.items())


def without_inner_ids(schema: pa.Schema) -> pa.Schema:
    """As Spark writes them, and less: the columns have ids, what is inside has none."""
    return pa.schema([pa.field(f.name, _bare(f.type), f.nullable, f.metadata) for f in schema])


def _bare(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_map(kind):
        return pa.map_(_bare(kind.key_type), _bare(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _bare(kind.value_type)))
    if pa.types.is_struct(kind):
        inner = [kind.field(i) for i in range(kind.num_fields)]
        return pa.struct([pa.field(f.name, _bare(f.type)) for f in inner])
    return kind


def test_all_ids_and_the_same_rows(tmp_path: Path) -> None:
    table = Table(1, "main", "t", columns(), location=f"{tmp_path}/")
    schema = parquet.file_schema(table.columns)
    rows = pa.Table.from_pylist(ROWS, schema=without_inner_ids(schema))
    path = str(tmp_path / "f.parquet")
    pq.write_table(rows, path, row_group_size=7)
    before = (tmp_path / "f.parquet").read_bytes()
    assert parquet.with_inner_ids(path, table, str(tmp_path / "copy.parquet")) == path
    assert not (tmp_path / "copy.parquet").exists(), "no row was written again"
    found = pq.read_schema(path)
    for got, wanted in zip(found, schema, strict=True):
        assert parquet._ids_complete(got.type, table.columns[found.get_field_index(got.name)]), got
        assert got.metadata[b"PARQUET:field_id"] == wanted.metadata[b"PARQUET:field_id"]
    assert pq.read_table(path).to_pylist() == pa.table(rows).to_pylist()
    metadata = pq.read_metadata(path)
    after = (tmp_path / "f.parquet").read_bytes()
    data = metadata.row_group(0).column(0).data_page_offset
    assert before[:data] == after[:data]
    assert metadata.row_group(3).column(0).statistics.max == 27
    assert parquet.with_inner_ids(path, table, "") == path, "again there is nothing to do"


def test_duckdb_reads_them(folder: Path) -> None:
    with Catalog.open(str(folder)) as catalog:
        with catalog.begin() as tx:
            made = [NewColumn(name, text) for name, text in TYPES.items() if name in "amz"]
            tx.create_table("t", made)
        with catalog.begin() as tx:
            table = tx.table("t")
            path = f"{table.location}spark.parquet"
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            schema = without_inner_ids(parquet.file_schema(table.columns))
            rows = [{k: row[k] for k in "amz"} for row in ROWS]
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
            assert tx.insert_files("t", [NewFile(path)]) == 50
        assert [file.path for file in catalog.scan("t").files] == [path]
        answers = lakes.duck.read(
            lakes.duck.catalog_of(folder), ["SELECT sum(m['one'].k), count(*) FROM t"]
        )
        assert [int(value) for value in answers[0][0]] == [sum(range(50)), 50]


def test_what_is_no_footer() -> None:
    from spark_trickle.storage.files import footers

    with pytest.raises((ValueError, IndexError)):
        footers.with_ids(b"\x1d\x00", columns())
