"""The connection to PostgreSQL breaks at COMMIT: nothing committed is lost, nothing is done twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

import spark_trickle
from spark_trickle.errors import CatalogError, CommitUnknownError, TransientError
from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import NewColumn
from spark_trickle.storage.upkeep import maintenance
from spark_trickle.storage.versions.transaction import Transaction
from support import lakes, proxy
from support.postgres import new_database
from support.proxy import Cut, Proxy

pytestmark = pytest.mark.postgres
TUNED = Settings(inline_row_limit=20, busy_timeout_seconds=10)
HASTY = Settings(inline_row_limit=20, busy_timeout_seconds=0.5)
SIZES = pytest.mark.parametrize("count", [3, 50], ids=["inlined", "in a file"])


@pytest.fixture
def url(postgres_url: str) -> str:
    return new_database(postgres_url)


@pytest.fixture
def wire(url: str) -> Iterator[Proxy]:
    with proxy.before(url) as found:
        yield found


@pytest.fixture
def direct(url: str, tmp_path: Path) -> Iterator[Catalog]:
    """The lake by a connection that holds; table t has one row and is at version 2."""
    with Catalog.open(url, str(tmp_path / "data"), TUNED) as catalog:
        with catalog.begin() as tx:
            tx.create_table("t", [NewColumn("a", "bigint")])
        insert(catalog, 1)
        yield catalog


def insert(catalog: Catalog, count: int) -> int:
    return inserting(catalog, count).commit()


def inserting(catalog: Catalog, count: int) -> Transaction:
    tx = catalog.begin()
    tx.insert_rows("t", pa.table({"a": range(count)}))
    return tx


def through(wire: Proxy, settings: Settings = TUNED) -> Catalog:
    return Catalog.open(wire.url, settings=settings)


def rows(catalog: Catalog) -> int:
    return sum(lakes.contents(catalog, "t").values())


def files(catalog: Catalog) -> int:
    """How many data files there are; all that are needed must be."""
    there = {path for path, _ in catalog.files.list(catalog.data_path)}
    with catalog.reading() as connection:
        needed = maintenance.live_paths(connection, catalog.files)
    assert needed <= there
    return len(there)


@SIZES
@pytest.mark.parametrize("cut", [Cut.AFTER, Cut.DURING])
def test_a_commit_without_an_answer(direct: Catalog, wire: Proxy, cut: Cut, count: int) -> None:
    with through(wire) as catalog:
        wire.cut = cut
        wire.at_cut = lambda: insert(direct, 1)  # a later version is no obstacle
        assert insert(catalog, count) == 3
        assert wire.cuts == 1
        assert lakes.contents(catalog, "t", 3).total() == 1 + count
        assert rows(direct) == 1 + count + (cut is Cut.AFTER)
        assert files(direct) == (count > 20)
        newest = direct.version()
        assert insert(catalog, 1) == newest + 1


@SIZES
def test_a_commit_that_did_not_arrive(direct: Catalog, wire: Proxy, count: int) -> None:
    with through(wire) as catalog:
        tx = inserting(catalog, count)
        wire.cut = Cut.BEFORE
        wire.at_cut = lambda: insert(direct, 2)  # takes the version that ours would have had
        with pytest.raises(TransientError, match="nothing was committed"):
            tx.commit()
        assert (direct.version(), rows(direct), files(direct)) == (3, 3, 0)
        assert insert(catalog, count) == 4
        assert rows(direct) == 3 + count


@SIZES
@pytest.mark.parametrize("cut", [Cut.AFTER, Cut.BEFORE])
def test_a_server_out_of_reach(direct: Catalog, wire: Proxy, cut: Cut, count: int) -> None:
    committed = cut is Cut.AFTER
    wire.reachable_after = False
    with through(wire, HASTY) as catalog:
        tx = inserting(catalog, count)
        wire.cut = cut
        with pytest.raises(CommitUnknownError, match="may or may not") as caught:
            tx.commit()
        tx.rollback()  # as a caller does whose statement failed
    assert files(direct) == (count > 20)
    assert marked(direct, caught.value) == committed
    assert rows(direct) == 1 + count * committed
    maintenance.remove_orphans(direct, grace_seconds=-60)
    assert files(direct) == (count > 20 and committed)
    assert rows(direct) == 1 + count * committed


def marked(direct: Catalog, error: CommitUnknownError) -> bool:
    """Does what the hint says."""
    found = re.search(r"SELECT 1 FROM trickle_commit WHERE .* AND number = \d+", str(error.hint))
    assert found is not None
    with direct.reading() as connection:
        return bool(connection.execute(found[0]))


@pytest.mark.parametrize("cut", [Cut.AFTER, Cut.BEFORE])
def test_statements_are_not_repeated(direct: Catalog, wire: Proxy, cut: Cut) -> None:
    """Autocommit tries again after conflicts, never after a commit that may have taken effect."""
    wire.reachable_after = False
    with spark_trickle.connect(wire.url, settings=HASTY) as lake:
        lake.append("t", pa.table({"a": [1]}))
        wire.cut = cut
        with pytest.raises(CommitUnknownError):
            lake.append("t", pa.table({"a": range(5)}))
    assert wire.cuts == 1
    assert rows(direct) == 2 + 5 * (cut is Cut.AFTER)


@pytest.mark.parametrize("reachable", [True, False])
@pytest.mark.parametrize("cut", [Cut.AFTER, Cut.BEFORE])
def test_compaction(direct: Catalog, wire: Proxy, cut: Cut, reachable: bool) -> None:
    for _ in range(2):
        insert(direct, 30)
    wire.reachable_after = reachable
    with through(wire, TUNED if reachable else HASTY) as catalog:
        wire.cut = cut
        if reachable and cut is Cut.AFTER:
            assert maintenance.compact(catalog, "t").version == 5
        else:
            kind = TransientError if reachable else CommitUnknownError
            with pytest.raises(kind):
                maintenance.compact(catalog, "t")
    assert rows(direct) == 61
    assert files(direct) == (2 if reachable and cut is Cut.BEFORE else 3)
    maintenance.remove_orphans(direct, grace_seconds=-60)
    assert files(direct) == (2 if cut is Cut.BEFORE else 1)
    assert rows(direct) == 61


def test_records_without_a_version(direct: Catalog, wire: Proxy) -> None:
    with through(wire) as catalog:
        with catalog.writing() as connection:
            connection.execute("CREATE TABLE trickle_log (n BIGINT)")
        for cut in (Cut.AFTER, Cut.BEFORE):
            wire.cut = cut
            try:
                with catalog.writing() as connection:
                    connection.execute("INSERT INTO trickle_log VALUES (1)")
            except TransientError:
                assert cut is Cut.BEFORE
            else:
                assert cut is Cut.AFTER
        with direct.reading() as connection:
            assert connection.execute("SELECT n FROM trickle_log") == [(1,)]


def test_connections_that_broke_while_idle(direct: Catalog, wire: Proxy) -> None:
    with through(wire) as catalog:
        wire.break_all()
        assert insert(catalog, 1) == 3
        wire.break_all()
        assert catalog.version() == 3
    assert rows(direct) == 2


def test_a_failure_that_a_record_hides(direct: Catalog) -> None:
    """PostgreSQL undoes such a transaction at COMMIT without an error: that is no commit."""
    tx = inserting(direct, 50)
    tx.record(_swallow)
    with pytest.raises(CatalogError, match="transaction is aborted"):
        tx.commit()
    assert (direct.version(), rows(direct), files(direct)) == (2, 1, 0)


def _swallow(connection: object, version: int) -> None:
    try:
        connection.execute("SELECT no_such_column")  # type: ignore[attr-defined]
    except psycopg.Error:
        return


def test_marks_are_few_and_go(url: str, direct: Catalog) -> None:
    for _ in range(5):
        insert(direct, 1)
    with psycopg.connect(url, autocommit=True) as raw:
        assert raw.execute("SELECT count(*) FROM trickle_commit").fetchone() == (1,)
        raw.execute("UPDATE trickle_commit SET at = now() - interval '8 days'")
        raw.execute("INSERT INTO trickle_commit VALUES ('young', 1, now() - interval '6 days')")
        with Catalog.open(url) as other:
            insert(other, 1)
        left = {w for (w,) in raw.execute("SELECT writer FROM trickle_commit")}
        assert len(left) == 2
        assert "young" in left
        insert(direct, 1)
        assert raw.execute("SELECT count(*) FROM trickle_commit").fetchone() == (3,)


def test_an_interrupted_commit_keeps_its_files(direct: Catalog) -> None:
    """Ctrl-C may come just after the server has committed."""
    tx = inserting(direct, 50)

    def interrupt(connection: object, version: int) -> None:
        raise KeyboardInterrupt

    tx.record(interrupt)
    with pytest.raises(KeyboardInterrupt):
        tx.commit()
    tx.rollback()
    assert (rows(direct), files(direct)) == (1, 1)
