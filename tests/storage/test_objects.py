"""Data files in an object store: what storage does without Spark, over ``s3://``."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from spark_trickle.errors import CatalogError
from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.files import parquet
from spark_trickle.storage.records import NewColumn, NewFile
from spark_trickle.storage.upkeep import maintenance
from support import objects
from support.lakes import contents, modify, rows_of

pytestmark = pytest.mark.objects


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with objects.server() as found:
        yield found


@pytest.fixture
def catalog(tmp_path, storage) -> Iterator[Catalog]:
    settings = Settings(inline_row_limit=10, inline_delete_limit=5, storage=storage)
    place = f"s3a://{objects.BUCKET}/{tmp_path.name}/od d%20é"
    with Catalog.open(str(tmp_path / "lake"), place, settings) as opened:
        with opened.begin() as tx:
            tx.create_table("t", [NewColumn("a", "int"), NewColumn("b", "string")])
        yield opened


def insert(catalog: Catalog, start: int, count: int) -> None:
    numbers = range(start, start + count)
    rows = rows_of(catalog, "t", {"a": numbers, "b": [str(n) for n in numbers]})
    with catalog.begin() as tx:
        tx.insert_rows("t", rows)


def there(catalog: Catalog) -> set[str]:
    return {path for path, _ in catalog.files.list(catalog.data_path)}


def test_all_that_storage_does(catalog, tmp_path, storage):
    assert catalog.data_path == f"s3://{objects.BUCKET}/{tmp_path.name}/od d%20é/"
    insert(catalog, 0, 5)
    insert(catalog, 100, 50)
    insert(catalog, 200, 50)
    with catalog.begin() as tx:
        modify(tx, "t", lambda r: r["a"] < 120, lambda r: {**r, "b": "new"})
    with catalog.begin() as tx:
        modify(tx, "t", lambda r: r["a"] > 247, None)
    expected = contents(catalog, "t")
    assert sum(expected.values()) == 103
    undone = catalog.begin()
    undone.insert_rows("t", rows_of(catalog, "t", {"a": range(50), "b": ["x"] * 50}))
    files = there(catalog)
    undone.rollback()
    assert len(files - there(catalog)) == 1
    compacted = maintenance.compact(catalog, "t")
    assert compacted.files_after == 1
    assert contents(catalog, "t") == expected
    maintenance.expire(catalog, older_than=0)
    with catalog.files.output(f"{catalog.table('t').location}left-behind.parquet") as sink:
        sink.write(b"x")
    left = there(catalog)
    assert maintenance.remove_orphans(catalog, grace_seconds=3600) == 0
    assert maintenance.remove_orphans(catalog, grace_seconds=-60) == len(left) - 1
    assert there(catalog) == {file.path for file in catalog.scan("t").files}
    assert contents(catalog, "t") == expected
    with Catalog.open(str(tmp_path / "lake"), settings=Settings(storage=storage)) as again:
        assert contents(again, "t") == expected


def test_a_staging_folder_with_committed_files(catalog):
    """Nothing is moved in a store: what Spark wrote is committed in the folder it was written to."""
    tx = catalog.begin()
    table = tx.table("t")
    folder = f"{table.location}staging"
    tx.discard(folder)
    rows = pa.table({"a": [1, 2], "b": ["x", "y"]}).cast(parquet.file_schema(table.columns))
    for name in ("used", "unused"):
        parquet.write(table.files, f"{folder}/{name}.parquet", rows)
    tx.insert_files("t", [NewFile(f"{folder}/used.parquet")])
    tx.commit()
    assert there(catalog) == {f"{folder}/used.parquet"}
    assert sum(contents(catalog, "t").values()) == 2


def test_removal_refuses_when_a_live_file_is_missing(catalog):
    insert(catalog, 0, 50)
    insert(catalog, 50, 50)
    catalog.files.remove(catalog.scan("t").files[0].path)
    with pytest.raises(CatalogError, match="nothing was removed: 1 of 2 files"):
        maintenance.remove_orphans(catalog, grace_seconds=-60)
    with pytest.raises(CatalogError, match="is missing"):
        contents(catalog, "t")


def test_a_spark_started_here_gets_the_same_settings(storage):
    from spark_trickle.spark.sessions.storage import hadoop_options

    assert hadoop_options({}) == {}
    found = hadoop_options({**storage, "region": "there", "session_token": "short-lived"})
    assert {key.removeprefix("spark.hadoop.fs.s3a."): value for key, value in found.items()} == {
        "endpoint": storage["endpoint"],
        "endpoint.region": "there",
        "access.key": "someone",
        "secret.key": "secret",
        "session.token": "short-lived",
        "path.style.access": "true",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    }


def test_errors_name_the_place_and_no_secret(tmp_path, storage):
    wrong = Settings(inline_row_limit=10, storage=storage)
    with Catalog.open(str(tmp_path / "lake"), "s3://no-such-bucket/x", wrong) as catalog:
        with catalog.begin() as tx:
            tx.create_table("t", [NewColumn("a", "int"), NewColumn("b", "string")])
        with pytest.raises(
            CatalogError, match="s3://no-such-bucket/x/.* cannot be written"
        ) as caught:
            insert(catalog, 0, 50)
        assert storage["secret_key"] not in str(caught.value)
