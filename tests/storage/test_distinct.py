"""How many values columns have: estimated from few row groups, kept in the process and in the catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.file_records import spread
from spark_trickle.storage.files import parquet
from spark_trickle.storage.manifest.distinct import SMALL
from spark_trickle.storage.read import sampling
from spark_trickle.storage.read.column_cache import Taken
from spark_trickle.storage.read.sampling import GROUPS, distinct_values
from spark_trickle.storage.records import NewColumn, ScanPlan
from spark_trickle.storage.upkeep.maintenance import expire
from storage.conftest import Opener

ROWS, GROUP, FILES = 120_000, 5_000, 3
MUCH = 32 << 20
_RANDOM = np.random.default_rng(20)


def _zipf(values: int) -> np.ndarray:
    weights = 1 / np.arange(1, values + 1)
    return _RANDOM.choice(values, ROWS, p=weights / weights.sum())


SHAPES: dict[str, np.ndarray] = {
    "constant": np.zeros(ROWS, int),
    "of few values": _RANDOM.integers(0, 5, ROWS),
    "of few values, sorted": np.sort(_RANDOM.integers(0, 5, ROWS)),
    "uniform": _RANDOM.integers(0, ROWS // 10, ROWS),
    "skewed": _zipf(2_000),
    "unique": _RANDOM.permutation(ROWS),
    "sorted": np.arange(ROWS) // 4,
    "clustered": _RANDOM.permutation(ROWS // 4)[np.arange(ROWS) // 4],
    "mostly one": np.where(_RANDOM.random(ROWS) < 0.9, -1, np.arange(ROWS)),
}
TYPES: dict[str, Callable[[int], Any]] = {
    "string": lambda number: f"customer {number:09}",
    "bigint": int,
    "decimal(12,2)": lambda number: Decimal(number) / 100,
    "date": lambda number: date(1970, 1, 1) + timedelta(days=number),
}


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP", GROUP)


def fill(catalog: Catalog, type: str, values: pa.Array, files: int = FILES) -> ScanPlan:
    """A table of one column, in some files."""
    with catalog.begin() as tx:
        table = tx.create_table("t", [NewColumn("v", type)])
        step = -(-len(values) // files)
        for start in range(0, len(values), step):
            tx.insert_rows(table, pa.table({"v": values.slice(start, step)}))
    return catalog.scan("t")


def add(catalog: Catalog, values: pa.Array) -> ScanPlan:
    with catalog.begin() as tx:
        tx.insert_rows("t", pa.table({"v": values}))
    return catalog.scan("t")


def texts(numbers: Any) -> pa.Array:
    return pa.array([f"text {number}" for number in numbers])


def count(catalog: Catalog, plan: ScanPlan, most: int = MUCH) -> tuple[int | None, int]:
    """The count, and how many rows were decoded for it."""
    taken = Taken()
    found = catalog.distinct.count(plan, plan.table.columns[0], most, taken)
    return found, taken.rows


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_estimates_are_near_the_truth(catalog: Catalog, shape: str, type: str) -> None:
    numbers = SHAPES[shape]
    made = pa.array([TYPES[type](number) for number in np.arange(-1, ROWS).tolist()])
    plan = fill(catalog, type, made.take(pa.array(numbers + 1)))
    taken = Taken()
    found = distinct_values(plan, plan.table.columns[0], MUCH, taken)
    truth = len(np.unique(numbers))
    assert found is not None
    assert truth / 2 <= found <= truth * 2
    assert taken.rows <= GROUPS * GROUP


@pytest.mark.parametrize("type", TYPES)
def test_null_is_one_value(catalog: Catalog, type: str) -> None:
    plan = fill(catalog, type, pa.nulls(ROWS))
    assert count(catalog, plan)[0] == 1


def test_what_is_read_as_a_whole_is_counted(catalog: Catalog) -> None:
    plan = fill(catalog, "string", texts(number % 1_234 for number in range(3 * GROUP)), 1)
    assert count(catalog, plan) == (1_234, 3 * GROUP)


def test_dead_rows_do_not_count(catalog: Catalog) -> None:
    fill(catalog, "string", texts(range(2 * SMALL)), 1)
    (file,) = catalog.scan("t").files
    with catalog.begin() as tx:
        tx.delete_rows("t", {file.id: range(0, SMALL - 1)})
    plan = catalog.scan("t")
    assert count(catalog, plan) == (SMALL + 1, 2 * SMALL)


def test_columns_that_files_lack(catalog: Catalog) -> None:
    fill(catalog, "bigint", pa.array(range(ROWS)))
    with catalog.begin() as tx:
        tx.add_column("t", NewColumn("w", "string", initial="x"))
    plan = catalog.scan("t")
    taken = Taken()
    assert catalog.distinct.count(plan, plan.table.columns[1], MUCH, taken) == 1
    assert taken.bytes == 0


def test_points_are_spread_over_the_rows() -> None:
    assert spread([], 4) == spread([0, 0], 4) == []
    assert spread([8], 4) == [(0, 0.125), (0, 0.375), (0, 0.625), (0, 0.875)]
    assert [place for place, _ in spread([10, 0, 70, 20], 4)] == [2, 2, 2, 3]


def test_of_many_files_few_are_looked_at(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that a transaction wrote is among them, if it is large."""
    fill(catalog, "bigint", pa.array(range(20 * 1_001)), 20)
    looked: list[str] = []
    of_file = sampling._groups

    def watched(table: Any, file: Any, *rest: Any) -> Any:
        looked.append(file.path)
        return of_file(table, file, *rest)

    monkeypatch.setattr(sampling, "_groups", watched)
    assert count(catalog, catalog.scan("t"))[0] == pytest.approx(20 * 1_001, rel=0.01)
    assert len(looked) == GROUPS
    with catalog.begin() as tx:
        tx.insert_rows("t", pa.table({"v": pa.array(range(3 * ROWS))}))
        (own,) = tx.scan("t").files.others  # type: ignore[union-attr]
        looked.clear()
        count(catalog, tx.scan("t"))
        assert own.path in looked


def test_the_limit_is_judged_before_anything_is_read(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = fill(catalog, "string", texts(range(ROWS)))
    column = plan.table.columns[0]
    sizes = sorted(group.bytes for group in sampling._chosen(plan, column))
    taken = Taken()
    assert distinct_values(plan, column, sum(sizes), taken)
    assert (taken.rows, taken.bytes) == (GROUPS * GROUP, sum(sizes))
    taken = Taken()
    assert distinct_values(plan, column, sum(sizes) - 1, taken) == pytest.approx(ROWS, rel=0.1)
    assert taken.rows == (GROUPS - 1) * GROUP
    taken = Taken()
    assert distinct_values(plan, column, sizes[0], taken) == pytest.approx(ROWS, rel=0.1)
    assert taken.rows == GROUP

    def never(*_: object) -> None:
        raise AssertionError("it was read")

    monkeypatch.setattr(sampling._Group, "read", never)
    assert distinct_values(plan, column, sizes[0] - 1, taken) is None


def test_what_cannot_be_told_is_not_asked_again(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = fill(catalog, "string", texts(range(ROWS)))
    assert count(catalog, plan, most=1) == (None, 0)
    monkeypatch.setattr(sampling, "_chosen", None)
    assert count(catalog, plan, most=1) == (None, 0)


def test_a_damaged_file_is_no_error_here(catalog: Catalog) -> None:
    plan = fill(catalog, "string", texts(range(ROWS)), 1)
    catalog.files.remove(plan.files[0].path)
    assert count(catalog, plan) == (None, 0)


def test_small_tables_and_nested_columns_are_left_alone(catalog: Catalog) -> None:
    plan = fill(catalog, "string", texts(range(SMALL)), 1)
    with asked_of(catalog) as statements:
        assert count(catalog, plan) == (None, 0)
    assert statements == []
    with catalog.begin() as tx:
        nested = tx.create_table("n", [NewColumn("v", "array<int>")])
        tx.insert_rows(nested, pa.table({"v": pa.array([[1]] * 2 * SMALL)}))
    assert count(catalog, catalog.scan("n")) == (None, 0)


@contextmanager
def asked_of(catalog: Catalog) -> Iterator[list[str]]:
    """What the catalog is asked for counts."""
    asked: list[str] = []
    reading = catalog.distinct._reading

    @contextmanager
    def watched() -> Iterator[Any]:
        with reading() as connection:
            asked.append("a transaction")
            yield connection

    catalog.distinct._reading = watched
    yield asked
    catalog.distinct._reading = reading


def save(catalog: Catalog) -> None:
    with catalog.writing() as connection:
        catalog.distinct.save(connection)


def stored(catalog: Catalog) -> list[tuple[Any, ...]]:
    with catalog.reading() as connection:
        if not connection.has_table("trickle_distinct"):
            return []
        return connection.execute("SELECT row_count, distinct_count FROM trickle_distinct")


def test_counts_are_kept(open_lake: Opener) -> None:
    first = open_lake()
    plan = fill(first, "string", texts(number % 77 for number in range(ROWS)))
    assert first.distinct.known(plan, plan.table.columns[0]) is None
    assert count(first, plan) == (77, GROUPS * GROUP)
    with asked_of(first) as statements:
        assert count(first, plan) == (77, 0)
        assert first.distinct.known(plan, plan.table.columns[0]) == 77
    assert statements == []
    assert stored(first) == [], "no commit of its own"
    save(first)
    assert stored(first) == [(ROWS, 77)]
    with first.writing() as connection:
        first.distinct.save(None)  # type: ignore[arg-type]  # nothing is asked a second time
        connection.execute("UPDATE trickle_distinct SET distinct_count = 78")
    other = open_lake()
    with asked_of(other) as statements:
        assert count(other, other.scan("t")) == (78, 0), "read from the catalog, not from files"
        assert count(other, other.scan("t")) == (78, 0)
    assert statements == ["a transaction"]


def test_counts_are_made_anew_when_the_table_has_doubled(open_lake: Opener) -> None:
    catalog = open_lake()
    plan = fill(catalog, "string", texts(number % 50 for number in range(ROWS)))
    assert count(catalog, plan)[0] == 50
    save(catalog)
    plan = add(catalog, texts(number % 90 for number in range(ROWS)))
    assert count(catalog, plan) == (50, 0), "not more than twice as many"
    plan = add(catalog, texts(number % 90 for number in range(ROWS)))
    found, read = count(catalog, plan)
    assert found == 90
    assert read > 0
    save(catalog)
    assert stored(catalog) == [(3 * ROWS, 90)]
    with catalog.begin() as tx:
        tx.truncate("t")
        tx.insert_rows("t", pa.table({"v": texts(number % 7 for number in range(2 * SMALL))}))
    assert count(catalog, catalog.scan("t"))[0] == 7
    save(catalog)
    assert stored(catalog) == [(2 * SMALL, 7)]


def test_counts_of_dropped_tables_go_with_their_versions(open_lake: Opener) -> None:
    catalog = open_lake()
    count(catalog, fill(catalog, "string", texts(range(ROWS))))
    save(catalog)
    with catalog.begin() as tx:
        tx.drop_table("t")
    assert len(stored(catalog)) == 1
    expire(catalog, older_than=0.0)
    assert stored(catalog) == []
