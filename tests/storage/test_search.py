"""Rows looked for by their values: nothing wanted is left out, and little else is read."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_trickle.errors import CatalogError
from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.files import parquet
from spark_trickle.storage.read.column_cache import Taken
from spark_trickle.storage.read.reader import read_scan
from spark_trickle.storage.read.search import Search, ValueSet, search
from spark_trickle.storage.records import NewColumn
from support import lakes

ROWS, GROUP = 60, 10
NAN = float("nan")
COLUMNS = {
    "id": "bigint",
    "name": "string",
    "day": "date",
    "price": "decimal(9,2)",
    "share": "double",
    "at": "timestamp_ntz",
    "tags": "array<int>",
}


def value(kind: str, number: int) -> Any:
    match kind:
        case "bigint":
            return number
        case "string":
            return f"n{number:03}"
        case "date":
            return date.fromordinal(700_000 + number)
        case "decimal(9,2)":
            return Decimal(number) / 4
        case "double":
            return NAN if number % 20 == 3 else number / 8
        case "timestamp_ntz":
            return datetime(2024, 1, 1, number // 60, number % 60)
        case _:
            return [number, number + 1]


@pytest.fixture
def lake(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    """Two files of six row groups each, sorted by id, with dead rows and one row of NULLs."""
    monkeypatch.setattr(parquet, "ROW_GROUP", GROUP)
    settings = Settings(inline_row_limit=0, cache_bytes=0)
    with Catalog.open(str(folder), settings=settings) as catalog:
        with catalog.begin() as tx:
            tx.create_table("t", [NewColumn(*item) for item in COLUMNS.items()], cluster_by=["id"])
        for first in (0, ROWS):
            with catalog.begin() as tx:
                numbers = range(first, first + ROWS)
                data: dict[str, Sequence[Any]] = {
                    name: [None if n == 77 else value(kind, n) for n in numbers]
                    for name, kind in COLUMNS.items()
                }
                tx.insert_rows("t", lakes.rows_of(catalog, "t", data))
        with catalog.begin() as tx:
            lakes.modify(tx, "t", lambda row: row["id"] in (5, 9, 10, 64), None)
        yield catalog


def found(search: Search, names: Sequence[str]) -> dict[int, list[tuple[Any, ...]]]:
    """Rows by file, in the order of their positions; each must be where the search says."""
    table = search.plan.table
    columns = [column for column in table.columns if column.name in names]
    rows: dict[int, list[tuple[Any, ...]]] = {}
    for piece in search.read(columns):
        assert piece.rows.num_rows == len(piece.positions)
        for row, position in zip(piece.rows.to_pylist(), piece.positions.to_pylist(), strict=True):
            rows.setdefault(piece.file.id, []).append((position, *row.values()))
    return rows


def test_only_row_groups_that_may_hold_a_key_are_read(lake: Catalog) -> None:
    search = Search(lake.scan("t"), {"id": [12, 13]})
    ((_, rows),) = found(search, ["id", "name"]).items()
    assert rows == [(n, n, f"n{n:03}") for n in range(11, 20)], "live rows of the second group"
    both = Search(lake.scan("t"), {"id": [0, 61]})
    assert [len(rows) for rows in found(both, ["id"]).values()] == [GROUP - 2, GROUP - 1]
    assert found(Search(lake.scan("t"), {"id": [500]}), ["id"]) == {}
    assert sum(map(len, found(Search(lake.scan("t"), {}), ["id"]).values())) == 2 * ROWS - 4


def test_bytes_are_those_of_the_columns_that_are_read(lake: Catalog) -> None:
    plan = lake.scan("t")
    one, every = Search(plan, {"id": [12]}), Search(plan, {})
    columns = {column.name: column for column in plan.table.columns}
    for chosen in ([columns["id"]], [columns["name"], columns["tags"]]):
        assert one.bytes(chosen) == sum(piece.bytes for piece in one.read(chosen)) > 0
        assert every.bytes(chosen) > 10 * one.bytes(chosen) > 0
    everything = every.bytes(plan.table.columns)
    assert everything == sum(every.bytes([column]) for column in plan.table.columns)
    assert everything < plan.bytes


@pytest.mark.parametrize("seed", range(30))
def test_nothing_wanted_is_left_out(lake: Catalog, seed: int) -> None:
    draw = random.Random(seed)
    flat = [name for name in COLUMNS if name != "tags"]
    chosen = draw.sample(flat, draw.randint(1, 2))
    numbers = draw.sample(range(2 * ROWS), draw.randint(1, 4))
    conditions = {name: [value(COLUMNS[name], n) for n in numbers] for name in chosen}
    if draw.random() < 0.3:
        conditions[chosen[0]].append(None)
    plan = lake.scan("t")
    rows = [(row, position) for row, _, position in lakes.located(plan)]
    wanted = {
        (position, row["id"])
        for row, position in rows
        if all(_among(row[name], values) for name, values in conditions.items())
    }
    read = {row for part in found(Search(plan, conditions), ["id"]).values() for row in part}
    assert wanted <= read
    assert read <= {(position, row["id"]) for row, position in rows}, "none is dead or misplaced"


def _among(value: Any, values: Sequence[Any]) -> bool:
    return any(v == value or (v != v and value != value) for v in values)


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_meet_a_choice(lake: Catalog, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search gives exactly the rows of a filter over everything."""
    draw = random.Random(seed)
    monkeypatch.setattr(
        "spark_trickle.storage.read.search._BATCH", draw.choice([1, 2 * GROUP, 1_000])
    )
    plan = lake.scan("t")
    everything = read_scan(plan)
    exact = ["id", "name", "day", "price", "at"]
    choices = []
    for _ in range(draw.randint(1, 2)):
        numbers = draw.sample(range(2 * ROWS), draw.randint(1, 3))
        choices.append(
            {
                name: pa.array([value(COLUMNS[name], n) for n in numbers], everything[name].type)
                for name in draw.sample(exact, draw.randint(1, 2))
            }
        )
    listed = [{name: values.to_pylist() for name, values in each.items()} for each in choices]
    met = [
        any(all(_among(row[name], values) for name, values in each.items()) for each in listed)
        for row in everything.to_pylist()
    ]
    expected = everything.filter(pa.array(met)).select(["id", "tags"])
    found = search(plan, ["id", "tags"], choices, Taken())
    assert found.sort_by("id").equals(expected.sort_by("id"))


def test_the_search_for_near_keys_reads_their_row_groups_only(lake: Catalog) -> None:
    plan = lake.scan("t")
    near = {"id": pa.array([12, 13, 31], pa.int64())}
    taken = Taken()
    found = search(plan, ["name"], [near], taken)
    assert found.column("name").to_pylist() == ["n012", "n013", "n031"]
    assert taken.rows == 2 * GROUP
    assert 0 < taken.bytes < plan.bytes


@pytest.mark.parametrize("most", [0, 1, 2, 3, None])
def test_the_search_ends_when_too_many_are_found(lake: Catalog, most: int | None) -> None:
    """In one file or in several, which are searched at the same time."""
    for wanted in ([12, 13, 31], [12, 61, 119]):
        near = {"id": pa.array(wanted, pa.int64())}
        found = search(lake.scan("t"), ["id"], [near], Taken(), most)
        if most is not None and most < len(wanted):
            assert found is None
        else:
            assert found.column("id").to_pylist() == wanted


def test_columns_added_and_renamed_since_the_file_was_written(lake: Catalog) -> None:
    with lake.begin() as tx:
        tx.rename_column("t", "name", "title")
        tx.add_column("t", NewColumn("more", "int", initial=7))
    search = Search(lake.scan("t"), {"title": ["n012"], "more": [7]})
    ((_, rows),) = found(search, ["title", "more"]).items()
    assert (12, "n012", 7) in rows
    assert len(rows) == GROUP - 1


def test_a_missing_file_is_named(lake: Catalog) -> None:
    plan = lake.scan("t")
    Path(plan.files[0].path).unlink()
    with pytest.raises(CatalogError, match="missing"):
        Search(plan, {"id": [0]}).bytes(plan.table.columns)


def test_conditions_may_be_ranges(lake: Catalog) -> None:
    conditions: Mapping[str, tuple[int, int]] = {"id": (25, 31)}
    ((_, rows),) = found(Search(lake.scan("t"), conditions), ["id"]).items()
    assert rows == [(n, n) for n in range(20, 40)]
    assert isinstance(Search(lake.scan("t"), conditions).plan.inlined, pa.Table)


@pytest.mark.parametrize("type", [pa.int64(), pa.int32(), pa.int16()])
@pytest.mark.parametrize("rows", [100_000, 1_000], ids=["flags", "few"])
def test_many_numbers_are_looked_up_in_a_table_of_flags(type: pa.DataType, rows: int) -> None:
    chance = random.Random(5)
    numbers = [chance.randrange(-30_000, 30_000) for _ in range(rows)]
    column = pa.chunked_array([numbers[: rows // 3], [], numbers[rows // 3 :]], type)
    ends = [-(1 << 63), (1 << 63) - 1]
    for wanted in ([-30_000, 29_999], [7], numbers[::400], [1 << 40, 3], [1 << 40], [60_000], ends):
        there = set(wanted)
        expected = [number in there for number in numbers]
        assert ValueSet(pa.array(wanted, pa.int64())).among(column).tolist() == expected


def test_integers_at_their_ends_are_not_taken_for_others() -> None:
    ends = [-(1 << 63), -(1 << 62), -1, 0, 1, 1 << 62, (1 << 63) - 1]
    column = pa.chunked_array([pa.array(ends * 10_000, pa.int64())])
    for wanted in ends:
        found = ValueSet(pa.array([wanted], pa.int64())).among(column).tolist()
        assert found == [number == wanted for number in ends] * 10_000


def test_texts_that_repeat_are_kept_as_numbers(tmp_path: Path) -> None:
    """And come back as they are, NULL among them, also where the files differ in how they keep them."""
    kinds = [None, "AIR", "RAIL", "a much longer text, of which there are few", ""]
    rows = pa.table(
        {
            "id": range(30_000),
            "kind": [kinds[n * n % 5] for n in range(30_000)],
            "own": [f"text {n * 7919 % 30_000} of one row" for n in range(30_000)],
        }
    )
    columns = {"id": "bigint", "kind": "string", "own": "string"}
    with Catalog.open(str(tmp_path / "lake"), settings=Settings(inline_row_limit=0)) as lake:
        with lake.begin() as tx:
            tx.create_table("t", [NewColumn(*item) for item in columns.items()])
        for part in (rows.slice(0, 20_000), rows.slice(20_000)):
            with lake.begin() as tx:
                tx.insert_rows("t", part)
        wanted = pa.array([*range(0, 30_000, 37)])
        for _ in range(2):  # the second time from memory
            found = search(lake.scan("t"), ["kind", "own"], [{"id": wanted}], Taken())
            assert found is not None
            assert found.to_pylist() == rows.take(wanted).select(["kind", "own"]).to_pylist()
            found = search(lake.scan("t"), ["id"], [{"kind": pa.array(["RAIL", ""])}], Taken())
            assert found is not None
            assert set(found["id"].to_pylist()) == {
                n for n in range(30_000) if kinds[n * n % 5] in ("RAIL", "")
            }
        everything = read_scan(lake.scan("t"), ["id", "kind", "own"]).sort_by("id")
        assert everything.to_pylist() == rows.to_pylist()
