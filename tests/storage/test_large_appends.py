"""Many Arrow rows are written a file's worth at a time, in ranges of the key that do not overlap."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest

from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import NewColumn
from spark_trickle.storage.versions import row_files
from support import lakes

ROWS = 1000


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "plain"])
def test_in_files_that_do_not_overlap(folder: Path, monkeypatch, keyed: bool) -> None:
    monkeypatch.setattr(row_files, "ROWS_PER_FILE", 120)
    values = list(range(ROWS))
    random.Random(5).shuffle(values)
    with Catalog.open(str(folder), settings=Settings(inline_row_limit=10)) as catalog:
        with catalog.begin() as tx:
            columns = [NewColumn("a", "bigint"), NewColumn("s", "string")]
            tx.create_table("t", columns, cluster_by=["a"] if keyed else [])
        with catalog.begin() as tx:
            data = {"a": values, "s": [None if v % 7 == 0 else f"s{v}" for v in values]}
            tx.insert_rows("t", lakes.rows_of(catalog, "t", data))
            own = lakes.bag(r.values() for r in pa.table(data).to_pylist())
        files = catalog.scan("t").files
        assert [file.rows for file in files] == [120] * 8 + [40]
        assert lakes.contents(catalog, "t") == own
        column = catalog.table("t").columns[0].id
        ends = [(file.bounds[column].low, file.bounds[column].high) for file in files]
        apart = all(left[1] < right[0] for left, right in zip(ends, ends[1:], strict=False))
        assert apart == keyed
        lakes.agrees_with_duckdb(catalog, folder, "t", feed=False)


def test_no_python_object_for_a_row(folder: Path) -> None:
    rows = pa.table({"a": pa.array(range(300_000), pa.int64())})
    with Catalog.open(str(folder)) as catalog:
        with catalog.begin() as tx:
            tx.create_table("t", [NewColumn("a", "bigint")])
        tracemalloc.start()
        with catalog.begin() as tx:
            assert tx.insert_rows("t", rows) == 300_000
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < 2 << 20, "bytes of Python objects"
