"""Plans: pruning by bounds, what a feed reads, caching, and cheap answers from metadata."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.read.pruning import SortedValues, keeps
from spark_trickle.storage.read.reader import read_changes, read_scan
from spark_trickle.storage.records import ROW_ID, WEIGHT, Bounds, DataFile, NewColumn, TableName
from spark_trickle.storage.upkeep.compaction import compact
from spark_trickle.storage.upkeep.maintenance import expire
from support import lakes


@pytest.fixture
def sorted_lake(folder: Path) -> Any:
    with Catalog.open(str(folder), settings=Settings(inline_row_limit=3)) as catalog:
        with catalog.begin() as tx:
            columns = [
                NewColumn("id", "bigint"),
                NewColumn("s", "string"),
                NewColumn("d", "date"),
                NewColumn("f", "double"),
            ]
            tx.create_table("t", columns, primary_key=["id"])
        for first in (0, 100, 200):
            with catalog.begin() as tx:
                ids = [first + i * 37 % 50 for i in range(50)]
                data = {
                    "id": ids,
                    "s": [f"{i:05}" for i in ids],
                    "d": pa.array([i % 28 + first for i in range(50)], pa.int32()).cast(
                        pa.date32()
                    ),
                    "f": [float("nan") if first == 200 else float(i) for i in ids],
                }
                tx.insert_rows("t", pa.table(data))
        yield catalog


def starts(plan: Any) -> list[int]:
    return sorted(f.row_id_start for f in plan.files)


@pytest.mark.parametrize(
    ("conditions", "kept"),
    [
        ({"id": (120, 130)}, [50]),
        ({"ID": (49, 100)}, [0, 50]),
        ({"id": (None, 10)}, [0]),
        ({"id": (250, None)}, []),
        ({"id": {5, 205}}, [0, 100]),
        ({"id": {77}}, []),
        ({"id": [None]}, []),
        ({"s": ("00100", "00149")}, [50]),
        ({"d": (date(1970, 4, 11), date(1970, 4, 12))}, [50]),
        ({"f": (1000.0, None)}, [100]),
        ({"f": {float("nan")}}, [100]),
        ({"id": (0, 20), "s": ("00100", None)}, []),
        ({"unknown": {1}}, [0, 50, 100]),
    ],
)
def test_pruning(sorted_lake: Catalog, conditions: Any, kept: list[int]) -> None:
    with sorted_lake as catalog:
        assert starts(catalog.scan("t").prune(conditions)) == kept


def test_files_are_sorted_by_the_key(sorted_lake: Catalog) -> None:
    ids = [r["id"] for r in read_scan(sorted_lake.scan("t")).to_pylist()]
    assert ids == sorted(ids)


VALUES = st.one_of(st.none(), st.floats(allow_nan=True), st.integers(-5, 5).map(float))


@given(st.lists(VALUES, max_size=6), st.lists(VALUES, max_size=4), VALUES, VALUES)
def test_pruning_never_loses_a_row(
    held: list[Any], wanted: list[Any], low: float | None, high: float | None
) -> None:
    numbers = [v for v in held if v is not None and not math.isnan(v)]
    bounds = Bounds(
        min(numbers, default=None),
        max(numbers, default=None),
        held.count(None),
        len(held) - held.count(None),
        any(v is not None and math.isnan(v) for v in held),
    )
    file = DataFile(1, "f", len(held), 1, 0, 1, bounds={1: bounds})
    same = {repr(v) for v in held if v != 0} | {0.0 for v in held if v == 0}
    hit = any((0.0 if v == 0 else repr(v)) in same for v in wanted)
    assert keeps(file, {1: SortedValues.of(wanted)}) or not hit
    if not any(x is not None and math.isnan(x) for x in (low, high)):
        inside = [v for v in held if v is not None and _within(v, low, high)]
        assert keeps(file, {1: (low, high)}) or not inside


def _within(value: float, low: float | None, high: float | None) -> bool:
    """Spark's order: NaN is above everything."""
    if math.isnan(value):
        return high is None
    return (low is None or value >= low) and (high is None or value <= high)


def test_a_feed_touches_only_what_changed(sorted_lake: Catalog) -> None:
    catalog = sorted_lake
    before = catalog.version()
    with catalog.begin() as tx:
        lakes.modify(tx, "t", lambda r: r["id"] == 110, None)
    with catalog.begin() as tx:
        tx.insert_rows("t", pa.table({"id": [500]}))
    plan = catalog.changes("t", before)
    (change,) = plan.files
    assert (change.file.row_id_start, change.weight, change.rows) == (50, -1, 1)
    assert plan.bytes == change.file.bytes
    assert (plan.inserted_rows, plan.deleted_rows) == (1, 1)
    assert not plan.insert_only
    assert sorted(r["id"] for r in read_changes(plan).to_pylist()) == [110, 500]
    assert catalog.changes("t", before + 1).insert_only
    assert catalog.changes("t", catalog.version()).empty
    assert catalog.changes("t", 0).inserted_rows == 150


def test_the_feed_of_an_open_transaction(sorted_lake: Catalog) -> None:
    tx = sorted_lake.begin()
    assert tx.changes("t").empty
    tx.insert_rows("t", pa.table({"id": [7000]}))
    lakes.modify(tx, "t", lambda r: r["id"] in (7000, 110), lambda r: r | {"s": "u"})
    plan = tx.changes("t")
    assert (plan.inserted_rows, plan.deleted_rows) == (2, 1)
    found = {(r["id"], r["s"]): r["__weight"] for r in read_changes(plan).to_pylist()}
    assert found == {(7000, "u"): 1, (110, "u"): 1, (110, "00110"): -1}
    tx.truncate("t")
    assert tx.changes("t").deleted_rows == 150
    assert tx.scan("t").rows == 0
    tx.rollback()


def test_plans_are_kept(sorted_lake: Catalog) -> None:
    plan = sorted_lake.scan("t")
    assert sorted_lake.scan("t") is plan
    with sorted_lake.begin() as tx:
        tx.create_table("other", [NewColumn("a", "int")])
    assert sorted_lake.scan("t", plan.version) is plan


def test_updates_keep_row_ids(sorted_lake: Catalog) -> None:
    def ids() -> dict[int, int]:
        rows = read_scan(sorted_lake.scan("t"), ["id"], row_ids=True).to_pylist()
        return {r["id"]: r["__row_id"] for r in rows}

    before = ids()
    for wanted in ({1, 2}, set(range(100, 120)), {1}):
        with sorted_lake.begin() as tx:
            lakes.modify(tx, "t", lambda r, w=wanted: r["id"] in w, lambda r: r | {"s": "u"})
    assert ids() == before


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("t", ("main", "t")),
        ("s.t", ("s", "t")),
        ("`a.b`.`c``d`", ("a.b", "c`d")),
        ("`t`", ("main", "t")),
    ],
)
def test_names(text: str, parts: tuple[str, str]) -> None:
    assert TableName.of(text) == TableName(*parts)


@pytest.mark.parametrize("seed", range(6))
def test_plans_that_are_kept_are_those_made_anew(folder: Path, seed: int) -> None:
    """One who watches all along, one who writes, and one who opens the lake just now."""
    chance = Random(seed)
    settings = Settings(inline_row_limit=20)
    with (
        Catalog.open(str(folder), settings=settings) as writer,
        Catalog.open(str(folder), settings=settings) as watcher,
    ):
        with writer.begin() as tx:
            for name in ("t", "other"):
                tx.create_table(name, [NewColumn("a", "bigint")])
        before = made = writer.version()
        for step in range(40):
            _change(writer, chance, step)
            with Catalog.open(str(folder), settings=settings) as fresh:
                oldest, newest = max(made, fresh.oldest_version()), fresh.version()
                versions = {newest, chance.randint(oldest, newest)}
                for version in versions:
                    wanted = _values(read_scan(fresh.scan("t", version)))
                    for catalog in (watcher, writer):
                        assert _values(read_scan(catalog.scan("t", version))) == wanted
                since = max(before, oldest)
                changes = _values(read_changes(fresh.changes("t", since)))
                assert _values(read_changes(watcher.changes("t", since))) == changes
                before = chance.choice((before, newest))


def _values(rows: pa.Table) -> list[tuple[Any, ...]]:
    shown = [n for n in rows.column_names if n in ("a", WEIGHT)]
    return sorted(zip(*(rows.column(name).to_pylist() for name in shown), strict=True))


def _change(catalog: Catalog, chance: Random, step: int) -> None:
    kind = chance.choice(("insert", "insert", "delete", "other", "many", "compact", "expire"))
    if kind == "compact":
        compact(catalog, "t")
        return
    if kind == "expire":
        expire(catalog, older_than=0.0, keep_from=catalog.version() - chance.randint(0, 3))
        return
    with catalog.begin() as tx:
        plan = tx.scan("t")
        if kind == "delete" and plan.rows:
            ids = plan.inlined.column(ROW_ID).to_pylist()
            files = {plan.files[0].id: pa.array([0])} if plan.files and not ids else {}
            live = not files or 0 not in plan.files[0].deleted.to_pylist()
            tx.delete_rows("t", files if live else {}, ids[: chance.randint(1, 3)])
        else:
            count = 30 if kind == "many" else chance.randint(1, 3)
            name = "other" if kind == "other" else "t"
            tx.insert_rows(name, pa.table({"a": [step * 100 + n for n in range(count)]}))


def test_a_commit_to_another_table_plans_nothing_anew(folder: Path, monkeypatch: Any) -> None:
    with Catalog.open(str(folder)) as catalog:
        with catalog.begin() as tx:
            for name in ("t", "other"):
                tx.create_table(name, [NewColumn("a", "bigint")])
        with catalog.begin() as tx:
            tx.insert_rows("t", pa.table({"a": range(5000)}))
        assert catalog.scan("t").rows == 5000
        made = []
        monkeypatch.setattr(catalog.planner, "scan", lambda *_: made.append("scan"))
        monkeypatch.setattr(catalog.planner, "moved_inlined", lambda *_: made.append("moved"))
        with catalog.begin() as tx:
            tx.insert_rows("other", pa.table({"a": [1]}))
        assert catalog.scan("t").rows == 5000
        assert catalog.scan("t").version == catalog.version()
        assert catalog.changes("t", catalog.version() - 1).empty
        assert made == []


def test_what_happened_before_others_expired_it_is_not_missed(open_lake: Any) -> None:
    """The record of how a table changed is gone: nobody takes its last change that is known for newest."""
    one, other = open_lake(inline_row_limit=0), open_lake()
    with one.begin() as tx:
        tx.create_table("t", [NewColumn("id", "bigint")])
        tx.insert_rows("t", pa.table({"id": pa.array([1, 2], pa.int64())}))
    assert other.scan("t").rows == 2
    with one.begin() as tx:
        tx.truncate("t")
    for name in ("later", "last"):
        with one.begin() as tx:
            tx.create_table(name, [NewColumn("id", "bigint")])
    expire(one, keep_from=one.version(), older_than=0)
    assert other.scan("t").rows == 0
    with other.begin() as tx:
        assert tx.scan("t").rows == 0
