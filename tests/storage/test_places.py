"""One folder under many spellings: each is the same lake, and nothing that is needed goes away."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

from spark_trickle.errors import CatalogError, UserError
from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.files.filesystem import FileSystem, canonical
from spark_trickle.storage.records import NewColumn, NewFile
from spark_trickle.storage.upkeep import maintenance
from support.lakes import agrees_with_duckdb, contents, modify, rows_of

ODD = "od d%20%é 試#?[a-b]{c,d}*~+&=;'x"
SPELLINGS = {
    "plain": lambda folder: str(folder),
    "uri": lambda folder: folder.as_uri(),
    "short-uri": lambda folder: "file:" + quote(str(folder)),
    "host-uri": lambda folder: "file://localhost" + quote(str(folder)) + "/",
    "relative": lambda folder: os.path.relpath(folder),
    "home": lambda folder: "~/" + folder.relative_to(Path.home()).as_posix(),
    "dotted": lambda folder: f"{folder}/../{folder.name}//.",
}


@pytest.fixture(params=["data", ODD], ids=["usual", "odd"])
def place(request, tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / request.param


def with_table(location: Path | str, data_path: str) -> Catalog:
    catalog = Catalog.open(str(location), data_path, Settings(inline_row_limit=10))
    with catalog.begin() as tx:
        tx.create_table("t", [NewColumn("a", "int"), NewColumn("b", "string")])
    return catalog


def insert(catalog: Catalog, start: int, count: int) -> None:
    numbers = range(start, start + count)
    rows = rows_of(catalog, "t", {"a": numbers, "b": [str(n) for n in numbers]})
    with catalog.begin() as tx:
        tx.insert_rows("t", rows)


def on_disk(folder: Path) -> set[str]:
    found = (Path(root) / name for root, _, names in os.walk(folder) for name in names)
    return {os.path.realpath(path) for path in found}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_all_that_storage_does(tmp_path, place, spelling):
    location = tmp_path / "lake"
    with with_table(location, SPELLINGS[spelling](place)) as catalog:
        assert catalog.data_path == f"{place}/"
        insert(catalog, 0, 5)
        insert(catalog, 100, 50)
        insert(catalog, 200, 50)
        with catalog.begin() as tx:
            modify(tx, "t", lambda r: r["a"] < 103, lambda r: {**r, "b": "new"})
        with catalog.begin() as tx:
            modify(tx, "t", lambda r: r["a"] > 247, None)
        expected = contents(catalog, "t")
        assert sum(expected.values()) == 103
        if spelling in ("plain", "uri"):
            agrees_with_duckdb(catalog, location, "t")
        undone = catalog.begin()
        undone.insert_rows("t", rows_of(catalog, "t", {"a": range(50), "b": ["x"] * 50}))
        files = on_disk(place)
        undone.rollback()
        assert len(files - on_disk(place)) == 1
        compacted = maintenance.compact(catalog, "t")
        assert (compacted.files_before, compacted.files_after) == (2, 1)
        assert contents(catalog, "t") == expected
        maintenance.expire(catalog, older_than=0)
        orphan = place / "main" / "t" / "left-behind.parquet"
        orphan.touch()
        assert maintenance.remove_orphans(catalog, grace_seconds=3600) == 0
        time.sleep(0.01)
        there = on_disk(place)
        assert maintenance.remove_orphans(catalog, grace_seconds=0) == len(there) - 1 > 2
        assert contents(catalog, "t") == expected
        assert on_disk(place) == {f.path for f in catalog.scan("t").files}
        assert maintenance.remove_orphans(catalog, grace_seconds=0) == 0
        if spelling == "uri":
            agrees_with_duckdb(catalog, location, "t", feed=False)
    with Catalog.open(str(location)) as again:
        assert contents(again, "t") == expected


def test_the_catalog_itself_under_odd_names(tmp_path, place):
    for location in (place, "~/" + place.name):
        with Catalog.open(str(location)) as catalog:
            if not catalog.tables():
                with catalog.begin() as tx:
                    tx.create_table("t", [NewColumn("a", "int")])
            assert [t.name for t in catalog.tables()] == ["t"]
            assert catalog.data_path == f"{place}/data/"
    assert sorted(p.name for p in tmp_path.iterdir()) == [place.name]


def test_a_lake_that_was_made_with_a_uri(tmp_path):
    """DuckDB, or an earlier release, may have stored the spelling of its user."""
    place = tmp_path / "da ta"
    with with_table(tmp_path / "lake", str(place)) as catalog:
        insert(catalog, 0, 50)
        with catalog.writing() as connection:
            connection.execute(
                "UPDATE ducklake_metadata SET value = ? WHERE key = 'data_path'",
                (place.as_uri() + "/",),
            )
    with Catalog.open(str(tmp_path / "lake"), settings=Settings(inline_row_limit=10)) as catalog:
        assert catalog.data_path == f"{place}/"
        insert(catalog, 50, 50)
        assert maintenance.remove_orphans(catalog, grace_seconds=0) == 0
        assert sum(contents(catalog, "t").values()) == 100


def test_a_staging_folder_with_committed_files(tmp_path):
    """Files may be committed where their writer left them: clean-up takes only the rest."""
    from spark_trickle.storage.files import parquet

    with with_table(tmp_path / "lake", str(tmp_path / "data")) as catalog:
        tx = catalog.begin()
        table = tx.table("t")
        folder = f"{table.location}staging"
        tx.discard(folder)
        schema = parquet.file_schema(table.columns)
        rows = pa.table({"a": [1, 2], "b": ["x", "y"]}).cast(schema)
        for name in ("used", "unused"):
            parquet.write(table.files, f"{folder}/{name}.parquet", rows)
        tx.insert_files("t", [NewFile(f"{folder}/used.parquet")])
        tx.commit()
        assert sum(contents(catalog, "t").values()) == 2
        assert on_disk(tmp_path / "data") == {f"{folder}/used.parquet"}


class TestRemoval:
    @pytest.fixture
    def lake(self, tmp_path) -> Iterator[Catalog]:
        with with_table(tmp_path / "lake", str(tmp_path / "data")) as catalog:
            insert(catalog, 0, 50)
            insert(catalog, 50, 50)
            yield catalog

    def test_it_refuses_when_a_live_file_is_missing(self, lake, tmp_path):
        first, second = (file.path for file in lake.scan("t").files)
        shutil.move(first, tmp_path / "elsewhere.parquet")
        Path(second).with_name("orphan.parquet").touch()
        maintenance.expire(lake, older_than=0)
        with pytest.raises(CatalogError, match="nothing was removed: 1 of 2 files") as caught:
            maintenance.remove_orphans(lake, grace_seconds=-1)
        assert first in str(caught.value)
        assert len(on_disk(tmp_path / "data")) == 2
        shutil.move(tmp_path / "elsewhere.parquet", first)
        assert maintenance.remove_orphans(lake, grace_seconds=-1) == 1

    def test_it_refuses_in_an_empty_folder(self, lake, tmp_path):
        """As when the disk of the data is not mounted, or what is mounted there is another."""
        with lake.begin() as tx:
            modify(tx, "t", lambda r: r["a"] >= 0, None)
        (tmp_path / "data").rename(tmp_path / "unmounted")
        other = tmp_path / "data" / "somebody" / "else.parquet"
        other.parent.mkdir(parents=True)
        other.touch()
        with pytest.raises(CatalogError, match="2 of 2 files"):
            maintenance.remove_orphans(lake, grace_seconds=-1)
        assert other.exists()

    def test_files_known_by_another_name_stay(self, lake, tmp_path):
        """A lake reached through a link, its files recorded by their real names."""
        (tmp_path / "link").symlink_to(tmp_path / "data", target_is_directory=True)
        with lake.writing() as connection:
            connection.execute(
                "UPDATE ducklake_data_file SET path = ? || path, path_is_relative = 0",
                (lake.table("t").location,),
            )
            connection.execute(
                "UPDATE ducklake_metadata SET value = ? WHERE key = 'data_path'",
                (str(tmp_path / "link") + "/",),
            )
        with Catalog.open(str(tmp_path / "lake")) as linked:
            assert linked.data_path == str(tmp_path / "link") + "/"
            assert maintenance.remove_orphans(linked, grace_seconds=-1) == 0
            assert sum(contents(linked, "t").values()) == 100


def test_where_files_cannot_be(tmp_path):
    for wrong in ("gs://bucket/x", "hdfs://host/x", "s3://", "file://otherhost/x"):
        with pytest.raises(UserError, match="cannot be"):
            Catalog.open(str(tmp_path / "lake"), wrong)
    with pytest.raises(UserError, match="Spark cannot read files in"):
        Catalog.open(str(tmp_path / "lake"), str(tmp_path / "a:b" / "[c]"))
    assert canonical("s3a://b//c/") == "s3://b/c"


def test_secrets_are_not_shown(tmp_path):
    settings = Settings(storage={"secret_key": "hidden!"}, spark={"fs.s3a.secret.key": "hidden!"})
    assert "hidden!" not in repr(settings)
    assert "hidden!" not in repr(FileSystem("s3://b/", settings.storage))
    with pytest.raises(UserError, match="no entry pasword") as caught:
        Catalog.open(str(tmp_path / "lake"), settings=Settings(storage={"pasword": "hidden!"}))
    assert "hidden!" not in str(caught.value)


def test_a_commit_that_fails_leaves_nothing(tmp_path):
    """Delete files are written under the lock: they too go when nothing comes of it."""
    settings = Settings(inline_row_limit=10, inline_delete_limit=5)
    with with_table(tmp_path / "lake", str(tmp_path / "data")) as catalog:
        insert(catalog, 0, 50)
        before = on_disk(tmp_path / "data")
        with Catalog.open(str(tmp_path / "lake"), settings=settings) as other:
            tx = other.begin()
            modify(tx, "t", lambda r: r["a"] < 20, lambda r: {**r, "b": "new"})
            there: list[set[str]] = []

            def refuse(connection: object, version: int) -> None:
                there.append(on_disk(tmp_path / "data"))
                raise CatalogError("no")

            tx.record(refuse)
            with pytest.raises(CatalogError, match="no"):
                tx.commit()
            assert len(there[0] - before) == 2, "the new rows and a delete file"
            assert on_disk(tmp_path / "data") == before
            with other.begin() as again:
                modify(again, "t", lambda r: r["a"] < 20, None)
            assert len(on_disk(tmp_path / "data") - before) == 1, "the delete file of the version"
            assert sum(contents(other, "t").values()) == 30
