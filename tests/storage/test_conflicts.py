"""Who may commit beside whom: the conflict matrix, the read set, and retries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from spark_trickle.errors import AlreadyExistsError, CommitConflictError, NotFoundError, UserError
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.commits.moving import Mover
from spark_trickle.storage.read.reader import read_scan
from spark_trickle.storage.records import NewColumn
from spark_trickle.storage.upkeep import compaction, maintenance
from spark_trickle.storage.versions.transaction import Transaction
from support import lakes

Step = Callable[[Transaction], object]


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "s": ["x"] * len(ids)})


def ids(catalog: Catalog, version: int | None = None) -> list[int]:
    return sorted(r["id"] for r in read_scan(catalog.scan("t", version)).to_pylist())


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


def delete_beside(tx: Transaction) -> None:
    """Another row of the same file, and another one in the catalog."""
    assert lakes.modify(tx, "t", lambda r: r["id"] in (2, 102), None) == 2


def update(tx: Transaction) -> None:
    """The rows of ``delete_inlined`` and ``delete_in_file``."""
    assert lakes.modify(tx, "t", lambda r: r["id"] in (1, 101), lambda r: r | {"s": "new"}) == 2


def merge(tx: Transaction) -> None:
    """Insert a key because it is not there."""
    tx.assume("t")
    tx.insert_rows("t", rows(3000))


STEPS: list[Step] = [
    insert, insert_file, delete_inlined, delete_in_file, delete_beside, update, merge, truncate,
    alter, rename, drop, read_only,
]  # fmt: skip
INSERTS = {insert, insert_file, merge}
CHANGED = {
    delete_inlined: {1}, delete_in_file: {101}, delete_beside: {2, 102}, update: {1, 101},
    truncate: {1, 2, 3, *range(100, 110)},
}  # fmt: skip
SHAPES = {alter, rename, drop}
START = [1, 2, 3, *range(100, 110)]


def clashes(mine: Step, theirs: Step) -> bool:
    """The matrix: what I do against what others committed since my base version."""
    if theirs is read_only:
        return False
    if mine is drop:
        return theirs is drop
    if theirs in SHAPES:
        return True
    if mine in (read_only, truncate):
        return True
    if mine is merge and theirs in {*INSERTS, update}:
        return True
    return bool(CHANGED.get(mine, set()) & CHANGED.get(theirs, set()))


def apply(step: Step, ids: Iterable[int]) -> list[int]:
    """What a step leaves of the ids that are there."""
    added = {insert: [1000], insert_file: [*range(2000, 2010)], merge: [3000]}
    gone = set() if step is update else CHANGED.get(step, set())
    return sorted([i for i in ids if i not in gone] + added.get(step, []))


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
            if not SHAPES & {mine, theirs}:
                left = apply(mine, apply(theirs, START))
                assert ids(catalog) == left
                assert ids(catalog, version - 1) == START


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


@pytest.mark.parametrize("mine", [delete_inlined, delete_in_file, delete_beside, update])
@pytest.mark.parametrize("newest", [False, True], ids=["as read", "moved"])
def test_deletes_and_updates_survive_compaction(lake: Catalog, mine: Step, newest: bool) -> None:
    tx = lake.begin()
    mine(tx)
    with lake.begin() as other:
        insert(other)
    assert maintenance.compact(lake, "t").files_before == 1
    assert tx.scan("t").rows == 13 - (0 if mine is update else len(CHANGED[mine]))
    version = lake.version()
    tx.commit(newest=newest)
    assert ids(lake) == sorted([*apply(mine, START), 1000])
    assert ids(lake, version) == [*START, 1000]
    changed = lakes.net(lake, "t", version, lake.version())
    assert sum(abs(n) for n in changed.values()) == (4 if mine is update else len(CHANGED[mine]))
    assert not maintenance.compact(lake, "t").table
    assert ids(lake) == sorted([*apply(mine, START), 1000])


@pytest.mark.parametrize("theirs", [delete_inlined, delete_in_file, update])
def test_a_row_changed_before_compaction_carried_it_conflicts(lake: Catalog, theirs: Step) -> None:
    """Its id is found in a new file, but it is not the row that was read."""
    transactions = [lake.begin(), lake.begin()]
    for tx in transactions:
        update(tx)
    with lake.begin() as other:
        theirs(other)
    maintenance.compact(lake, "t")
    for tx, newest in zip(transactions, (False, True), strict=True):
        with pytest.raises(CommitConflictError, match="table t lost rows"):
            tx.commit(newest=newest)
    assert ids(lake) == apply(theirs, START)


def test_without_a_look_at_the_rows_an_update_would_be_lost(
    lake: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the matrix of kinds alone lets both through."""
    monkeypatch.setattr(Mover, "moved", lambda self, staged, plan: staged)
    tx = lake.begin()
    lakes.modify(tx, "t", lambda r: r["id"] == 1, lambda r: r | {"s": "mine"})
    with lake.begin() as other:
        lakes.modify(other, "t", lambda r: r["id"] == 1, lambda r: r | {"s": "theirs"})
    tx.commit()
    found = [r["s"] for r in read_scan(lake.scan("t")).to_pylist() if r["id"] == 1]
    assert found != ["theirs"]


def test_a_transaction_compacted_under_deletes_each_row_once(lake: Catalog) -> None:
    """What it deleted in the old files stays deleted when it looks again, and can be rolled back."""
    tx = lake.begin()
    delete_in_file(tx)
    mark = tx.savepoint()
    delete_inlined(tx)
    maintenance.compact(lake, "t")
    delete_beside(tx)
    assert tx.scan("t").rows == 9
    tx.rebase()
    assert tx.scan("t").rows == 9
    tx.rollback_to(mark)
    assert tx.scan("t").rows == 12
    delete_beside(tx)
    tx.commit()
    assert ids(lake) == [1, 3, 100, *range(103, 110)]


@pytest.mark.parametrize("theirs", [delete_inlined, delete_in_file, update, truncate, insert])
def test_compaction_carries_what_died_meanwhile(
    lake: Catalog, location: tuple[str, str], monkeypatch: pytest.MonkeyPatch, theirs: Step
) -> None:
    write = compaction.written

    def written(*arguments: Any) -> Any:
        found = write(*arguments)
        with lake.begin() as other:
            theirs(other)
        with lake.begin() as other:
            other.insert_rows("t", rows(7))
        return found

    monkeypatch.setattr(compaction, "written", written)
    base = lake.version()
    before = {version: lakes.contents(lake, "t", version) for version in range(1, base + 1)}
    assert maintenance.compact(lake, "t").version == base + 3
    monkeypatch.undo()
    assert ids(lake) == sorted([*apply(theirs, START), 7])
    if "://" not in location[0]:
        lakes.agrees_with_duckdb(lake, location[0], "t")
    assert ids(lake, base + 1) == apply(theirs, START)
    assert {v: lakes.contents(lake, "t", v) for v in before} == before
    feed = lakes.net(lake, "t", base, base + 1)
    assert feed == lakes.difference(before[base], lakes.contents(lake, "t", base + 1))
    assert not lakes.net(lake, "t", base + 2, base + 3)
    maintenance.compact(lake, "t")
    assert ids(lake) == sorted([*apply(theirs, START), 7])


def test_without_a_record_of_the_others_there_is_no_commit(lake: Catalog) -> None:
    tx = lake.begin()
    update(tx)
    with lake.begin() as other:
        update(other)
    with lake.begin() as other:
        other.insert_rows("other", rows(1))
    maintenance.expire(lake, older_than=0)
    with pytest.raises(CommitConflictError, match="has expired"):
        tx.commit()


def test_not_null_is_not_set_over_a_null_that_came_meanwhile(lake: Catalog) -> None:
    tx = lake.begin()
    tx.assume("t")
    tx.alter_column("t", "s", "SET NOT NULL", None)
    with lake.begin() as other:
        other.insert_rows("t", pa.table({"id": pa.array([5], pa.int64())}))
    with pytest.raises(CommitConflictError, match="table t got new rows"):
        tx.commit(newest=True)


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
        delete_inlined(other)
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
    later = tx.savepoint()
    tx.rollback_to(mark)
    tx.savepoint()
    with pytest.raises(UserError, match="the savepoint is gone"):
        tx.rollback_to(later)
    tx.commit()
    assert {p for p, _ in lake.files.list(lake.data_path)} == files
    tx = lake.begin()
    insert_file(tx)
    tx.rollback()
    assert {p for p, _ in lake.files.list(lake.data_path)} == files
    assert sorted(r["id"] for r in read_scan(lake.scan("t")).to_pylist())[-1] == 1000
