"""Large deletes: executors write the delete files, and no row's place comes into this process."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_trickle import BindError, CommitConflictError, Lake, Settings, connect
from spark_trickle.spark.writing.places import Gone, Places
from spark_trickle.storage.upkeep import maintenance
from spark_trickle.storage.versions.deaths import DeathFile
from support import lakes

pytestmark = pytest.mark.spark
ROWS = 3000


@pytest.fixture
def found(monkeypatch) -> list[Gone]:
    """What statements found to delete; reading a written delete file back is an error."""
    seen: list[Gone] = []
    find = Places.find

    def noting(self, *arguments) -> Gone:
        seen.append(find(self, *arguments))
        return seen[-1]

    def refused(self):
        raise AssertionError("the places of the rows came into this process")

    monkeypatch.setattr(Places, "find", noting)
    monkeypatch.setattr(DeathFile, "positions", property(refused))
    return seen


@pytest.fixture
def lake(tmp_path: Path, spark):
    settings = Settings(inline_row_limit=5, inline_delete_limit=10, catalog_rows=0, small_files=0)
    with connect(tmp_path / "lake", spark=spark, settings=settings) as opened:
        opened.sql("CREATE TABLE t (id BIGINT, g INT, s STRING, PRIMARY KEY (id))")
        rows = spark.range(ROWS).selectExpr("id", "cast(id % 7 AS INT) g", "concat('s', id) s")
        opened.append("t", rows.where("id < 1000"))
        opened.append("t", rows.where("id >= 1000"))
        opened.sql("INSERT INTO t VALUES (9000, 1, 'in the catalog'), (9001, 2, 'too')")
        yield opened


def model() -> dict[int, tuple[int, str]]:
    rows = {i: (i % 7, f"s{i}") for i in range(ROWS)}
    return rows | {9000: (1, "in the catalog"), 9001: (2, "too")}


def holds(lake: Lake, expected: dict[int, tuple[int, str]]) -> None:
    rows = {row.id: (row.g, row.s) for row in lake.table("t").collect()}
    assert rows == expected
    assert lake.table("t").count() == len(expected)


def test_statements_exact_and_read_by_duckdb(lake, tmp_path, found):
    """Every row group of every file loses rows, again and again; each version stays what it was."""
    begin, rows = lake.version, model()
    assert lake.sql("UPDATE t SET s = upper(s) WHERE id % 3 = 0") == 1001
    rows |= {i: (g, s.upper()) for i, (g, s) in rows.items() if i % 3 == 0}
    holds(lake, rows)
    assert lake.sql("DELETE FROM t WHERE id % 10 = 1 OR id = 9001") == 301
    rows = {i: row for i, row in rows.items() if i % 10 != 1}
    holds(lake, rows)
    source = "(SELECT explode(sequence(0, 3500, 5)) AS id)"
    merged = lake.sql(
        f"MERGE INTO t USING {source} AS q ON t.id = q.id WHEN MATCHED AND t.g = 3 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET g = g + 100 "
        "WHEN NOT MATCHED THEN INSERT (id, g, s) VALUES (q.id, 0, 'new')"
    )
    for i in range(0, 3501, 5):
        g, s = rows.get(i, (0, "new"))
        rows |= {i: (g + 100, s) if i in rows else (0, "new")}
        if g == 3 and s != "new":
            del rows[i]
    assert merged == 701
    holds(lake, rows)
    large = [gone for gone in found if gone.places is None]
    assert len(large) == 3
    assert all(len(gone.files) >= 2 for gone in large), "one delete file for each data file"
    lakes.agrees_with_duckdb(lake._catalog, tmp_path / "lake", "t")
    assert lake.changes("t", begin).where("__weight < 0").count() > 1500


def test_few_rows_stay_in_the_catalog(lake, found):
    assert lake.sql("DELETE FROM t WHERE pmod(id, 1000) = 5") == 3
    assert lake.sql("UPDATE t SET g = 0 WHERE pmod(id, 1000) = 6") == 3
    assert all(gone.places is not None for gone in found)


def test_a_file_without_a_living_row_ends(lake, found):
    assert lake.sql("DELETE FROM t WHERE id < 1000 AND length(s) > 0") == 1000
    assert len(lake._catalog.scan("t").files) == len(found[0].files), "one of two files is gone"
    assert lake.table("t").count() == ROWS - 1000 + 2


def test_a_row_named_twice(lake, found):
    twice = "(SELECT id % 500 AS id FROM range(1000))"
    with pytest.raises(BindError, match="more than one row of the source"):
        lake.sql(f"MERGE INTO t USING {twice} q ON t.id = q.id WHEN MATCHED THEN UPDATE SET g = 1")
    with pytest.raises(BindError, match="updated more than once"):
        lake.sql("UPDATE t SET g = explode(array(1, 2)) WHERE id < 100")
    holds(lake, model())
    assert lake.sql(f"MERGE INTO t USING {twice} q ON t.id = q.id WHEN MATCHED THEN DELETE") == 500
    assert lake.table("t").count() == ROWS - 500 + 2


def test_what_a_transaction_deletes_twice_and_takes_back(lake, tmp_path):
    rows = model()
    with lake.transaction() as tx:
        tx.sql("DELETE FROM t WHERE id % 4 = 0")
        mark = tx.savepoint()
        tx.sql("DELETE FROM t WHERE id % 4 = 1")
        mark.rollback()
        assert tx.table("t").count() == sum(i % 4 != 0 for i in rows)
        tx.sql("UPDATE t SET g = -1 WHERE id % 4 = 2")
        tx.sql("DELETE FROM t WHERE g = -1 AND id < 1000")
    rows = {i: (-1 if i % 4 == 2 else g, s) for i, (g, s) in rows.items() if i % 4}
    holds(lake, {i: row for i, row in rows.items() if row[0] != -1 or i >= 1000})
    # Rows that came and went in one version are in DuckDB's feed, and not in ours.
    lakes.agrees_with_duckdb(lake._catalog, tmp_path / "lake", "t", feed=False)
    undone = lake.transaction()
    undone.sql("DELETE FROM t WHERE id % 3 = 0")
    undone.rollback()
    maintenance.remove_orphans(lake._catalog, grace_seconds=-60)
    folder = Path(lake._catalog.table("t").location)
    with lake._catalog.reading() as connection:
        live = maintenance.live_paths(connection, lake._catalog.files)
    assert {str(path) for path in folder.rglob("*.parquet")} <= live


def test_beside_other_writers(lake, tmp_path):
    """A delete file that was written for another version than came is written again."""
    lake.sql("DELETE FROM t WHERE id % 10 = 1")
    mine = lake.transaction()
    mine.sql("DELETE FROM t WHERE id % 10 = 2")
    lake.sql("INSERT INTO t VALUES (10000, 0, 'of others')")
    lake.sql("DELETE FROM t WHERE id = 13")
    mine.commit()
    assert lake.table("t").count() == ROWS + 2 + 1 - 300 - 300 - 1 - 1
    lakes.agrees_with_duckdb(lake._catalog, tmp_path / "lake", "t")
    late = lake.transaction()
    late.sql("DELETE FROM t WHERE id % 10 = 3")
    lake.sql("DELETE FROM t WHERE id = 23")
    with pytest.raises(CommitConflictError):
        late.commit()
    over = lake.transaction()
    over.sql("DELETE FROM t WHERE id % 10 = 4")
    lake.compact("t")
    over.commit()
    assert lake.sql("SELECT count(*) FROM t WHERE id % 10 = 4").collect()[0][0] == 0
    lakes.agrees_with_duckdb(lake._catalog, tmp_path / "lake", "t", feed=False)


def test_a_large_delta_is_applied_by_executors(lake, found):
    lakes.limited(lake, delta_rows=20)
    lake.create_stream_table("c", "SELECT id, g, s FROM t WHERE g < 5", refresh_mode="DIFFERENTIAL")
    lake.sql("UPDATE t SET s = concat(s, '!'), g = g + 1 WHERE id % 2 = 0")
    found.clear()
    report = lake.refresh_stream_table("c")
    assert report.effective_mode == "DIFFERENTIAL"
    assert [gone.places for gone in found] == [None]
    assert not lake.verify("c")


def test_delete_files_tell_nothing_but_places(lake, found):
    """A first delete file has no versions: it is right whichever version it is committed as."""
    lake.sql("DELETE FROM t WHERE id % 10 = 1")
    for made in found[0].files.values():
        rows = pq.read_table(made.path)
        assert rows.column_names == ["file_path", "pos"]
        assert rows.column("pos").to_pylist() == sorted(rows.column("pos").to_pylist())
        assert Counter(rows.column("file_path").to_pylist()).most_common(1)[0][1] == rows.num_rows
