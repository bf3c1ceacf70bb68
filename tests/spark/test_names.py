"""Columns under names that others have, or had, in older files: Spark passes over no row group for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_trickle import Lake, Limits, Settings, connect
from spark_trickle.storage.upkeep import maintenance
from support import duck
from support.streams import assert_exact

pytestmark = pytest.mark.spark

N = 3000
ON_SPARK = Settings(
    inline_row_limit=5,
    inline_delete_limit=5,
    local_rows=0,
    retention_seconds=0.0,
    limits=Limits(shipped_rows=0, worked_rows=0, near_rows=0, written_bytes=0),
)


@pytest.fixture
def lake(tmp_path: Path, spark):
    with connect(tmp_path / "lake", spark=spark, settings=ON_SPARK) as opened:
        yield opened


def alter(lake: Lake, *actions: str, table: str = "c") -> None:
    for action in actions:
        lake.sql(f"ALTER TABLE {table} {action}")


def count(lake: Lake, where: str, table: str = "c") -> int:
    return int(lake.sql(f"SELECT count(*) FROM {table} WHERE {where}").collect()[0][0])


def numbered(lake: Lake, columns: str = "id, id") -> None:
    lake.sql("CREATE TABLE c (p INT, q INT)")
    lake.sql(f"INSERT INTO c SELECT {columns} FROM range({N})")


def read_plainly(lake: Lake) -> bool:
    """Whether Spark reads the files as they are, under one schema."""
    plan = lake.table("c")._jdf.queryExecution().optimizedPlan().toString()
    return "Project" not in plan and "Union" not in plan


@pytest.fixture
def anew(lake):
    """``q`` was dropped and made again; old files have numbers under its name."""
    numbered(lake)
    alter(lake, "DROP COLUMN q", "ADD COLUMN q INT")
    return lake


def test_a_name_of_a_dropped_column(anew):
    assert count(anew, "q IS NULL") == N
    assert count(anew, "q IS NOT NULL OR p = 7") == 1
    anew.sql("INSERT INTO c SELECT id, id FROM range(10, 20)")
    assert count(anew, "q >= 0") == 10
    assert count(anew, "q IS NULL AND p < 10") == 10
    assert count(anew, "Q < 12") == 2


def test_changes_of_rows_that_such_a_filter_finds(anew):
    assert anew.sql("UPDATE c SET q = -p WHERE q IS NULL AND p < 2000") == 2000
    assert anew.sql("DELETE FROM c WHERE q IS NULL AND p % 2 = 0") == 500
    merged = anew.sql(
        "MERGE INTO c USING (SELECT id FROM range(2000, 3000)) n ON c.p = n.id AND c.q IS NULL "
        "WHEN MATCHED THEN UPDATE SET q = 1 WHEN NOT MATCHED THEN INSERT (p, q) VALUES (-1, 2)"
    )
    assert merged == 1000
    assert (count(anew, "q IS NULL"), count(anew, "q = 1"), count(anew, "q = 2")) == (0, 500, 500)


SWAP = ("RENAME COLUMN p TO t", "RENAME COLUMN q TO p", "RENAME COLUMN t TO q")


def test_names_that_were_swapped(lake):
    numbered(lake, "id, id + 1000000")
    before = lake.version
    alter(lake, *SWAP)
    assert count(lake, "p >= 1000000") == N
    assert count(lake, "q < 1000000") == N
    lake.sql(f"INSERT INTO c (q, p) SELECT id, id + 1000000 FROM range({N})")
    assert count(lake, "p >= 1000000") == 2 * N
    assert count(lake, "p = 1000007") == 2
    # Compacted files have the names of now, also for versions before.
    lake.compact("c")
    assert count(lake, "p = 1000007") == 2
    assert count(lake, "q = 7", f"c VERSION AS OF {before}") == 0
    assert count(lake, "q = 1000007", f"c VERSION AS OF {before}") == 1
    assert count(lake, "p = 7", f"c VERSION AS OF {before}") == 1


def test_a_name_that_was_set_free(lake):
    lake.sql("CREATE TABLE c (id INT, v INT)")
    lake.sql(f"INSERT INTO c SELECT id, id FROM range({N})")
    alter(lake, "ADD COLUMN v2 STRING")
    lake.sql("UPDATE c SET v2 = concat('k', v)")
    alter(lake, "DROP COLUMN v", "RENAME COLUMN v2 TO v")
    assert count(lake, "v = 'k5'") == 1
    alter(lake, "RENAME COLUMN v TO w")
    assert (count(lake, "w = 'k5'"), count(lake, "w IS NULL"), count(lake, "w > 'k'")) == (1, 0, N)


def test_in_one_transaction(lake):
    numbered(lake, "id, id + 1000000")
    with lake.transaction() as tx:
        tx.sql(f"INSERT INTO c SELECT id, id + 1000000 FROM range({N})")
        for action in SWAP:
            tx.sql(f"ALTER TABLE c {action}")
        (found,) = tx.sql("SELECT count(*) FROM c WHERE p >= 1000000").collect()
        assert found[0] == 2 * N
        assert tx.sql("DELETE FROM c WHERE q = 3") == 2
        tx.sql("ALTER TABLE c DROP COLUMN q")
        tx.sql("ALTER TABLE c ADD COLUMN q INT")
        assert tx.sql("UPDATE c SET q = 5 WHERE q IS NULL AND p < 1000010") == 18
    assert (count(lake, "p >= 1000000"), count(lake, "q = 5")) == (2 * N - 2, 18)
    assert count(lake, "q IS NULL") == 2 * N - 20


def test_stream_tables_on_spark(lake):
    numbered(lake, "id, id + 1000000")
    alter(lake, *SWAP)
    lake.sql(
        "CREATE STREAM TABLE s AS SELECT q % 10 g, count(*) n FROM c WHERE p >= 1000000 GROUP BY 1"
    )
    lake.sql("CREATE STREAM TABLE kept AS SELECT p, q FROM c WHERE p >= 1000000 AND q < 1000")
    assert sum(row.n for row in lake.table("s").collect()) == N
    assert lake.sql("DELETE FROM c WHERE q % 3 = 0") == N // 3
    assert lake.sql("UPDATE c SET q = q + 1 WHERE p >= 1000000 AND q % 3 = 1") == N // 3
    for name in ("s", "kept"):
        lake.refresh_stream_table(name)
        assert_exact(lake, name)
        assert not lake.verify(name)
    lake.compact("c")
    lake.sql("DELETE FROM c WHERE q < 100")
    for name in ("s", "kept"):
        lake.refresh_stream_table(name)
        assert not lake.verify(name)


PAIR = "STRUCT<x: INT, y: INT>"
NESTED = f"CREATE TABLE c (k INT, s {PAIR}, l ARRAY<{PAIR}>, m MAP<STRING, {PAIR}>, deep STRUCT<s: {PAIR}, z: INT>)"


def nested(lake: Lake) -> None:
    lake.sql(NESTED)
    pair = "named_struct('x', id, 'y', id + 1000000)"
    lake.sql(
        f"INSERT INTO c SELECT id, {pair}, array({pair}), map('a', {pair}), "
        f"named_struct('s', {pair}, 'z', id) FROM range({N})"
    )


def test_nested_columns(lake):
    nested(lake)
    alter(lake, "RENAME COLUMN s TO s2", "RENAME COLUMN l TO l2", "RENAME COLUMN m TO m2")
    alter(lake, "RENAME COLUMN deep TO deep2")
    assert count(lake, "s2.y >= 1000000") == N
    assert count(lake, "exists(l2.y, v -> v >= 1000000)") == N
    assert count(lake, "m2['a'].y >= 1000000 AND s2.x < 5") == 5
    assert count(lake, "deep2.s.y >= 1000000 AND deep2.s.x < 5 AND k >= 0") == 5
    assert lake.sql("UPDATE c SET k = -1 WHERE s2.y = 1000003 OR deep2.s.y = 1000004") == 2
    alter(lake, "RENAME COLUMN s2 TO s", f"ADD COLUMN s2 {PAIR}")
    assert (count(lake, "s.x = 5"), count(lake, "s2.x IS NULL"), count(lake, "s2.y > 0")) == (
        1,
        N,
        0,
    )
    assert (count(lake, "s IS NULL"), count(lake, "s2 IS NULL")) == (0, N)


def test_nested_columns_that_were_swapped(lake):
    lake.sql(f"CREATE TABLE c (a {PAIR}, b {PAIR})")
    numbers = "named_struct('x', id, 'y', id)"
    lake.sql(
        f"INSERT INTO c SELECT {numbers}, {numbers.replace('id', 'id + 1000000')} FROM range({N})"
    )
    alter(lake, "RENAME COLUMN a TO t", "RENAME COLUMN b TO a", "RENAME COLUMN t TO b")
    assert (count(lake, "a.x >= 1000000"), count(lake, "b.y < 10")) == (N, 10)
    alter(lake, "DROP COLUMN a", f"ADD COLUMN a {PAIR}")
    assert (count(lake, "a.x IS NULL"), count(lake, "a IS NULL AND b.x < 10")) == (N, 10)


def test_fields_that_duckdb_renamed(lake, tmp_path):
    nested(lake)
    names = (("x", "w"), ("y", "x"), ("w", "y"))
    duck.write(
        tmp_path / "lake",
        [
            f"ALTER TABLE c RENAME COLUMN {column}.{old} TO {new}"
            for column in ("s", "l.element", "deep.s")
            for old, new in names
        ],
    )
    assert (count(lake, "s.x >= 1000000"), count(lake, "s.y < 10")) == (N, 10)
    assert count(lake, "exists(l.x, v -> v >= 1000000)") == N
    assert count(lake, "deep.s.x = 1000005 AND s.x = 1000005") == 1
    lake.sql("DELETE FROM c WHERE s.x >= 1000100")
    lake.sql(
        "INSERT INTO c (k, s) SELECT id, named_struct('y', id, 'x', id + 1000000) FROM range(9)"
    )
    assert (count(lake, "s.x >= 1000000"), count(lake, "s.y = 8")) == (109, 2)


def test_files_that_duckdb_rewrote_under_old_names(lake, tmp_path):
    numbered(lake, "id, id + 1000000")
    alter(lake, *SWAP)
    lake.sql("DELETE FROM c WHERE q % 2 = 0")
    rewrite = "CALL ducklake_rewrite_data_files('lk', 'c', delete_threshold => 0.1)"
    duck.write(tmp_path / "lake", [rewrite])
    (file,) = lake._catalog.scan("c").files
    assert file.by_name or file.path.rsplit("/", 1)[-1].startswith("ducklake-")
    assert count(lake, "p >= 1000000") == N // 2


def test_ids_are_not_given_again(lake):
    """Also where nobody sees the versions any more that had the column."""
    numbered(lake)
    alter(lake, "DROP COLUMN q")
    maintenance.expire(lake._catalog)
    alter(lake, "ADD COLUMN q INT")
    assert lake.table("c").selectExpr("count(q)").collect()[0][0] == 0
    assert count(lake, "q IS NULL") == N


def test_other_tables_are_read_as_they_are(lake):
    numbered(lake)
    assert read_plainly(lake)
    alter(lake, "ADD COLUMN more INT", "RENAME COLUMN p TO first", "ADD COLUMN again INT")
    assert read_plainly(lake)
    assert (count(lake, "more IS NULL"), count(lake, "first = 3")) == (N, 1)
    alter(lake, "DROP COLUMN again")
    assert read_plainly(lake)
    alter(lake, "ADD COLUMN again INT")
    lake.sql("INSERT INTO c SELECT 1, 1, 1, 1 FROM range(10)")
    assert not read_plainly(lake)
    plan: Any = lake._catalog.scan("c")
    assert {len(file.doubtful) for file in plan.files} == {0, 1}, "new files are trusted"
