"""Who may commit beside whom: the conflict matrix, the read set, and retries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from spark_trickle.errors import AlreadyExistsError, CommitConflictError, NotFoundError
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.read.reader import read_scan
from spark_trickle.storage.records import NewColumn
from spark_trickle.storage.upkeep import maintenance
from spark_trickle.storage.versions.transaction import Transaction
from support import lakes

Step = Callable[[Transaction], object]


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "s": ["x"] * len(ids)})


def insert(tx: Transaction) -> None:
    tx.insert_rows("t", rows(1000))


def insert_file(tx: Transaction) -> None:
    tx.insert_rows("t", rows(*range(2000, 2010)))


def delete_inlined(tx: Transaction) -> None:
    assert lakes.modify(tx, "t", lambda r: r["id"] == 1, None) == 1


def delete_in_file(tx: Transaction) -> None:
    assert lakes.modify(tx, "t", lambda r: r["id"] == 101, None) == 1


def truncate(tx: Transaction) -> None:
    tx.truncate("t")


def alter(tx: Transaction) -> None:
    tx.add_column("t", NewColumn(f"c{tx.base}", "int"))


def rename(tx: Transaction) -> None:
    tx.rename_table("t", "u")


def drop(tx: Transaction) -> None:
    tx.drop_table("t")


def read_only(tx: Transaction) -> None:
    tx.read("t")
    tx.insert_rows("other", rows(1))


STEPS: list[Step] = [
    insert, insert_file, delete_inlined, delete_in_file, truncate, alter, rename, drop, read_only,
]  # fmt: skip
INSERTS, DELETES = {insert, insert_file}, {delete_inlined, delete_in_file, truncate}
SHAPES = {alter, rename, drop}


def clashes(mine: Step, theirs: Step) -> bool:
    """The matrix: what I do against what others committed since my base version."""
    if theirs is read_only:
        return False
    if mine in INSERTS:
        return theirs in SHAPES | DELETES
    if mine in DELETES or mine is read_only:
        return True
    if mine is drop:
        return theirs is drop
    return theirs in SHAPES


@pytest.fixture
def lake(open_lake: Any) -> Catalog:
    catalog: Catalog = open_lake(inline_row_limit=5)
    with catalog.begin() as tx:
        for name in ("t", "other"):
            tx.create_table(name, [NewColumn("id", "bigint"), NewColumn("s", "string")])
        tx.insert_rows("t", rows(1, 2, 3))
    with catalog.begin() as tx:
        tx.insert_rows("t", rows(*range(100, 110)))
    return catalog


@pytest.mark.parametrize("theirs", STEPS, ids=lambda s: s.__name__)
@pytest.mark.parametrize("mine", STEPS, ids=lambda s: s.__name__)
def test_matrix(folder: Any, mine: Step, theirs: Step) -> None:
    from spark_trickle.settings import Settings

    with Catalog.open(str(folder), settings=Settings(inline_row_limit=5)) as catalog:
        with catalog.begin() as tx:
            for name in ("t", "other"):
                tx.create_table(name, [NewColumn("id", "bigint"), NewColumn("s", "string")])
            tx.insert_rows("t", rows(1, 2, 3))
        with catalog.begin() as tx:
            tx.insert_rows("t", rows(*range(100, 110)))
        tx = catalog.begin()
        mine(tx)
        with catalog.begin() as other:
            theirs(other)
        version = catalog.version()
        if clashes(mine, theirs):
            with pytest.raises(CommitConflictError, match="table t .* in version"):
                tx.commit()
            assert catalog.version() == version
        else:
            assert tx.commit() == version + 1


def test_other_tables_never_conflict(lake: Catalog) -> None:
    tx = lake.begin()
    delete_inlined(tx)
    with lake.begin() as other:
        other.insert_rows("other", rows(5))
    tx.commit()
    assert lake.scan("t").rows == 12


def test_one_stale_half_refuses_the_whole(lake: Catalog) -> None:
    tx = lake.begin()
    tx.insert_rows("other", rows(1))
    delete_in_file(tx)
    with lake.begin() as other:
        delete_in_file(other)
    version = lake.version()
    with pytest.raises(CommitConflictError, match="table t lost rows"):
        tx.commit()
    assert lake.version() == version
    assert lake.scan("other").rows == 0


def test_compaction_does_not_move_a_table_that_was_read(lake: Catalog) -> None:
    tx = lake.begin()
    read_only(tx)
    assert maintenance.compact(lake, "t").version > tx.base
    tx.commit()


def test_compaction_conflicts_with_deletes(lake: Catalog) -> None:
    tx = lake.begin()
    delete_in_file(tx)
    maintenance.compact(lake, "t")
    with pytest.raises(CommitConflictError, match="table t was compacted"):
        tx.commit()


def test_same_name_created_twice(lake: Catalog) -> None:
    tx = lake.begin()
    tx.create_table("new", [NewColumn("a", "int")])
    tx.create_schema("s")
    with lake.begin() as other:
        other.create_table("NEW", [NewColumn("a", "int")])
    with pytest.raises(CommitConflictError, match="table new was created by another"):
        tx.commit()
    with pytest.raises(AlreadyExistsError, match="table new already exists"):
        lake.begin().create_table("new", [NewColumn("a", "int")])


def test_table_created_in_a_schema_that_was_dropped(lake: Catalog) -> None:
    with lake.begin() as tx:
        tx.create_schema("s")
    tx = lake.begin()
    tx.create_table("s.new", [NewColumn("a", "int")])
    with lake.begin() as other:
        other.drop_schema("s")
    with pytest.raises(CommitConflictError, match="schema s was dropped"):
        tx.commit()
    dropping = lake.begin()
    with lake.begin() as other:
        other.create_schema("s2")
    with pytest.raises(NotFoundError, match="schema s2 does not exist"):
        dropping.drop_schema("s2")


def test_an_empty_transaction_makes_no_version(lake: Catalog) -> None:
    version = lake.version()
    with lake.begin() as tx:
        tx.insert_rows("t", rows())
        lakes.modify(tx, "t", lambda r: r["id"] == -1, None)
        tx.read("t")
    assert lake.version() == version


def test_records_go_with_the_rows_or_not_at_all(lake: Catalog) -> None:
    with lake.writing() as connection:
        connection.execute("CREATE TABLE trickle_note (version BIGINT, note VARCHAR)")

    def note(text: str) -> Callable[[Any, int], None]:
        def write(connection: Any, version: int) -> None:
            connection.execute("INSERT INTO trickle_note VALUES (?, ?)", (version, text))

        return write

    tx = lake.begin()
    insert(tx)
    tx.record(note("kept"))
    version = tx.commit()
    stale = lake.begin()
    delete_inlined(stale)
    stale.record(note("lost"))
    with lake.begin() as other:
        insert(other)
    with pytest.raises(CommitConflictError):
        stale.commit()
    alone = lake.begin()
    alone.record(note("alone"))
    assert alone.commit() == lake.version()
    with lake.reading() as connection:
        found = connection.execute("SELECT version, note FROM trickle_note ORDER BY note")
    assert found == [(lake.version(), "alone"), (version, "kept")]


def test_a_failing_record_rolls_everything_back(lake: Catalog) -> None:
    def fail(_: Any, __: int) -> None:
        raise RuntimeError("no")

    version = lake.version()
    tx = lake.begin()
    insert_file(tx)
    tx.record(fail)
    with pytest.raises(RuntimeError, match="no"):
        tx.commit()
    assert lake.version() == version
    assert lake.scan("t").rows == 13


def test_savepoints_and_rollback_leave_nothing(lake: Catalog, location: tuple[str, str]) -> None:

    files = {p for p, _ in lake.files.list(lake.data_path)}
    tx = lake.begin()
    insert(tx)
    mark = tx.savepoint()
    insert_file(tx)
    tx.create_table("gone", [NewColumn("a", "int")])
    delete_in_file(tx)
    assert tx.scan("t").rows == 13 + 1 + 10 - 1
    tx.rollback_to(mark)
    assert tx.scan("t").rows == 14
    assert [t.name for t in tx.tables()] == ["other", "t"]
    insert_file(tx)
    tx.rollback_to(mark)
    tx.commit()
    assert {p for p, _ in lake.files.list(lake.data_path)} == files
    tx = lake.begin()
    insert_file(tx)
    tx.rollback()
    assert {p for p, _ in lake.files.list(lake.data_path)} == files
    assert sorted(r["id"] for r in read_scan(lake.scan("t")).to_pylist())[-1] == 1000
