"""Somebody who may only read: everything that reads works, everything that writes says why not."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import spark_trickle
from spark_trickle.errors import CatalogError, ReadOnlyError
from spark_trickle.maintain.records import streams
from spark_trickle.maintain.records.history import RefreshReport, add_history
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.read.reader import read_scan
from support.postgres import new_database
from support.readers import Reader, as_reader, forbid_writing, open_folder

QUERY = "SELECT b, count(*) AS n FROM t GROUP BY b"


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as opened:
        yield opened / "lake"


def fill(location: Path | str, data_path: str | None = None) -> None:
    """A lake with rows in the catalog and in files, and the record of a stream table."""
    with spark_trickle.connect(location, data_path=data_path) as lake:
        lake.sql("CREATE TABLE t (a INT, b STRING)")
        lake.sql("INSERT INTO t VALUES (1, 'x')")
        lake.append("t", pa.table({"a": range(5000), "b": ["y"] * 5000}))
        report = RefreshReport("s", "FULL", "FIRST: filled")
        with lake._catalog.writing() as connection:
            streams.save(connection, streams.StreamTable("some-uuid", "s", QUERY))
            add_history(connection, "some-uuid", report, 10)


def look(location: Path | str) -> str:
    """What a reader sees, and what it is told when it writes."""
    with spark_trickle.connect(location) as lake:
        assert [t.name for t in lake.tables()] == ["t"]
        assert read_scan(lake._catalog.scan("t")).num_rows == 5001
        assert read_scan(lake._catalog.scan("t", lake.version - 1)).num_rows == 1
        assert lake.listing("SHOW TABLES").num_rows == 1
        assert lake.change_summary("t", lake.version - 1).inserted == 5000
        assert [s.name for s in lake.stream_tables()] == ["s"]
        assert [r.effective_mode for r in lake.refresh_history()] == ["FULL"]
        assert "Incremental" in lake.explain(QUERY)
        with lake.transaction() as tx:
            assert tx.base == lake.version
        writes = {
            "insert": lambda: lake.sql("INSERT INTO t VALUES (2, 'z')"),
            "append": lambda: lake.append("t", pa.table({"a": range(5000), "b": ["y"] * 5000})),
            "create": lambda: lake.sql("CREATE TABLE u (a INT)"),
            "drop": lambda: lake.sql("DROP TABLE t"),
            "truncate": lambda: lake.sql("TRUNCATE TABLE t"),
            "compact": lake.compact,
            "expire": lambda: lake.expire(older_than=0),
            "stream": lambda: lake.sql("ALTER STREAM TABLE s SUSPEND"),
        }
        for name, write in writes.items():
            with pytest.raises(ReadOnlyError, match="the lake is read-only for you"):
                print(name, write())
        assert read_scan(lake._catalog.scan("t")).num_rows == 5001
    return "fine"


def test_a_folder_without_the_right_to_write(folder):
    fill(folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert not (folder / "catalog.sqlite-wal").exists(), "nobody has it open"
    forbid_writing(folder)
    with open_folder() as scratch:
        scratch.chmod(0o777)

        def work() -> str:
            tempfile.tempdir = str(scratch)
            return look(folder)

        assert as_reader(work) == "fine"
        assert os.listdir(scratch) == [], "no copy of the catalog is left"
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_the_catalog_may_be_written_but_not_its_folder(folder):
    fill(folder)
    forbid_writing(folder)
    (folder / "catalog.sqlite").chmod(0o666)
    assert as_reader(lambda: look(folder)) == "fine"


def test_no_lake_there(folder):
    folder.mkdir()
    forbid_writing(folder)

    def work() -> str:
        for place in (folder, folder / "below"):
            with pytest.raises(CatalogError) as caught:
                spark_trickle.connect(place)
            assert "may not make one" in str(caught.value) or "read-only" in str(caught.value)
        return "fine"

    assert as_reader(work) == "fine"


def test_reading_along_with_a_writer(folder):
    """While the writer has the catalog open, its commits are seen; so they are after it closed."""
    fill(folder)

    def count(catalog: Catalog) -> int:
        return int(read_scan(catalog.scan("t")).num_rows)

    def work() -> str:
        with Catalog.open(str(folder)) as catalog:
            seen = [count(catalog)]
            (flags / "ready").touch()
            for step in ("written", "closed", "again"):
                while not (flags / step).exists():
                    time.sleep(0.01)
                seen.append(count(catalog))
                (flags / f"{step}-seen").touch()
        return str(seen)

    def told(name: str) -> None:
        (flags / name).touch()
        while not (flags / f"{name}-seen").exists():
            time.sleep(0.01)

    with open_folder() as flags:
        flags.chmod(0o777)
        reader = Reader(work)
        while not (flags / "ready").exists():
            time.sleep(0.01)
        with spark_trickle.connect(folder) as lake:
            lake.sql("INSERT INTO t VALUES (2, 'z')")
            assert (folder / "catalog.sqlite-wal").exists()
            told("written")
            lake.sql("INSERT INTO t VALUES (3, 'z')")
        told("closed")
        with spark_trickle.connect(folder) as lake:
            lake.sql("INSERT INTO t VALUES (4, 'z')")
            told("again")
        assert reader.answer() == "[5001, 5002, 5003, 5004]"


def test_a_log_without_its_index(folder):
    """As a backup may have caught it: what is only in the log is part of the catalog."""
    fill(folder)
    with spark_trickle.connect(folder) as lake:
        lake.sql("INSERT INTO t VALUES (2, 'z')")
        caught = folder.with_name("caught")
        shutil.copytree(folder, caught, ignore=shutil.ignore_patterns("*-shm"))
        assert (caught / "catalog.sqlite-wal").stat().st_size
    forbid_writing(caught)

    def work() -> int:
        with Catalog.open(str(caught)) as catalog:
            return int(catalog.scan("t").rows)

    assert as_reader(work) == "5002"


def test_reads_are_whole_while_writers_come_and_go(folder):
    fill(folder)
    stop = folder.with_name("stop")

    def work() -> str:
        seen, reads = 0, 0
        with Catalog.open(str(folder)) as catalog:
            while not stop.exists():
                with catalog.reading() as connection:
                    pairs = "SELECT count(*), min(begin_snapshot) FROM ducklake_table"
                    ((tables, _),) = connection.execute(pairs)
                    ((versions,),) = connection.execute(
                        "SELECT max(snapshot_id) FROM ducklake_snapshot"
                    )
                    ((made,),) = connection.execute(
                        "SELECT count(*) FROM ducklake_snapshot_changes WHERE changes_made LIKE 'created_table%'"
                    )
                assert tables == made, (tables, made)
                assert versions >= seen
                seen, reads = versions, reads + 1
        return f"{seen} {reads > 5}"

    reader = Reader(work)
    for number in range(30):
        with spark_trickle.connect(folder) as lake:
            lake.sql(f"CREATE TABLE u{number} (a INT)")
            newest = lake.version
    time.sleep(0.3)
    stop.touch()
    assert reader.answer() == f"{newest} True"


@pytest.mark.postgres
def test_a_role_that_may_only_select(postgres_url, tmp_path):
    import psycopg

    url = new_database(postgres_url)
    fill(url, str(tmp_path / "data"))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    assert look(url.replace("lake@", "reader@")) == "fine"
    assert len(list((tmp_path / "data").rglob("*.parquet"))) == 1
