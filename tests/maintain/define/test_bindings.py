"""Sources as queries know them, without Spark: by identity, whatever they are called now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_trickle import Lake
from spark_trickle.errors import NotFoundError
from spark_trickle.maintain.records.bound import Binding, bound_from_json
from spark_trickle.storage.read.reader import read_changes, read_scan


@pytest.fixture
def then(dry_lake: Lake) -> Binding:
    dry_lake.sql(
        "CREATE TABLE t (a INT NOT NULL COMMENT 'x', b STRING DEFAULT 'd', s STRUCT<`o o`: INT>, "
        "PRIMARY KEY (a))"
    )
    dry_lake.sql("INSERT INTO t (a, b) VALUES (1, 'one'), (2, 'two')")
    return Binding.of(dry_lake._catalog.table("t"))


def test_a_binding_survives_as_text(then: Binding) -> None:
    assert bound_from_json(then.json) == then
    assert then.primary_key == ("a",)
    assert then.columns[2].children[0].name == "o o"


def test_a_source_is_shown_as_it_was(dry_lake: Lake, then: Binding) -> None:
    lake, catalog = dry_lake, dry_lake._catalog
    uuid, before = catalog.table("t").uuid, lake.version
    lake.sql("ALTER TABLE t ADD COLUMN c INT DEFAULT 7")
    for column, to in [("a", "x"), ("b", "a"), ("x", "b")]:
        lake.sql(f"ALTER TABLE t RENAME COLUMN {column} TO {to}")
    lake.sql("ALTER TABLE t RENAME TO u")
    lake.sql("CREATE TABLE t (z INT)")
    lake.sql("INSERT INTO t VALUES (9)")
    lake.sql("INSERT INTO u (b, a) VALUES (3, 'three')")
    table = catalog.find(uuid)
    assert str(table) == "u"
    shown = then.show("t", table)
    assert (str(shown), [c.name for c in shown.columns]) == ("t", ["a", "b", "s"])
    assert then.retyped(table) == []
    everything = [(1, "one"), (2, "two"), (3, "three")]
    assert _pairs(read_scan(catalog.scan(shown))) == everything
    assert _pairs(read_scan(catalog.scan(shown, before))) == everything[:2]
    assert _pairs(read_changes(catalog.changes(shown, before))) == everything[2:]
    assert [c.name for c in catalog.scan("t").table.columns] == ["z"], "no mixture in memory"
    with catalog.begin() as tx:
        tx.insert_rows("u", read_scan(tx.scan("u")).slice(0, 1))
        assert tx.find(uuid) == table
        assert _pairs(read_scan(tx.scan(shown))) == [*everything[:1], *everything]
        assert _pairs(read_changes(tx.changes(shown))) == everything[:1]
        tx.rename_table("u", "v")
        assert str(tx.find(uuid)) == "v"
        tx.drop_table("v")
        with pytest.raises(NotFoundError):
            tx.scan(shown)


def test_what_no_longer_fits(dry_lake: Lake, then: Binding) -> None:
    table = dry_lake._catalog.table("t")
    a, b, s = table.columns
    wider = replace(a, type="bigint", storage_type="int64")
    assert then.retyped(replace(table, columns=(wider, b, s))) == [
        "column a was int NOT NULL and is bigint NOT NULL"
    ]
    assert then.retyped(replace(table, columns=(replace(a, nullable=True), b, s)))
    assert not then.retyped(replace(table, columns=(a, replace(b, nullable=False), s)))
    inner = replace(s, children=(replace(s.children[0], id=99),))
    assert then.retyped(replace(table, columns=(a, b, inner))), "another field of that name"
    others = replace(table, columns=(a, replace(b, id=99), s))
    assert then.lacking(others, {"a", "b"}) == ["b"]
    assert then.lacking(others, {"a", "s"}) == []


def _pairs(rows) -> list[tuple[int, str]]:
    return sorted((row["a"], row["b"]) for row in rows.to_pylist())
