"""Dates and timestamps beyond Python's: as numbers, as text, in the catalog and in files."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.support import duck

import spark_trickle
from spark_trickle.errors import CatalogError, InvalidDataError
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.files import calendar
from spark_trickle.storage.read.reader import read_scan
from spark_trickle.storage.records import NewColumn
from spark_trickle.storage.upkeep import maintenance

DAYS = [
    0, -1, 2**31 - 1, 2**31 - 2, -(2**31), -(2**31) + 1, -(2**31) + 2, -719163, -719162, -719528,
    -719529, -141428, -141427, 2932896, 2932897, -354650, -2_000_000,
]  # fmt: skip
MICROS = [
    0, -1, 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1, -9_223_372_022_400_000_000,
    253402300799999999, 253402300800000000, -62135596800000000, -62135596800000001,
    -62167219200000001, -12219292800000001, 1_700_000_000_123_456,
]  # fmt: skip


def test_texts_are_those_of_duckdb() -> None:
    generator = random.Random(3)
    days = [d for d in DAYS if calendar.has_text(d, days=True)]
    days += [generator.randrange(-(2**31) + 2, 2**31 - 1) for _ in range(300)]
    micros = [m for m in MICROS if calendar.has_text(m, days=False)]
    micros += [generator.randrange(-9_223_372_022_400_000_000, 2**63 - 1) for _ in range(300)]
    connection = duckdb.connect()
    connection.register("d", pa.table({"v": pa.array(days, pa.date32())}))
    connection.register("t", pa.table({"v": pa.array(micros, pa.timestamp("us"))}))
    theirs = [r[0] for r in connection.execute("SELECT v::VARCHAR FROM d").fetchall()]
    assert [calendar.date_text(d) for d in days] == theirs
    assert [calendar.read_date(text) for text in theirs] == days
    theirs = [r[0] for r in connection.execute("SELECT v::VARCHAR FROM t").fetchall()]
    assert [calendar.read_timestamp(text) for text in theirs] == micros
    assert [calendar.read_timestamp(calendar.timestamp_text(m)) for m in micros] == micros


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01 00:00:01+00", 1_000_000),
        ("1970-01-01 05:30:00+05:30", 0),
        ("10000-01-01 00:00:00.5-01", 253402300800_500_000 + 3_600_000_000),
        ("0001-01-01 (BC) 00:00:00+00", -62167219200000000),
        ("-0001-12-31 23:59:59.999999", -62167219200000001),
        ("<value out of range: -9223372036854775808>", -(2**63)),
        ("infinity", 2**63 - 1),
    ],
)
def test_texts_that_others_wrote(text: str, micros: int) -> None:
    assert calendar.read_timestamp(text) == micros


@pytest.mark.parametrize("text", ["", "yesterday", "2020-13-01", "2020-01-01x", "<value>"])
def test_what_is_no_date(text: str) -> None:
    for read in (calendar.read_date, calendar.read_timestamp):
        with pytest.raises(ValueError, match="is no "):
            read(text)


_COLUMNS = [
    NewColumn("d", "date"),
    NewColumn("t", "timestamp"),
    NewColumn("n", "timestamp_ntz"),
]


def _rows(numbers: list[tuple[int, int]]) -> pa.Table:
    micros = [m for _, m in numbers]
    return pa.table(
        {
            "d": pa.array([d for d, _ in numbers], pa.date32()),
            "t": pa.array(micros, pa.timestamp("us", "UTC")),
            "n": pa.array(micros, pa.timestamp("us")),
        }
    )


def _numbers(rows: pa.Table) -> list[list[int]]:
    kinds = [pa.int32(), pa.int64(), pa.int64()]
    columns = [rows.column(i).cast(kind).to_pylist() for i, kind in enumerate(kinds)]
    return sorted(list(row) for row in zip(*columns, strict=True))


@pytest.mark.parametrize("limit", [1000, 0], ids=["inlined", "in a file"])
def test_all_numbers_survive_and_are_found_again(open_lake: Any, limit: int) -> None:
    catalog = open_lake(inline_row_limit=limit)
    with catalog.begin() as tx:
        tx.create_table("t", _COLUMNS)
    pairs = [(d, m) for d, m in zip(DAYS, MICROS * 2, strict=False)]
    for pair in pairs:
        with catalog.begin() as tx:
            tx.insert_rows("t", _rows([pair]))
    wanted = _numbers(_rows(pairs))
    plan = open_lake().scan("t")
    assert _numbers(read_scan(plan)) == wanted
    maintenance.compact(catalog, "t")
    plan = open_lake().scan("t")
    assert _numbers(read_scan(plan)) == wanted
    for file in plan.files:
        bounds = file.bounds[plan.table.columns[0].id]
        assert bounds.low is None or bounds.low <= 0 <= bounds.high


def test_files_are_left_out_by_numbers(open_lake: Any) -> None:
    catalog = open_lake(inline_row_limit=0)
    with catalog.begin() as tx:
        tx.create_table("t", _COLUMNS)
    for pair in ((3_000_000, 260_000_000_000_000_000), (0, 0), (-800_000, -(2**62))):
        with catalog.begin() as tx:
            tx.insert_rows("t", _rows([pair]))
    plan = catalog.scan("t")
    rows = _rows([(3_000_000, 260_000_000_000_000_000), (-800_000, -(2**62))])
    for name in ("d", "t", "n"):
        assert len(plan.prune({name: rows.column(name)}).files) == 2
        assert len(plan.prune({name: rows.column(name).slice(1)}).files) == 1


def test_duckdb_reads_what_it_has_a_text_for(catalog: Catalog, folder: Path) -> None:
    with catalog.begin() as tx:
        tx.create_table("t", _COLUMNS)
    pairs = [(d, m) for d, m in zip(DAYS, MICROS, strict=False)]
    texts = []
    for d, m in pairs:
        if calendar.has_text(d, days=True) and calendar.has_text(m, days=False):
            with catalog.begin() as tx:
                tx.insert_rows("t", _rows([(d, m)]))
            texts.append((calendar.date_text(d), calendar.timestamp_text(m)))
    query = "SELECT d::VARCHAR, n::VARCHAR FROM t ORDER BY rowid"
    (found,) = duck.read(folder / "catalog.sqlite", [query])
    trimmed = [(d, m.rstrip("0") if "." in m else m) for d, m in texts]
    assert [tuple(row) for row in found] == trimmed
    assert len(found) > 10


def test_one_unreadable_table_does_not_stop_compaction(tmp_path: Path) -> None:
    with spark_trickle.connect(tmp_path / "lake") as lake:
        for name in ("a", "b", "c"):
            lake.sql(f"CREATE TABLE {name} (d DATE)")
            lake.sql(f"INSERT INTO {name} VALUES (DATE '2024-01-01')")
        with lake._catalog.writing() as connection:
            ((table,),) = connection.execute(
                "SELECT d.table_name FROM ducklake_inlined_data_tables d JOIN ducklake_table t "
                "ON t.table_id = d.table_id WHERE t.table_name = 'b'"
            )
            connection.execute(f"UPDATE {table} SET d = 'nonsense'")
        done = {each.table: each for each in lake.compact()}
        assert [done[name].inlined_rows for name in ("a", "b", "c")] == [1, 0, 1]
        assert done["a"].problem is None
        assert "column d of table b" in str(done["b"].problem)
        with pytest.raises(CatalogError, match="column d of table b"):
            lake.compact("b")


def test_a_default_without_a_text_is_refused(catalog: Catalog) -> None:
    with catalog.begin() as tx:
        tx.create_table("t", [NewColumn("a", "int")])
        with pytest.raises(InvalidDataError, match="default of column d"):
            tx.add_column("t", NewColumn("d", "date", initial=-(2**31)))
        tx.add_column("t", NewColumn("e", "date", initial=3_000_000))
    assert catalog.table("t").columns[1].initial_default == 3_000_000
