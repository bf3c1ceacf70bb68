"""Who has no list of files asks the catalog for some of them: never for one too few, whoever wrote it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import hypothesis.strategies as st
import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.catalog.database import Connection, _SqliteConnection
from spark_trickle.storage.catalog.postgres import _PostgresConnection
from spark_trickle.storage.files.values import bound, plain
from spark_trickle.storage.manifest.pieces import FEW
from spark_trickle.storage.manifest.possible import possible_files
from spark_trickle.storage.read.pruning import SortedValues, WantedValues, may_meet
from spark_trickle.storage.read.reader import read_scan
from spark_trickle.storage.records import ROW_ID, Bounds, Column, NewColumn, ScanPlan, Table
from spark_trickle.storage.upkeep.compaction import compact
from spark_trickle.storage.upkeep.maintenance import expire
from spark_trickle.storage.versions.feed import _ASKS
from support import duck, growth

# The statement alone, over statistics of every kind

_FILES = "data_file_id BIGINT, table_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT"
_STATISTICS = (
    "data_file_id BIGINT, table_id BIGINT, column_id BIGINT, value_count BIGINT, null_count BIGINT, "
    "min_value VARCHAR, max_value VARCHAR, contains_nan BIGINT"
)
INTEGERS = st.one_of(st.integers(-12, 12), st.sampled_from([-(2**63), 2**63 - 1, 10**30]))
DAYS = st.one_of(st.integers(18_250, 18_270), st.sampled_from([-719_529, -800_000, 3_000_000]))
WORDS = st.text("abzAé\U0001f600 ,\x1e'", max_size=3)
TEXTS = {
    "bigint": st.one_of(
        INTEGERS.map(str), st.sampled_from(["", "x", "1x", "07", "+5", " 3", "-0"])
    ),
    "string": WORDS,
    "date": st.sampled_from(
        ["2019-12-20", "2020-01-01", "2020-01-09", "0001-01-01", "9999-12-31", "12345-01-01"]
        + ["0044-03-15 (BC)", "infinity", "-infinity", "2020-1-5", "soon", ""]
    ),
    "double": st.sampled_from(["1.5", "-2.0", "nan", "inf", "1e300"]),
    "decimal(4,1)": st.sampled_from(["1.5", "-2.0", "99.9"]),
    "boolean": st.sampled_from(["0", "1", "true", "false"]),
}
VALUES = {
    "bigint": st.one_of(INTEGERS, st.sampled_from([Decimal("2.5"), Decimal(3)])),
    "string": st.one_of(WORDS, st.just("a\0b"), st.just("\ud800")),
    "date": DAYS,
    "double": st.sampled_from([1.5, -2.0, float("nan"), 0.0]),
    "decimal(4,1)": st.sampled_from([Decimal("1.5"), Decimal("-3.0")]),
    "boolean": st.booleans(),
}


@contextmanager
def statistics(
    kind: str, url: str | None, files: list[tuple[Any, ...]], rows: list[tuple[Any, ...]]
) -> Iterator[Connection]:
    """The two tables in a database of the kind, with these rows, for a while."""
    tables = (("data_file", _FILES, files), ("file_column_stats", _STATISTICS, rows))
    with closing(sqlite3.connect(":memory:") if url is None else psycopg.connect(url)) as raw:
        own = _SqliteConnection(raw) if kind == "sqlite" else _PostgresConnection(raw)
        for name, columns, found in tables:
            own.execute(f"CREATE TEMPORARY TABLE ducklake_{name} ({columns})")
            marks = ", ".join("?" * len(columns.split(", ")))
            own.execute_many(f"INSERT INTO ducklake_{name} VALUES ({marks})", found)
        yield own


def condition(data: st.DataObject, kind: str) -> tuple[Any, Any] | SortedValues:
    if data.draw(st.booleans()):
        return tuple(data.draw(st.one_of(st.none(), VALUES[kind])) for _ in "ab")  # type: ignore[return-value]
    few = st.one_of(st.none(), VALUES[kind])
    return SortedValues.of(data.draw(st.lists(few, max_size=data.draw(st.integers(0, 7)))))


def judged(column: Column, row: tuple[Any, ...] | None, wanted: WantedValues) -> bool:
    """What pruning says of a file with these statistics; of none it knows nothing."""
    if row is None:
        return True
    _, _, _, values, nulls, low, high, nan = row
    known = Bounds(
        bound(column, low), bound(column, high), nulls, values, None if nan is None else bool(nan)
    )
    return may_meet({column.id: known}, {i: c for i, c in wanted.items() if i == column.id})


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest) -> tuple[str, str | None]:
    there = request.param == "postgres"
    return request.param, request.getfixturevalue("postgres_url") if there else None


@given(st.data())
@settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=150)
def test_no_file_that_pruning_keeps_is_left_out(
    database: tuple[str, str | None], data: st.DataObject
) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(TEXTS)), min_size=1, max_size=2))
    columns = tuple(Column(i, f"c{i}", kind) for i, kind in enumerate(kinds, 1))
    count = st.one_of(st.none(), st.integers(0, 2))
    numbers = range(10, 10 + data.draw(st.integers(0, 6)))
    rows: dict[tuple[int, int], tuple[Any, ...]] = {}
    for file in numbers:
        for column in columns:
            text = st.one_of(st.none(), TEXTS[column.type])
            if data.draw(st.integers(0, 5)):  # of some files nothing is known
                kept = [data.draw(s) for s in (count, count, text, text)]
                nan = data.draw(st.sampled_from([None, 0, 1]))
                rows[file, column.id] = (file, 1, column.id, *kept, nan)
    ended = {file: data.draw(st.sampled_from([None, None, 3, 9])) for file in numbers}
    sets = [{c.id: condition(data, c.type)} for c in columns]
    others = [(99, 2, 0, None), (98, 1, 6, None)]
    stray = [(None, 1, 1, 0, 0, "1", "2", 0), (77, 1, 1, 0, 0, "1", "2", 0)]
    files = [(file, 1, 0, end) for file, end in ended.items()]
    with statistics(*database, [*files, *others], [*rows.values(), *stray]) as connection:
        table = Table(1, "main", "t", columns)
        try:
            found = possible_files(connection, table, 5, sets)
        except psycopg.Error:
            return  # no number: the list is read instead
    seen = {file for file, end in ended.items() if end is None or end > 5}
    wanted = {
        file
        for file in seen
        if all(judged(c, rows.get((file, c.id)), s) for c, s in zip(columns, sets, strict=True))
    }
    if found is not None:
        assert wanted <= set(found) <= seen


def test_what_can_be_compared_is(database: tuple[str, str | None]) -> None:
    """Exactly the files of a look-up, so that few are read."""
    days = [(date(2020, 1, 1) + timedelta(i)).isoformat() for i in range(9)]
    of = {1: [str(n) for n in range(8, 17)], 2: list("abcdefghi"), 3: days}
    columns = (Column(1, "i", "int"), Column(2, "s", "string"), Column(3, "d", "date"))
    files = [(file, 1, 0, None) for file in range(9)]
    rows = [(f, 1, c, 1, 0, v[f], v[f], 0) for c, v in of.items() for f in range(9)]
    first = (date(2020, 1, 1) - date(1970, 1, 1)).days
    cases: list[tuple[int, Any, list[int] | None]] = [
        (1, (9, 10), [1, 2]),
        (1, (None, 9), [0, 1]),
        (1, (15, None), [7, 8]),
        (1, SortedValues.of([9, 16, 99]), [1, 8]),
        (1, SortedValues.of([9, None]), [1]),
        (1, SortedValues.of(range(9, 14)), [1, 2, 3, 4, 5]),
        (1, SortedValues.of([]), None),
        (1, (None, None), None),
        (1, (10**30, None), None),
        (2, ("b", "bz"), [1]),
        (2, SortedValues.of(["i"]), [8]),
        (3, (first + 2, first + 3), [2, 3]),
    ]
    table = Table(1, "main", "t", columns)
    with statistics(*database, files, rows) as connection:
        for column, wanted, expected in cases:
            assert possible_files(connection, table, 5, [{column: wanted}]) == expected, wanted
        both = [{1: (9, 12)}, {2: ("c", "z")}]
        assert possible_files(connection, table, 5, both) == [2, 3, 4]


# Lakes

KINDS = {"k": "bigint", "s": "string", "d": "date", "x": "double", "m": "decimal(6,2)"}
TUNED = Settings(inline_row_limit=2, inline_delete_limit=3, catalog_rows=0, small_files=0)


def value(random: Random, kind: str) -> Any:
    number = random.randint(-20, 20)
    if random.random() < 0.1:
        return None
    match kind:
        case "string":
            return chr(ord("a") + number % 7) * random.randint(0, 3)
        case "date":
            return date(2020, 1, 1) + timedelta(number)
        case "double":
            return float("nan") if random.random() < 0.1 else number / 2
        case "decimal(6,2)":
            return Decimal(number) / 4
    return number


def some_rows(random: Random, table: Table) -> pa.Table:
    count, arrow = random.choice((1, 4, 9)), {"bigint": pa.int64(), "date": pa.date32()}
    arrow |= {"string": pa.string(), "double": pa.float64(), "decimal(6,2)": pa.decimal128(6, 2)}
    return pa.table(
        {
            c.name: pa.array([value(random, c.type) for _ in range(count)], arrow[c.type])
            for c in table.columns
        }
    )


def act(catalog: Catalog, random: Random, step: int) -> None:
    what = random.choice(("insert",) * 4 + ("delete", "delete", "compact", "expire", "shape"))
    if what == "compact":
        compact(catalog, catalog.table("t"))
    elif what == "expire":
        expire(catalog, keep_from=catalog.version() - 4, older_than=0.0)
    else:
        with catalog.begin() as tx:
            table = tx.table("t")
            if what == "insert":
                tx.insert_rows("t", some_rows(random, table))
            elif what == "delete":
                for file in tx.scan("t").files:
                    dead = set(file.deleted.to_pylist())
                    places = random.sample(range(file.rows), random.choice((0, 1, file.rows)))
                    tx.delete_rows("t", {file.id: [p for p in places if p not in dead]})
            elif random.random() < 0.1:
                tx.truncate("t")
            else:
                name = random.choice(table.columns).name
                tx.rename_column("t", name, f"was_{name}_{step}"[:40])
                kind = random.choice(sorted(KINDS.values()))
                tx.add_column("t", NewColumn(name, kind, initial=None))


def conditions(random: Random, table: Table) -> list[dict[str, Any]]:
    def one(column: Column) -> dict[str, Any]:
        if random.random() < 0.5:
            return {column.name: [value(random, column.type) for _ in range(random.randint(0, 6))]}
        ends = [value(random, column.type) for _ in "ab"]
        if None not in ends and ends[0] == ends[0] and ends[1] == ends[1]:
            ends.sort()
        return {column.name: tuple(ends)}

    return [one(random.choice(table.columns)) for _ in range(random.randint(1, 2))]


def facts(plan: ScanPlan) -> tuple[Any, ...]:
    columns = [column.id for column in plan.table.columns]
    files = sorted(
        (f.id, f.path, f.rows, f.live, f.deleted.to_pylist(), f.has_row_ids, f.inserted_through,
         sorted(f.missing), f.names, [repr(f.bounds.get(c)) for c in columns])
        for f in plan.files
    )  # fmt: skip
    inlined = plan.inlined.sort_by(ROW_ID).columns
    return files, plan.version, plan.rows, [repr(plain(values)) for values in inlined]


def same(cold: Catalog, warm: Catalog, version: int, wanted: list[dict[str, Any]]) -> None:
    """Who just came has the plan of who knows all files."""
    plan = warm.scan("t", version)
    for condition in wanted:
        plan = plan.prune(condition)
    assert facts(cold.scan("t", version, wanted)) == facts(plan), wanted


@pytest.mark.parametrize("seed", range(4))
def test_who_just_came_plans_like_who_was_there(
    open_lake: Callable[..., Catalog], seed: int
) -> None:
    random = Random(seed)
    tuned = {"inline_row_limit": 2, "inline_delete_limit": 3, "catalog_rows": 0, "small_files": 0}
    warm = open_lake(**tuned)
    with warm.begin() as tx:
        tx.create_table("t", [NewColumn(*both) for both in KINDS.items()])
    for step in range(20):
        act(warm, random, step)
        cold = open_lake(**tuned)
        for _ in range(_ASKS):  # more are asked of the list
            version = random.choice((warm.version(), warm.version(), None))
            if version is None:
                version = random.randint(max(1, warm.oldest_version()), warm.version())
            same(cold, warm, version, conditions(random, warm.table("t", version)))
        cold.close()


def test_what_duckdb_wrote_in_between(tmp_path: Path) -> None:
    folder, random = tmp_path / "lake", Random(1)
    kinds = {"k": "BIGINT", "s": "VARCHAR", "d": "DATE", "x": "DOUBLE", "m": "DECIMAL(6,2)"}
    duck.write(
        folder,
        [f"CREATE TABLE t ({', '.join(f'{n} {kind}' for n, kind in kinds.items())})"]
        + ["INSERT INTO t SELECT r, 's' || r, DATE '2020-01-01' + r::INT, r / 2, r / 4 "
           f"FROM range({i}, {i + 20}) AS a(r)" for i in (-20, 0, 20)],
    )  # fmt: skip
    other = str(tmp_path / "other.parquet")
    with Catalog.open(str(folder)) as warm:
        for statements in (
            ["DELETE FROM t WHERE k < -15", "INSERT INTO t (k) SELECT range FROM range(50)"],
            ["ALTER TABLE t ADD COLUMN z INT DEFAULT 7", "INSERT INTO t (z) VALUES (1), (NULL)"],
            [f"COPY (SELECT 5::BIGINT AS k, 'x' AS s) TO '{other}' (FORMAT parquet)",
             f"CALL ducklake_add_data_files('lk', 't', '{other}', allow_missing => true)"],
            ["ALTER TABLE t RENAME COLUMN k TO kk", "UPDATE t SET kk = kk + 1 WHERE kk > 45"],
            ["CALL ducklake_merge_adjacent_files('lk')", "INSERT INTO t (d) VALUES ('0044-01-01 (BC)')"],
            ["DROP TABLE t", "CREATE TABLE t (k INT)", "INSERT INTO t SELECT range FROM range(30)"],
        ):  # fmt: skip
            same_everywhere(folder, warm, random)
            duck.write(folder, statements)
        same_everywhere(folder, warm, random)


def same_everywhere(folder: Path, warm: Catalog, random: Random) -> None:
    for version in {warm.version(), max(2, warm.version() - 1)}:
        for _ in range(10):
            with Catalog.open(str(folder)) as cold:
                table = warm.table("t", version)
                column = random.choice(
                    [c for c in table.columns if c.type != "int"] or table.columns
                )
                same(cold, warm, version, [{column.name: (value(random, column.type), None)}])
                same(
                    cold, warm, version, [{table.columns[0].name: [random.randint(-25, 60), None]}]
                )


@pytest.mark.parametrize("text", ["x", "1x", ""])
def test_a_text_that_is_no_number_leaves_no_file_out(
    open_lake: Callable[..., Catalog], text: str
) -> None:
    catalog = open_lake(inline_row_limit=0)
    with catalog.begin() as tx:
        tx.create_table("t", [NewColumn("k", "bigint")])
    for start in (0, 10, 20):
        with catalog.begin() as tx:
            tx.insert_rows("t", pa.table({"k": range(start, start + 10)}))
    with catalog.writing() as connection:
        connection.execute(
            "UPDATE ducklake_file_column_stats SET min_value = ?, max_value = ? WHERE min_value = '0'",
            (text, text),
        )
    plan = open_lake().scan("t", None, [{"k": [5]}])
    assert 5 in read_scan(plan)["k"].to_pylist()


# What it is for


@pytest.mark.parametrize("files", [FEW // 2, 2 * FEW])
def test_the_list_is_left_alone_until_it_is_worth_it(
    open_lake: Callable[..., Catalog], files: int
) -> None:
    catalog = open_lake()
    with catalog.begin() as tx:
        kinds: Mapping[str, str] = {"id": "bigint", "customer": "bigint", "amount": "decimal(12,2)"}
        columns = [NewColumn(*both) for both in {**kinds, "day": "date", "note": "string"}.items()]
        tx.create_table("facts", columns, primary_key=["id"])
        tx.create_table("other", [NewColumn("k", "bigint")])
    with catalog.begin() as tx:
        tx.insert_rows("facts", pa.table({"id": pa.array(range(growth.ROWS), pa.int64())}))
    growth.grow(catalog, catalog.table("facts"), catalog.table("other"), files, 3 * files)
    cold = open_lake()
    for key in range(_ASKS):
        assert len(cold.scan("facts", None, [{"id": [key]}]).files) == 1
        assert not cold._plans._files
    assert len(cold.scan("facts", None, [{"id": [5]}]).files) == 1
    assert len(cold.scan("facts").files) == files + 1
    again = open_lake()
    found = again.scan("facts", None, [{"id": (0, None)}])
    assert len(found.files) == files + 1
    assert bool(again._plans._files) == (files > FEW)  # so many are not asked for one by one
