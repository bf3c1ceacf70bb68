"""Two transactions that give one name: the second one loses, whatever the name is of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spark_trickle.errors import CommitConflictError
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import NewColumn, TableName, View
from spark_trickle.storage.versions.transaction import Transaction

GIVES: dict[str, Callable[[Transaction], object]] = {
    "table": lambda tx: tx.create_table("n", [NewColumn("a", "int")]),
    "view": lambda tx: tx.create_view(View(0, "main", "n", "SELECT 1 AS a")),
    "renamed t": lambda tx: tx.rename_table("t", "n"),
    "renamed other": lambda tx: tx.rename_table("other", "N"),
}


@pytest.fixture
def lake(open_lake: Any) -> Catalog:
    catalog: Catalog = open_lake()
    with catalog.begin() as tx:
        for name in ("t", "other"):
            tx.create_table(name, [NewColumn("id", "bigint")])
    return catalog


@pytest.mark.parametrize("second", GIVES)
@pytest.mark.parametrize("first", GIVES)
def test_one_name(lake: Catalog, first: str, second: str) -> None:
    one, two = lake.begin(), lake.begin()
    GIVES[first](one)
    GIVES[second](two)
    one.commit()
    with pytest.raises(CommitConflictError, match=r"created by another|was altered"):
        two.commit()


def test_at_read_committed_structures_that_moved_are_named(lake: Catalog) -> None:
    tx = lake.begin()
    tx.add_column("t", NewColumn("more", "int"))
    with lake.begin() as other:
        GIVES["renamed other"](other)
    with pytest.raises(CommitConflictError, match="changed the structure of N, and"):
        tx.commit(newest=True)


def test_a_name_that_is_given_up_is_free(lake: Catalog) -> None:
    with lake.begin() as tx:
        GIVES["renamed t"](tx)
        tx.create_view(View(0, "main", "t", "SELECT 1 AS a"))
    tx, other = lake.begin(), lake.begin()
    other.add_column("other", NewColumn("more", "int"))
    other.commit()
    tx.drop_view(TableName.of("t"))
    tx.rename_table("n", "t")
    GIVES["table"](tx)
    tx.commit()
    assert {"t", "n"} < {table.name for table in lake.tables()}


def test_a_view_in_a_schema_that_was_dropped(lake: Catalog) -> None:
    def made(tx: Transaction) -> object:
        return tx.create_view(View(0, "s", "n", "SELECT 1 AS a"))

    with lake.begin() as tx:
        tx.create_schema("s")
    making, dropping = lake.begin(), lake.begin()
    made(making)
    dropping.drop_schema("s")
    dropping.commit()
    with lake.begin() as again:
        again.create_schema("s")
    with pytest.raises(CommitConflictError, match="schema s was dropped"):
        making.commit()
    making, dropping = lake.begin(), lake.begin()
    dropping.drop_schema("s")
    made(making)
    making.commit()
    with pytest.raises(CommitConflictError, match=r"created s\.n in schema s"):
        dropping.commit()
