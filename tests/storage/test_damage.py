"""Damage and foreign things: each a clear error that names the thing, and nothing is lost."""

from __future__ import annotations

import errno
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from spark_trickle.errors import CatalogError, StorageFullError, UserError
from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.files import disk
from spark_trickle.storage.files.filesystem import same_folder
from spark_trickle.storage.read.reader import read_scan
from spark_trickle.storage.records import NewColumn
from spark_trickle.storage.upkeep.maintenance import remove_orphans
from support import duck


def filled(folder: Path) -> None:
    with Catalog.open(str(folder), settings=Settings(inline_row_limit=0)) as catalog:
        with catalog.begin() as tx:
            tx.create_table("t", [NewColumn("a", "bigint")])
        with catalog.begin() as tx:
            tx.insert_rows("t", pa.table({"a": [1, 2]}))


def change_metadata(folder: Path, key: str, value: str) -> None:
    raw = sqlite3.connect(folder / "catalog.sqlite")
    with raw:
        raw.execute("UPDATE ducklake_metadata SET value = ? WHERE key = ?", (value, key))
    raw.close()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("version", "1.1-dev1", "has format version 1.1-dev1; this release reads 1.0"),
        ("version", "0.3", "has format version 0.3"),
        ("encrypted", "true", "is encrypted"),
    ],
)
def test_other_catalogs(folder: Path, key: str, value: str, message: str) -> None:
    filled(folder)
    change_metadata(folder, key, value)
    with pytest.raises(CatalogError, match=message) as caught:
        Catalog.open(str(folder))
    assert str(folder) in caught.value.message


def test_not_a_catalog(folder: Path) -> None:
    folder.mkdir()
    (folder / "catalog.sqlite").write_text("certainly not a database, but long enough to look at")
    with pytest.raises(CatalogError, match="is not a catalog"):
        Catalog.open(str(folder))
    (folder / "catalog.sqlite").unlink()
    raw = sqlite3.connect(folder / "catalog.sqlite")
    raw.execute("CREATE TABLE mine (a)")
    raw.close()
    with pytest.raises(CatalogError, match="SQLite database of something else"):
        Catalog.open(str(folder))


def test_puffin_delete_files_are_refused(folder: Path) -> None:
    filled(folder)
    raw = sqlite3.connect(folder / "catalog.sqlite")
    with raw:
        raw.execute(
            "INSERT INTO ducklake_delete_file VALUES (9, 1, 2, NULL, 0, 'd.puffin', 1, 'puffin', 1, 1, 1, NULL, NULL)"
        )
    raw.close()
    with (
        Catalog.open(str(folder)) as catalog,
        pytest.raises(CatalogError, match=r"d\.puffin of table t is puffin"),
    ):
        catalog.scan("t")


def test_a_data_file_gone_missing(folder: Path) -> None:
    filled(folder)
    with Catalog.open(str(folder)) as catalog:
        plan = catalog.scan("t")
        path = plan.files[0].path
        content = Path(path).read_bytes()
        Path(path).unlink()
        with pytest.raises(CatalogError, match=f"{path} of table t is missing"):
            read_scan(plan)
        Path(path).write_bytes(content[: len(content) // 2])
        with pytest.raises(CatalogError, match=f"{path} of table t cannot be read"):
            read_scan(plan)
        Path(path).write_bytes(content)
        assert read_scan(plan).num_rows == 2


def test_a_moved_lake_finds_its_files(folder: Path, tmp_path: Path) -> None:
    filled(folder)
    folder.rename(tmp_path / "elsewhere")
    with Catalog.open(str(tmp_path / "elsewhere")) as catalog:
        assert read_scan(catalog.scan("t")).to_pylist() == [{"a": 1}, {"a": 2}]
    assert duck.read(tmp_path / "elsewhere/catalog.sqlite", ["SELECT a FROM t ORDER BY a"]) == [
        [["1"], ["2"]]
    ]


def test_a_copied_lake_has_files_of_its_own(folder: Path, tmp_path: Path) -> None:
    filled(folder)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    with Catalog.open(str(folder)) as catalog, Catalog.open(str(copy)) as other:
        assert same_folder(other.data_path, str(copy / "data"))
        for number, each in enumerate((catalog, other), 3):
            tx = each.begin()
            tx.insert_rows("t", pa.table({"a": pa.array([number] * 2000)}))
            tx.commit()
            assert remove_orphans(each, grace_seconds=0.0) == 0
        for number, each in enumerate((catalog, other), 3):
            assert set(read_scan(each.scan("t")).column("a").to_pylist()) == {1, 2, number}
    assert duck.read(copy / "catalog.sqlite", ["SELECT count(*), max(a) FROM t"]) == [
        [["2002", "4"]]
    ]


def test_a_copy_without_its_files(folder: Path, tmp_path: Path) -> None:
    filled(folder)
    (tmp_path / "copy").mkdir()
    shutil.copy(folder / "catalog.sqlite", tmp_path / "copy")
    with pytest.raises(UserError, match="data files are not here"):
        Catalog.open(str(tmp_path / "copy"))


def test_a_new_lake_does_not_take_over_the_files_of_another(folder: Path, tmp_path: Path) -> None:
    filled(folder)
    with pytest.raises(UserError, match="holds data files already"):
        Catalog.open(str(tmp_path / "other"), str(folder / "data"))
    (folder / "catalog.sqlite").unlink()
    with pytest.raises(UserError, match="holds data files already"):
        Catalog.open(str(folder))


_FULL_DISK = """
import resource, signal, sys
import pyarrow as pa
from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.errors import TrickleError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
catalog = Catalog.open(sys.argv[1], settings=Settings(inline_row_limit=int(sys.argv[2])))
catalog.version()
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
tx = catalog.begin()
try:
    n = 300_000
    tx.insert_rows("t", pa.table({"a": pa.array([i * 2654435761 % 2**40 for i in range(n)])}))
    tx.commit()
except TrickleError as error:
    print(type(error).__name__, error.message)
"""


def test_no_room_for_a_file(folder: Path) -> None:
    """A limit on the size of files stands in for the end of the disk."""
    filled(folder)
    answer = subprocess.run(
        [sys.executable, "-c", _FULL_DISK, str(folder), "0"], capture_output=True, text=True
    )
    assert answer.stdout.startswith("StorageFullError no space is left to write "), answer.stderr
    assert f"{folder}/data/main/t/" in answer.stdout
    _as_before(folder)


def test_no_room_for_the_catalog(folder: Path) -> None:
    filled(folder)
    answer = subprocess.run(
        [sys.executable, "-c", _FULL_DISK, str(folder), "1000000000"],
        capture_output=True,
        text=True,
    )
    name = answer.stdout.split(" ")[0]
    assert name in ("StorageFullError", "CatalogError"), answer.stdout + answer.stderr
    assert str(folder) in answer.stdout
    _as_before(folder)


def _as_before(folder: Path) -> None:
    with Catalog.open(str(folder)) as catalog:
        assert catalog.version() == 2
        assert read_scan(catalog.scan("t")).to_pylist() == [{"a": 1}, {"a": 2}]
        assert len(catalog.files.list(catalog.data_path)) == 1
        with catalog.begin() as tx:
            tx.insert_rows("t", pa.table({"a": [3]}))
        assert catalog.scan("t").rows == 3


def test_errors_of_writing_in_our_words() -> None:
    full = disk.translate(OSError(errno.ENOSPC, "No space left on device"), "/lake/x")
    assert isinstance(full, StorageFullError)
    assert "/lake/x" in full.message
    other = disk.translate(OSError(errno.EACCES, "Permission denied"), "/lake/x")
    assert isinstance(other, CatalogError)


def test_postgres_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(CatalogError, match="needs the package psycopg") as caught:
        Catalog.open("postgresql://nowhere/db", "/tmp/data")
    assert caught.value.hint == "pip install 'spark-trickle[postgres]'"


def test_postgres_out_of_reach() -> None:
    with pytest.raises(CatalogError, match="cannot be used"):
        Catalog.open("postgresql://u:secret@127.0.0.1:1/db", "/tmp/data")
