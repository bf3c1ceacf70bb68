"""What is asked of the catalog does not grow with files and versions, and lists of files stay exact."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from operator import attrgetter
from pathlib import Path
from random import Random
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from spark_trickle.errors import BindError
from spark_trickle.execute.states import version_at
from spark_trickle.settings import Settings
from spark_trickle.storage.catalog import bootstrap, database, postgres
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.catalog.structure import version_range
from spark_trickle.storage.file_records import DataFile
from spark_trickle.storage.manifest.statistics import column_bounds
from spark_trickle.storage.read.pruning import SortedValues, may_meet
from spark_trickle.storage.read.reader import read_file, read_scan
from spark_trickle.storage.records import Bounds, Column, NewColumn
from spark_trickle.storage.upkeep.compaction import compact
from spark_trickle.storage.upkeep.maintenance import expire, oldest_kept
from spark_trickle.storage.versions.history import history
from spark_trickle.storage.versions.planning import Planner
from support import growth

FILES, VERSIONS = 2_000, 20_000
MANY = 1_500
"""An answer of so many rows grows with files or versions."""


@contextmanager
def answers(catalog: Catalog) -> Iterator[list[tuple[str, tuple[Any, ...], int]]]:
    """The statements that go to the catalog, and how many rows each gave."""
    kinds = (database._SqliteConnection, postgres._PostgresConnection)
    plain = [kind.execute for kind in kinds]
    seen: list[tuple[str, tuple[Any, ...], int]] = []

    def counting(execute: Callable[..., Any]) -> Callable[..., Any]:
        def counted(own: Any, sql: str, parameters: Any = ()) -> Any:
            rows = execute(own, sql, parameters)
            seen.append((sql, tuple(parameters), len(rows)))
            return rows

        return counted

    for kind in kinds:
        kind.execute = counting(kind.execute)  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        for kind, execute in zip(kinds, plain, strict=True):
            kind.execute = execute  # type: ignore[method-assign]


def _of_a_table(step: str) -> bool:
    """Whether all files of a table, or those up to a version, are looked at."""
    return step.endswith(("(table_id=?)", "(table_id=? AND begin_snapshot<?)"))


@pytest.fixture
def grown(open_lake: Callable[..., Catalog]) -> Catalog:
    """A table of 2,003 files, three of them real, in a lake of 20,000 versions."""
    catalog = open_lake()
    with catalog.begin() as tx:
        kinds = ("bigint", "bigint", "decimal(12,2)", "date", "string")
        names = ("id", "customer", "amount", "day", "note")
        columns = [NewColumn(*both) for both in zip(names, kinds, strict=True)]
        tx.create_table("facts", columns, primary_key=["id"])
        tx.create_table("other", [NewColumn("k", "bigint")])
    for number in range(3):
        insert(catalog, range(number * growth.ROWS, (number + 1) * growth.ROWS))
    tables = (catalog.table("facts"), catalog.table("other"))
    growth.grow(catalog, *tables, FILES, VERSIONS)
    return catalog


def insert(catalog: Catalog, ids: range) -> None:
    with catalog.begin() as tx:
        tx.insert_rows("facts", pa.table({"id": pa.array(ids, pa.int64())}))


def delete(catalog: Catalog, key: int) -> None:
    with catalog.begin() as tx:
        (file,) = tx.scan("facts").prune({"id": [key]}).files
        places = next(read_file(tx.table("facts"), file))["id"].to_pylist()
        tx.delete_rows("facts", {file.id: [places.index(key)]})


def look_up(catalog: Catalog, key: int) -> list[int]:
    plan = catalog.scan("facts").prune({"id": [key]})
    return [i for i in read_scan(plan, ["id"])["id"].to_pylist() if i == key]


def everyday(catalog: Catalog) -> None:
    """What happens all day in a lake."""
    version = catalog.version()
    assert look_up(catalog, 4_321) == [4_321]
    insert(catalog, range(10**12, 10**12 + 1))
    assert look_up(catalog, 4_321) == [4_321]
    assert catalog.changes("facts", version).inserted_rows == 1
    delete(catalog, 4_321)
    assert look_up(catalog, 4_321) == []
    assert catalog.changes("facts", version + 1).deleted_rows == 1
    insert(catalog, range(10**13, 10**13 + growth.ROWS))
    assert look_up(catalog, 10**13 + 7) == [10**13 + 7]
    assert catalog.changes("facts", version + 2).inserted_rows == growth.ROWS
    assert len(history(catalog, None, 3)) == 3
    assert [v.version for v in history(catalog, catalog.table("facts"), 1)] == [catalog.version()]
    assert version_at(catalog, datetime.fromtimestamp(1_700_000_100, UTC)) == 105
    assert expire(catalog, keep_from=0) == oldest_kept(catalog, keep_from=0) == 0


def test_answers_do_not_grow(grown: Catalog) -> None:
    grown.scan("facts").prune({"id": [1]})  # files and bounds are read once
    with answers(grown) as seen:
        everyday(grown)
    assert [(sql, rows) for sql, _, rows in seen if rows > MANY] == []
    assert grown.scan("facts").rows == FILES * 1_000_000 + 4 * growth.ROWS
    assert len(grown.scan("facts").files) == FILES + 4


def test_nothing_is_looked_for_among_all(tmp_path: Path) -> None:
    """SQLite itself says how it finds what is asked for."""
    with Catalog.open(str(tmp_path / "lake")) as catalog:
        with catalog.begin() as tx:
            columns = [NewColumn("id", "bigint"), NewColumn("x", "string")]
            tx.create_table("facts", columns, primary_key=["id"])
            tx.create_table("other", [NewColumn("k", "bigint")])
        for number in range(3):
            insert(catalog, range(number * growth.ROWS, (number + 1) * growth.ROWS))
        with answers(catalog) as seen:
            grow = (catalog.table("facts"), catalog.table("other"), 0, 200)
            growth.grow(catalog, *grow)
            catalog.scan("facts").prune({"id": [1]})  # files and bounds are read once
            seen.clear()
            everyday(catalog)
        with catalog.reading() as connection:
            steps = {
                (sql, step[3])
                for sql, parameters, _ in seen
                if sql.startswith(("SELECT", "UPDATE", "DELETE"))
                for step in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)
            }
    big = {f"ducklake_{n}" for n in ("snapshot", "snapshot_changes", "data_file", "delete_file")}
    big |= {"ducklake_file_column_stats", "s", "c", "f", "d"}
    slow = {
        (sql, step)
        for sql, step in steps
        if step.split()[1] in big and (step.startswith("SCAN") or _of_a_table(step))
        if "LIMIT" not in sql  # it walks along a key until it has enough
    }
    assert slow == set()


def test_versions_by_time(catalog: Catalog) -> None:
    """The newest at or before a moment, also where clocks differ and versions are missing."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    with catalog.writing() as connection:
        connection.execute("DELETE FROM ducklake_snapshot")
        times = {i: 10 * i + (-25 if i % 7 == 3 else 0) for i in range(40, 400) if i % 11}
        for number, seconds in times.items():
            when = (start + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S+00")
            connection.execute(
                "INSERT INTO ducklake_snapshot VALUES (?, ?, 0, 1, 0)", (number, when)
            )
    for seconds in range(360, 4_100, 3):
        moment = start + timedelta(seconds=seconds)
        expected = max((n for n, t in times.items() if t <= seconds), default=None)
        if expected is None:
            with pytest.raises(BindError, match="no version as old as"):
                version_at(catalog, moment)
        else:
            assert version_at(catalog, moment) == expected, seconds


def test_a_catalog_without_our_indexes_gets_them(open_lake: Callable[..., Catalog]) -> None:
    catalog = open_lake()
    with catalog.writing() as connection:
        connection.execute("DROP INDEX trickle_data_file_partial")
        connection.execute("DROP INDEX trickle_file_stats_column")
        assert bootstrap.lacks_indexes(connection)
    with open_lake().reading() as connection:
        assert not bootstrap.lacks_indexes(connection)


def test_a_reader_that_began_earlier_sees_its_own_version(
    open_lake: Callable[..., Catalog],
) -> None:
    catalog = open_lake(inline_row_limit=2)
    with catalog.begin() as tx:
        tx.create_table("facts", [NewColumn("id", "bigint")])
    insert(catalog, range(5))
    with catalog.reading() as earlier:
        before = version_range(earlier)
        insert(catalog, range(5, 10))
        delete(catalog, 7)
        assert len(catalog.scan("facts").files) == 2
        plan = catalog._plans.scan(earlier, catalog.table("facts"), before[1], before)
        assert sorted(read_scan(plan)["id"].to_pylist()) == list(range(5))
        assert len(catalog.scan("facts").files) == 2


@pytest.mark.parametrize("seed", range(6))
def test_lists_follow_what_changed(tmp_path: Path, seed: int) -> None:
    """Every version that is kept has the files that a catalog opened just now finds."""
    random = Random(seed)
    settings = Settings(inline_row_limit=2, inline_delete_limit=3, catalog_rows=0, small_files=0)
    with Catalog.open(str(tmp_path / "lake"), settings=settings) as catalog:
        with catalog.begin() as tx:
            tx.create_table("t", [NewColumn("a", "bigint"), NewColumn("b", "string")])
        for step in range(25):
            act(catalog, random, step)
            versions = {
                catalog.version(),
                random.randint(max(1, catalog.oldest_version()), catalog.version()),
            }
            for version in versions:
                found, expected = catalog.scan("t", version).files, anew(catalog, version)
                assert facts(found) == facts(expected), step
                columns = catalog.table("t", version).columns
                for file, other in zip(by_id(found), by_id(expected), strict=True):
                    # What was listed before a name moved doubts less: no file of then has it.
                    assert others_names(file.path, columns) <= file.doubtful <= other.doubtful
                    assert version < catalog.version() or file.doubtful == other.doubtful


def act(catalog: Catalog, random: Random, step: int) -> None:
    action = random.choice(("insert", "insert", "insert", "delete", "delete", "more"))
    if action == "insert":
        with catalog.begin() as tx:
            rows = random.choice((1, 5, 9))
            table = tx.table("t")
            tx.insert_rows("t", pa.table({table.columns[0].name: list(range(rows))}))
    elif action == "delete":
        with catalog.begin() as tx:
            for file in tx.scan("t").files:
                places = random.sample(range(file.rows), random.choice((0, 1, file.rows - 1)))
                dead = set(file.deleted.to_pylist())
                tx.delete_rows("t", {file.id: [p for p in places if p not in dead]})
            assert facts(tx.scan("t").files) == facts(tuple(tx.scan("t").files))
    else:
        more = random.choice(("compact", "expire", "column", "name", "truncate"))
        if more == "compact":
            compact(catalog, catalog.table("t"))
        elif more == "expire":
            expire(catalog, keep_from=catalog.version() - 3, older_than=0.0)
        elif more == "truncate":
            with catalog.begin() as tx:
                tx.truncate("t")
        elif more == "name":
            name = random.choice([column.name for column in catalog.table("t").columns])
            with catalog.begin() as tx:
                tx.rename_column("t", name, f"was_{step}")
                tx.add_column("t", NewColumn(name, "bigint"))
        else:
            with catalog.begin() as tx:
                tx.add_column("t", NewColumn(f"c{step}", "bigint", initial=step))
                assert all(len(f.missing) for f in tx.scan("t").files)


def facts(files: Any) -> list[tuple[Any, ...]]:
    return sorted(
        (f.id, f.path, f.rows, f.live, f.deleted.to_pylist(), f.has_row_ids, f.inserted_through,
         sorted(f.missing), {i: repr(b) for i, b in f.bounds.items()})
        for f in files
    )  # fmt: skip


def by_id(files: Iterable[DataFile]) -> list[DataFile]:
    return sorted(files, key=attrgetter("id"))


def others_names(path: str, columns: Iterable[Column]) -> set[int]:
    """The columns whose names are those of others in a file."""
    inside = {f.name: int(f.metadata[b"PARQUET:field_id"]) for f in pq.read_schema(path)}
    return {c.id for c in columns if inside.get(c.name, c.id) != c.id}


def anew(catalog: Catalog, version: int) -> list[DataFile]:
    """One by one, as the change feed makes them."""
    with catalog.reading() as connection:
        table = catalog.structure_in(connection, version).table("t")
        planner = Planner(catalog.reading)
        rows = planner.file_rows(
            connection,
            table,
            "table_id = ? AND begin_snapshot <= ? AND (end_snapshot IS NULL OR end_snapshot > ?)",
            (table.id, version, version),
        )
        dead = planner.dead(connection, table, version)
        return [f for f in planner.files(connection, table, rows, version, dead) if f.live]


TEXTS = {
    "bigint": st.integers(-9, 9).map(str),
    "double": st.floats(allow_nan=True, allow_infinity=True, width=16).map(repr),
    "decimal(4,1)": st.integers(-99, 99).map(lambda n: f"{n / 10}"),
    "string": st.text("abé\U0001f600,\x1e\x1f", max_size=2).filter(lambda t: t != "\x1e"),
    "date": st.integers(1, 28).map(lambda d: f"2020-01-{d:02}"),
    "boolean": st.sampled_from(["true", "false"]),
}
VALUES = {
    "bigint": st.integers(-10, 10),
    "double": st.one_of(st.floats(width=16), st.integers(-3, 3).map(float)),
    "decimal(4,1)": st.integers(-999, 999).map(lambda n: Decimal(n) / 100),
    "string": st.text("abé\U0001f600,\x1e\x1f", max_size=2).filter(lambda t: t != "\x1e"),
    "date": st.integers(18_250, 18_300),
    "boolean": st.booleans(),
}


def _bounds(column: Column, ids: Any, rows: list[tuple[Any, ...]]) -> Any:
    names = "data_file_id, value_count, null_count, min_value, max_value, contains_nan"
    with closing(sqlite3.connect(":memory:")) as raw:
        raw.execute(f"CREATE TABLE ducklake_file_column_stats ({names})")
        raw.executemany("INSERT INTO ducklake_file_column_stats VALUES (?, ?, ?, ?, ?, ?)", rows)
        connection = database._SqliteConnection(raw)
        return column_bounds(connection, column, ids, ("data_file_id > ?", [0]))


@given(st.data())
def test_all_files_at_once_are_judged_like_each(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(TEXTS)))
    column = Column(1, "c", kind)
    text = st.one_of(st.none(), TEXTS[kind])
    count = st.one_of(st.none(), st.integers(0, 2))
    nan = st.sampled_from([None, False, True])
    rows = data.draw(st.lists(st.tuples(count, count, text, text, nan), max_size=6))
    ids = np.array(range(10, 10 + len(rows) + 1), np.int64)  # of the last one nothing is known
    bounds = _bounds(column, ids, [(10 + i, *row) for i, row in enumerate(rows)])
    each = [bounds.at(place) or Bounds() for place in range(len(ids))]
    low, high = (data.draw(st.one_of(st.none(), VALUES[kind])) for _ in "ab")
    wanted = SortedValues.of(data.draw(st.lists(st.one_of(st.none(), VALUES[kind]), max_size=3)))
    held = bounds.hold(wanted.ordered, wanted.null, wanted.nan).tolist()
    assert held == [may_meet({1: b}, {1: wanted}) for b in each[:-1]] + [True]
    near = bounds.overlap(low, high).tolist()
    said = [may_meet({1: b}, {1: (low, high)}) for b in each[:-1]] + [True]
    if kind == "double":  # where not even a low is known there may be a NaN
        said = [
            s or (b.low is None and b.nan is not False and b.values != 0)
            for s, b in zip(said, each, strict=True)
        ]
        near = [n or s for n, s in zip(near, said, strict=True)]
    assert near == said
    if rows:
        known = [b for b in each if b.low is not None]
        assert bounds.ends_of(np.arange(len(ids)))[0] == min((b.low for b in known), default=None)
