"""Large compactions by executors: sorted ranges that do not overlap, and no version's rows change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_trickle import Settings, connect
from spark_trickle.errors import InternalError
from spark_trickle.spark.writing.rewrite import SparkExecutors
from spark_trickle.storage.upkeep import compaction, rewriting
from support import lakes

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(tmp_path: Path, spark, monkeypatch):
    """A table with several files, dead rows of several versions and rows in the catalog."""
    monkeypatch.setattr(rewriting, "TARGET_BYTES", 4000)
    settings = Settings(inline_row_limit=5, inline_delete_limit=10, catalog_rows=0, small_files=0)
    with connect(tmp_path / "lake", spark=spark, settings=settings) as opened:
        opened.sql("CREATE TABLE t (id BIGINT, g INT, s STRING, gone INT) CLUSTER BY (id)")
        for start in (0, 3):
            rows = spark.range(3000).where(f"id % 6 >= {start} AND id % 6 < {start} + 3")
            opened.append("t", rows.selectExpr("id", "cast(id % 7 AS INT) g", "concat('s', id) s"))
        opened.sql("ALTER TABLE t DROP COLUMN gone")
        opened.sql("ALTER TABLE t ADD COLUMN n INT DEFAULT 5")
        opened.sql("UPDATE t SET s = upper(s) WHERE id % 3 = 0")
        opened.sql("DELETE FROM t WHERE id % 10 = 1")
        opened.sql("DELETE FROM t WHERE id IN (2, 3)")
        opened.sql("INSERT INTO t VALUES (9000, 1, 'in the catalog', 1), (-1, 2, 'too', 2)")
        opened.sql("DELETE FROM t WHERE id = 9000")
        lakes.limited(opened, written_bytes=-1)
        yield opened


def seen(lake: Any) -> tuple[dict[int, Any], dict[tuple[int, int], Any]]:
    """The contents of every version, and the changes between any two."""
    catalog = lake._catalog
    versions = [v for v in range(1, lake.version + 1) if catalog.tables(v)]
    feeds = {(a, b): lakes.net(catalog, "t", a, b) for a in versions[3:] for b in versions if a < b}
    return {v: lakes.contents(catalog, "t", v) for v in versions}, feeds


@pytest.mark.parametrize("dead", ["here", "executors"])
def test_nothing_changes_but_the_files(lake, tmp_path, dead):
    if dead == "executors":
        lakes.limited(lake, dead_rows=-1)
    before = lake.version
    expected = seen(lake)
    (done,) = lake.compact("t")
    assert done.files_before > 2
    assert done.inlined_rows == 2
    now = seen(lake)
    assert {v: rows for v, rows in now[0].items() if v <= before} == expected[0]
    assert {w: rows for w, rows in now[1].items() if w[1] <= before} == expected[1]
    lakes.agrees_with_duckdb(lake._catalog, tmp_path / "lake", "t", feed=False)
    files = lake._catalog.scan("t").files
    column = lake._catalog.table("t").columns[0].id
    ends = sorted((file.bounds[column].low, file.bounds[column].high) for file in files)
    assert len(ends) > 2
    assert all(left[1] < right[0] for left, right in zip(ends, ends[1:], strict=False))
    assert not any(len(file.deleted) for file in files)
    assert lake.sql("UPDATE t SET g = 0 WHERE id % 100 = 5") == 30, "rows are found where they are"


def test_rows_that_die_meanwhile(lake, tmp_path, monkeypatch):
    write = compaction.written

    def written(*arguments: Any) -> Any:
        found = write(*arguments)
        lake.sql("DELETE FROM t WHERE id % 10 = 4 OR id = -1")
        return found

    monkeypatch.setattr(compaction, "written", written)
    lake.compact("t")
    left = {row.id for row in lake.table("t").collect()}
    assert left == {i for i in range(3000) if i % 10 not in (1, 4)} - {2, 3}
    lakes.agrees_with_duckdb(lake._catalog, tmp_path / "lake", "t", feed=False)


def test_nested_columns(lake, tmp_path):
    lake.sql("CREATE TABLE m (id BIGINT, l ARRAY<STRUCT<a: INT>>, m MAP<STRING, INT>)")
    for start in (0, 100):
        lake.sql(
            "INSERT INTO m SELECT id, array(named_struct('a', cast(id AS INT))), map('k', 1) "
            f"FROM range({start}, {start + 100})"
        )
    lake.sql("DELETE FROM m WHERE id % 3 = 0")
    expected = lakes.contents(lake._catalog, "m")
    lake.compact("m")
    assert lakes.contents(lake._catalog, "m") == expected
    assert lake.sql("SELECT sum(l[0].a) FROM m").collect()[0][0] == sum(
        i for i in range(200) if i % 3
    )


def test_a_row_that_is_lost_on_the_way_is_noticed(lake, monkeypatch):
    files, rows = lake._catalog.scan("t").files, lake.sql("SELECT * FROM t").count()
    living = SparkExecutors.living
    monkeypatch.setattr(SparkExecutors, "living", lambda *given: living(*given)[1:])
    with pytest.raises(InternalError, match="nothing was changed"):
        lake.compact("t")
    assert [f.path for f in lake._catalog.scan("t").files] == [f.path for f in files]
    assert lake.sql("SELECT * FROM t").count() == rows
