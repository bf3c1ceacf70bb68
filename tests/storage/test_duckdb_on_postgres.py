"""One PostgreSQL catalog, two readers: DuckDB sees every version of our tables as we do, and we its."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import NewColumn
from spark_trickle.storage.upkeep import maintenance
from support import duck, lakes
from support.postgres import new_database

from .test_foreign import SCENARIOS

pytestmark = pytest.mark.postgres
TUNED = Settings(inline_row_limit=20, inline_delete_limit=5)


@pytest.fixture
def url(postgres_url: str) -> str:
    return new_database(postgres_url)


def insert(catalog: Catalog, table: str, first: int, count: int) -> None:
    with catalog.begin() as tx:
        numbers = pa.array(range(first, first + count), pa.int64())
        tx.insert_rows(table, pa.table({"a": numbers, "s": [f"s{i}" for i in range(count)]}))


def remove(catalog: Catalog, table: str, *numbers: int) -> None:
    with catalog.begin() as tx:
        assert lakes.modify(tx, table, lambda r: r["a"] in numbers, None) == len(numbers)


@pytest.fixture
def written(url: str, tmp_path: Path) -> Catalog:
    """Table t: files, inlined rows, both kinds of deletes, updates; u: its columns change as well."""
    with Catalog.open(url, str(tmp_path / "data"), TUNED) as catalog:
        with catalog.begin() as tx:
            for name in ("t", "u"):
                tx.create_table(name, [NewColumn("a", "bigint"), NewColumn("s", "string")])
        for name in ("t", "u"):
            insert(catalog, name, 0, 40)
            insert(catalog, name, 100, 5)
            remove(catalog, name, 3, 101)
            remove(catalog, name, *range(10, 20))
        with catalog.begin() as tx:
            lakes.modify(tx, "t", lambda r: r["a"] % 25 == 0, lambda r: r | {"s": "new"})
            lakes.modify(tx, "u", lambda r: r["a"] == 7, None)
        with catalog.begin() as tx:
            tx.add_column("u", NewColumn("z", "int", default="7"))
            tx.rename_column("u", "s", "text")
        with catalog.begin() as tx:
            tx.drop_column("u", "a")
            tx.truncate("t")
        insert(catalog, "t", 200, 30)
    return catalog


def test_duckdb_reads_every_version(written: Catalog, url: str) -> None:
    with Catalog.open(url, settings=TUNED) as catalog:
        assert catalog.version() == 13
        lakes.agrees_with_duckdb(catalog, url, "t")
        lakes.agrees_with_duckdb(catalog, url, "u", feed=False)
        assert maintenance.compact(catalog, "t").version == 14
        insert(catalog, "t", 300, 2)
        lakes.agrees_with_duckdb(catalog, url, "t", feed=False)


@pytest.mark.parametrize(
    "name",
    [
        "inlined rows of all flat types",
        "inlined deletes of file rows",
        "a dropped, a renamed and an added column",
    ],
)
def test_we_read_what_duckdb_wrote(url: str, tmp_path: Path, name: str) -> None:
    duck.run([duck.attach(url, tmp_path / "data"), "USE lk"], SCENARIOS[name])
    with Catalog.open(url) as catalog:
        lakes.agrees_with_duckdb(catalog, url, "t", feed="column" not in name)


def test_both_write_in_turn(url: str, tmp_path: Path) -> None:
    """DuckDB does not mind our own tables beside its own, nor we that it leaves them alone."""
    theirs = [duck.attach(url, tmp_path / "data"), "USE lk"]
    duck.run(theirs, ["CREATE TABLE t (a BIGINT, s VARCHAR)", "INSERT INTO t VALUES (1, 'x')"])
    with Catalog.open(url, settings=TUNED) as catalog:
        insert(catalog, "t", 10, 30)
        duck.run(theirs, ["INSERT INTO t VALUES (2, 'y')", "DELETE FROM t WHERE a = 12"])
        remove(catalog, "t", 1, 13)
        lakes.agrees_with_duckdb(catalog, url, "t")
