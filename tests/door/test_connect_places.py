"""connect: what is no lake and no place for one is refused, and leaves nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import spark_trickle
from spark_trickle import NotFoundError, TrickleError, UserError
from spark_trickle.storage.catalog.catalog import Catalog


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "location",
    [
        "",
        "  ",
        "s3://bucket/lake",
        Path("s3://bucket/lake"),
        "s3a://bucket",
        "gs://bucket/lake",
        "hdfs://host/lake",
        "mysql://host/db",
        "MySQL://host/db",
        "sqlite:///x.sqlite",
        "duckdb://x",
        "jdbc:postgresql://host/db",
        "postgresql:/host/db",
        "http://host",
        "file:///somewhere/lake",
    ],
)
def test_no_folder_is_made_of_what_is_no_folder(here: Path, location: str | Path) -> None:
    with pytest.raises(UserError) as caught:
        spark_trickle.connect(location)
    assert caught.value.hint
    assert os.listdir(here) == []


@pytest.mark.parametrize("data_path", ["", "mysql://host/db", "postgresql://h/d", Path("s3://b/x")])
def test_nor_of_a_data_path(here: Path, data_path: str | Path) -> None:
    with pytest.raises(UserError):
        spark_trickle.connect("lake", data_path=data_path)
    assert os.listdir(here) == []


def test_objects_are_for_data_files(here: Path) -> None:
    with pytest.raises(UserError) as caught:
        spark_trickle.connect("s3://bucket/lake")
    assert 'data_path="s3://bucket/lake"' in str(caught.value.hint)


def test_a_file_is_no_lake(here: Path) -> None:
    spark_trickle.connect("lake").close()
    with pytest.raises(UserError, match="is a file") as caught:
        spark_trickle.connect("lake/catalog.sqlite")
    assert caught.value.hint == f"give {here / 'lake'}"
    Path("notes.txt").write_text("x")
    with pytest.raises(UserError, match="is a file"):
        spark_trickle.connect("notes.txt")


def test_a_lake_that_must_be_there(here: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no lake in"):
        spark_trickle.connect("lkae", create=False)
    assert os.listdir(here) == []
    (here / "empty").mkdir()
    with pytest.raises(NotFoundError):
        spark_trickle.connect("empty", create=False)
    assert os.listdir(here / "empty") == []
    spark_trickle.connect("lake").close()
    with spark_trickle.connect("lake", create=False) as lake:
        assert lake.version == 0


def test_odd_folders_are_folders(here: Path) -> None:
    for name in ("a b", "x=1", "./c:d", "ünïcode", "p/q/r"):
        with spark_trickle.connect(name) as lake:
            lake.sql("CREATE TABLE t (a INT)")
        with Catalog.open(name, create=False) as catalog:
            assert [t.name for t in catalog.tables()] == ["t"]


@pytest.mark.parametrize(
    "call",
    [
        lambda lake: spark_trickle.connect(None),
        lambda lake: spark_trickle.connect(3),
        lambda lake: spark_trickle.connect("x", settings={"a": 1}),
        lambda lake: spark_trickle.connect("x", spark="local[2]"),
        lambda lake: spark_trickle.connect("x", create="no"),
        lambda lake: lake.sql(None),
        lambda lake: lake.sql(7),
        lambda lake: lake.sql("SHOW TABLES", dialect=None),
        lambda lake: lake.append(5, []),
        lambda lake: lake.append("t", 5),
        lambda lake: lake.append("t", None),
        lambda lake: lake.append("t", "text"),
        lambda lake: lake.append("t", [1, 2]),
        lambda lake: lake.append("t", {"a": 1}),
        lambda lake: lake.table(None),
        lambda lake: lake.table("t", version="1"),
        lambda lake: lake.table("t", version=True),
        lambda lake: lake.table("t", version=-1),
        lambda lake: lake.changes("t", "a"),
        lambda lake: lake.changes("t", None),
        lambda lake: lake.change_summary("t", 0, 1.5),
        lambda lake: lake.compact(3),
        lambda lake: lake.expire(keep_from="x"),
        lambda lake: lake.remove_orphans(grace_seconds="x"),
        lambda lake: lake.create_stream_table(None, "SELECT 1"),
        lambda lake: lake.create_stream_table("s", None),
        lambda lake: lake.create_stream_table("s", "SELECT 1 AS x", schedule=5),
        lambda lake: lake.create_stream_table("s", "SELECT 1 AS x", refresh_mode=None),
        lambda lake: lake.refresh_stream_table(["s"]),
        lambda lake: lake.refresh_stream_table("s", full="yes"),
        lambda lake: lake.refresh_all(errors="ignore"),
        lambda lake: lake.refresh_all(errors=True),
        lambda lake: lake.alter_stream_table("s", status=1),
        lambda lake: lake.drop_stream_table(1),
        lambda lake: lake.explain(None),
        lambda lake: lake.explain("t", stage=3),
        lambda lake: lake.verify(None),
        lambda lake: lake.refresh_history(1),
        lambda lake: lake.transaction().sql(None),
        lambda lake: lake.transaction().append("t", 4),
        lambda lake: lake.transaction().table(None),
    ],
)
def test_arguments_of_wrong_types(here: Path, dry_lake: spark_trickle.Lake, call) -> None:
    dry_lake.sql("CREATE TABLE t (a INT)")
    before = sorted(os.listdir(here))
    with pytest.raises(TrickleError):
        call(dry_lake)
    assert sorted(os.listdir(here)) == before


def test_right_arguments_pass(dry_lake: spark_trickle.Lake) -> None:
    dry_lake.sql("CREATE TABLE t (a INT)")
    assert dry_lake.append("t", [{"a": 1}]) == 1
    assert dry_lake.remove_orphans(grace_seconds=5) == 0
    assert dry_lake.change_summary("t", 0, after=None).inserted == 1
