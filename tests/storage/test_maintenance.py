"""Compaction, expiry and sweeping: no kept version changes, and nothing needed goes away."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_trickle.errors import NotFoundError, SourceChangedError
from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.read.reader import read_scan
from spark_trickle.storage.records import NewColumn, ScanPlan
from spark_trickle.storage.upkeep import maintenance
from support import lakes

TUNED = Settings(inline_row_limit=5, inline_delete_limit=8, retention_seconds=0.0)


def rows(first: int, count: int) -> pa.Table:
    ids = list(range(first, first + count))
    return pa.table({"id": pa.array(ids, pa.int64()), "s": [f"s{i % 3}" for i in ids]})


def busy_lake(catalog: Catalog) -> None:
    """Inlined rows, files, deletes of all kinds, and DDL in between."""
    with catalog.begin() as tx:
        columns = [NewColumn("id", "bigint"), NewColumn("s", "string")]
        tx.create_table("t", columns, cluster_by=["id"])
    for first, count in ((0, 3), (100, 30), (10, 2), (200, 40)):
        with catalog.begin() as tx:
            tx.insert_rows("t", rows(first, count))
    with catalog.begin() as tx:
        lakes.modify(tx, "t", lambda r: r["id"] in (1, 101, 205), None)
    with catalog.begin() as tx:
        lakes.modify(tx, "t", lambda r: r["id"] % 5 == 0, lambda r: r | {"s": "u"})
    with catalog.begin() as tx:
        tx.add_column("t", NewColumn("n", "int", initial=7))
    with catalog.begin() as tx:
        tx.insert_rows("t", rows(300, 4))
        tx.insert_rows("t", rows(400, 20))
    with catalog.begin() as tx:
        lakes.modify(tx, "t", lambda r: 400 <= r["id"] < 403 or r["id"] == 301, None)


def seen(catalog: Catalog) -> dict[int, Counter[Any]]:
    versions = range(catalog.oldest_version(), catalog.version() + 1)
    return {v: lakes.contents(catalog, "t", v) for v in versions if catalog.tables(v)}


def feeds(catalog: Catalog, versions: list[int]) -> dict[tuple[int, int], Counter[Any]]:
    pairs = itertools.combinations(versions, 2)
    return {(a, b): lakes.net(catalog, "t", a, b) for a, b in pairs}


def test_compaction_keeps_every_version_and_every_feed(folder: Path) -> None:
    with Catalog.open(str(folder), settings=TUNED) as catalog:
        busy_lake(catalog)
        before = seen(catalog)
        windows = feeds(catalog, list(before))
        newest = catalog.version()
        done = maintenance.compact(catalog, "t")
        assert (done.version, done.files_after) == (newest + 1, 1)
        assert done.inlined_rows > 0
        assert catalog.changes("t", newest).empty
        plan = catalog.scan("t")
        assert len(plan.files) == 1
        assert plan.inlined.num_rows == 0
        after = seen(catalog)
        assert {v: after[v] for v in before} == before
        assert feeds(catalog, list(before)) == windows
        lakes.agrees_with_duckdb(catalog, folder, "t", feed=False)
        again = maintenance.compact(catalog, "t")
        assert again.version == done.version


def test_life_goes_on_after_compaction(folder: Path) -> None:
    with Catalog.open(str(folder), settings=TUNED) as catalog:
        busy_lake(catalog)
        maintenance.compact(catalog, "t")
        with catalog.begin() as tx:
            lakes.modify(tx, "t", lambda r: r["id"] in (2, 102, 300), lambda r: r | {"s": "late"})
        with catalog.begin() as tx:
            lakes.modify(tx, "t", lambda r: r["id"] >= 200, None)
        maintenance.compact(catalog, "t")
        versions = seen(catalog)
        for (a, b), found in feeds(catalog, [v for v in versions if v >= 9]).items():
            assert found == lakes.difference(versions[a], versions[b]), (a, b)
        lakes.agrees_with_duckdb(catalog, folder, "t", feed=False)


def test_duckdbs_feed_of_a_compacted_table(folder: Path) -> None:
    with Catalog.open(str(folder), settings=TUNED) as catalog:
        with catalog.begin() as tx:
            tx.create_table("t", [NewColumn("id", "bigint"), NewColumn("s", "string")])
        for first in (0, 100, 200):
            with catalog.begin() as tx:
                tx.insert_rows("t", rows(first, 20))
                tx.insert_rows("t", rows(first + 50, 2))
        maintenance.compact(catalog, "t")
        with catalog.begin() as tx:
            lakes.modify(tx, "t", lambda r: r["id"] in (3, 105), None)
        lakes.agrees_with_duckdb(catalog, folder, "t")


def test_a_plan_made_earlier_stays_readable(folder: Path) -> None:
    from spark_trickle.storage.read.reader import read_scan

    with Catalog.open(str(folder), settings=TUNED) as catalog:
        busy_lake(catalog)
        plan: ScanPlan = catalog.scan("t")
        maintenance.compact(catalog, "t")
        maintenance.remove_orphans(catalog)
        assert read_scan(plan).num_rows == plan.rows
        old = {f.path for f in plan.files}
        assert maintenance.remove_orphans(catalog, grace_seconds=-60) >= len(old)
        assert not old & {p for p, _ in catalog.files.list(catalog.data_path)}
        assert catalog.scan("t").rows == plan.rows


def test_a_file_full_of_dead_rows_is_rewritten(folder: Path) -> None:
    with Catalog.open(str(folder), settings=TUNED) as catalog:
        with catalog.begin() as tx:
            tx.create_table("t", [NewColumn("id", "bigint"), NewColumn("s", "string")])
            tx.insert_rows("t", rows(0, 100))
        with catalog.begin() as tx:
            lakes.modify(tx, "t", lambda r: r["id"] >= 30, None)
        maintenance.expire(catalog)
        assert maintenance.compact(catalog, "t").files_after == 1
        (file,) = catalog.scan("t").files
        assert (file.rows, len(file.deleted)) == (30, 0)


def test_the_newest_version_meets_no_dead_rows(folder: Path) -> None:
    """They stay, for the versions that see them, in a file that has ended."""
    with Catalog.open(str(folder), settings=TUNED) as catalog:
        with catalog.begin() as tx:
            tx.create_table("t", [NewColumn("id", "bigint"), NewColumn("s", "string")])
            tx.insert_rows("t", rows(0, 100))
        for least in (60, 30):
            with catalog.begin() as tx:
                lakes.modify(tx, "t", lambda r, least=least: r["id"] >= least, None)
        before = seen(catalog)
        windows = feeds(catalog, list(before))
        assert maintenance.compact(catalog, "t").files_after == 1
        (file,) = catalog.scan("t").files
        assert (file.rows, len(file.deleted)) == (30, 0)
        with catalog.reading() as connection:
            dead = catalog.planner.dead(connection, catalog.table("t"), catalog.version())
        assert dead == {}
        newest = catalog.version()
        assert {v: rows for v, rows in seen(catalog).items() if v < newest} == before
        assert feeds(catalog, list(before)) == windows
        lakes.agrees_with_duckdb(catalog, folder, "t", feed=False)
        assert maintenance.compact(catalog, "t").version == newest
        maintenance.expire(catalog, older_than=0)
        assert maintenance.remove_orphans(catalog, grace_seconds=-60) >= 2
        assert len(list(folder.rglob("*.parquet"))) == 1


def test_expiry(open_lake: Any) -> None:
    catalog = open_lake(inline_row_limit=5, inline_delete_limit=8, retention_seconds=0.0)
    busy_lake(catalog)
    before = seen(catalog)
    newest = catalog.version()
    assert maintenance.expire(catalog, keep_from=6) == 6
    assert catalog.oldest_version() == 6
    assert seen(catalog) == {v: r for v, r in before.items() if v >= 6}
    with pytest.raises(NotFoundError, match="version 5 has expired; the oldest kept is 6"):
        catalog.scan("t", 5)
    with pytest.raises(SourceChangedError, match="version 5 of table t has expired"):
        catalog.changes("t", 5)
    assert maintenance.expire(catalog, older_than=3600.0) == 6
    assert maintenance.expire(catalog) == newest
    maintenance.compact(catalog, "t")
    maintenance.remove_orphans(catalog, grace_seconds=-60)
    assert seen(open_lake())[newest] == before[newest]
    with catalog.reading() as connection:
        known = maintenance.live_paths(connection, catalog.files)
    assert {p for p, _ in catalog.files.list(catalog.data_path)} == known


def test_expiry_for_duckdb(folder: Path) -> None:
    with Catalog.open(str(folder), settings=TUNED) as catalog:
        busy_lake(catalog)
        maintenance.expire(catalog, keep_from=8)
        lakes.agrees_with_duckdb(catalog, folder, "t", feed=False)
        maintenance.compact(catalog, "t")
        maintenance.expire(catalog)
        lakes.agrees_with_duckdb(catalog, folder, "t", feed=False)


def test_a_dropped_table_goes_when_its_versions_do(open_lake: Any) -> None:
    catalog = open_lake(inline_row_limit=5, inline_delete_limit=8, retention_seconds=0.0)
    busy_lake(catalog)
    with catalog.begin() as tx:
        tx.drop_table("t")
    assert maintenance.remove_orphans(catalog, grace_seconds=-60) <= 1
    old = catalog.version() - 1
    assert catalog.scan("t", old).rows == sum(lakes.contents(catalog, "t", old).values())
    maintenance.expire(catalog)
    maintenance.remove_orphans(catalog, grace_seconds=-60)
    assert catalog.files.list(catalog.data_path) == []
    with catalog.reading() as connection:
        assert not connection.execute("SELECT * FROM ducklake_inlined_data_tables")
        assert not connection.execute("SELECT * FROM ducklake_data_file")
        assert not connection.has_table("ducklake_inlined_data_1_1")
    with catalog.begin() as tx:
        tx.create_table("t", [NewColumn("id", "bigint")])
    assert catalog.scan("t").rows == 0


def test_orphans(folder: Path) -> None:
    with Catalog.open(str(folder), settings=TUNED) as catalog:
        busy_lake(catalog)
        tx = catalog.begin()
        tx.insert_rows("t", rows(900, 10))
        stray = folder / "data" / "main" / "t" / "part-0.parquet"
        stray.write_bytes(b"x")
        notes = folder / "data" / "notes.txt"
        notes.write_text("mine")
        assert maintenance.remove_orphans(catalog) == 0
        tx.commit()
        assert maintenance.remove_orphans(catalog, grace_seconds=-60) >= 1
        assert not stray.exists()
        assert notes.exists()
        assert catalog.scan("t").rows == sum(lakes.contents(catalog, "t").values())


def test_ids_of_columns_are_not_given_again(folder: Path) -> None:
    """Old files still have the values of a dropped column, whoever can see its versions."""
    with Catalog.open(str(folder), settings=TUNED) as catalog:
        with catalog.begin() as tx:
            tx.create_table("t", [NewColumn("id", "bigint"), NewColumn("s", "string")])
            tx.insert_rows("t", rows(0, 30))
        with catalog.begin() as tx:
            tx.drop_column("t", "s")
        assert maintenance.expire(catalog) == catalog.version()
        with catalog.begin() as tx:
            tx.add_column("t", NewColumn("s", "string"))
        assert {row["s"] for row in read_scan(catalog.scan("t")).to_pylist()} == {None}
        assert [file.doubtful for file in catalog.scan("t").files] == [{3}]
