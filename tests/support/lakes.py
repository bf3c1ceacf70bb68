"""Small DML on a lake without Spark, and comparisons of what readers see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_trickle import Lake
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.files.types import arrow_schema
from spark_trickle.storage.read.reader import read_changes, read_file, read_scan
from spark_trickle.storage.records import ROW_ID, WEIGHT, ScanPlan
from spark_trickle.storage.versions.transaction import Transaction

from . import duck

Row = dict[str, Any]


def limited(lake: Lake, **limits: int) -> None:
    """Other limits from now on, as if the lake had been opened with them."""
    engine = lake._engine
    settings = replace(engine.settings, limits=replace(engine.settings.limits, **limits))
    engine.settings = engine.catalog.settings = settings


def rows_of(catalog: Catalog, table: str, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Arrow rows with the table's own types."""
    schema = arrow_schema(catalog.table(table).columns)
    return pa.table(
        {n: pa.array(list(v), schema.field(n).type) for n, v in columns.items()},
    )


def located(plan: ScanPlan) -> Iterable[tuple[Row, int | None, int]]:
    """Each row with its file (None: inlined) and position (inlined: row id)."""
    for file in plan.files:
        dead = set(file.deleted.to_pylist())
        alive = [p for p in range(file.rows) if p not in dead]
        parts = read_file(plan.table, file, only=pa.array(alive, pa.int64()))
        rows = [r for part in parts for r in part.to_pylist()]
        for row, position in zip(rows, alive, strict=True):
            yield row, file.id, position
    for row in plan.inlined.to_pylist():
        yield row, None, row[ROW_ID]


def modify(
    tx: Transaction,
    table: str,
    chosen: Callable[[Row], bool],
    change: Callable[[Row], Row] | None,
) -> int:
    """DELETE (no change) or UPDATE of the rows that are chosen, keeping row ids."""
    plan = tx.scan(table)
    hits = [hit for hit in located(plan) if chosen(hit[0])]
    files: dict[int, list[int]] = {}
    inlined = []
    for _, file, position in hits:
        if file is None:
            inlined.append(position)
        else:
            files.setdefault(file, []).append(position)
    if not hits:
        return 0
    tx.delete_rows(table, files, inlined)
    if change is not None:
        new = [change({k: v for k, v in row.items() if k != ROW_ID}) for row, _, _ in hits]
        schema = arrow_schema(tx.table(table).columns)
        ids = pa.array([row[ROW_ID] for row, _, _ in hits], pa.int64())
        tx.insert_rows(table, pa.Table.from_pylist(new, schema=schema), ids)
    return len(hits)


def leave_no_trace(catalog: Catalog) -> None:
    """As if files and rows had been damaged as they lie there: no version tells of it."""
    with catalog.writing() as connection:
        connection.execute(
            "UPDATE trickle_written SET version = (SELECT max(snapshot_id) FROM ducklake_snapshot)"
        )


def text(value: Any) -> str | None:
    return None if value is None else str(value)


def bag(rows: Iterable[Sequence[Any]]) -> Counter[tuple[str | None, ...]]:
    """A multiset of rows, every value as text."""
    return Counter(tuple(text(v) for v in row) for row in rows)


def contents(catalog: Catalog, table: str, version: int | None = None) -> Counter[Any]:
    """What our own reader sees."""
    return bag(r.values() for r in read_scan(catalog.scan(table, version)).to_pylist())


def net(catalog: Catalog, table: str, before: int, after: int) -> Counter[Any]:
    """Our change feed, consolidated: weight by row, rows of weight 0 left out."""
    plan = catalog.changes(table, before, after)
    rows = read_changes(plan).to_pylist()
    assert sum(1 for r in rows if r[WEIGHT] > 0) == plan.inserted_rows
    assert sum(1 for r in rows if r[WEIGHT] < 0) == plan.deleted_rows
    assert plan.empty == (not rows)
    result: Counter[Any] = Counter()
    for row in rows:
        weight = row.pop(WEIGHT)
        result[tuple(text(v) for v in row.values())] += weight
    return Counter({k: n for k, n in result.items() if n})


def difference(left: Counter[Any], right: Counter[Any]) -> Counter[Any]:
    """right - left, with negative weights."""
    result = Counter(right)
    result.subtract(left)
    return Counter({k: n for k, n in result.items() if n})


def agrees_with_duckdb(
    catalog: Catalog, location: Path | str, table: str, feed: bool = True
) -> None:
    """DuckDB reads every version as we do, and its change feed nets to ours."""
    oldest, newest = catalog.oldest_version(), catalog.version()
    versions = [v for v in range(oldest, newest + 1) if _has(catalog, table, v)]
    queries = [f"SELECT * FROM {table} AT (VERSION => {v})" for v in versions]
    counts = [f"SELECT count(*) FROM {table} AT (VERSION => {v})" for v in versions]
    windows = (
        [(a, b) for i, a in enumerate(versions) for b in versions[i + 1 :]][:30] if feed else []
    )
    feeds = [
        f"SELECT * FROM ducklake_table_changes('lk', 'main', '{table}', {a + 1}, {b})"
        for a, b in windows
    ]
    answers = duck.read(duck.catalog_of(location), [*queries, *counts, *feeds])
    for i, version in enumerate(versions):
        ours = contents(catalog, table, version)
        assert bag(answers[i]) == ours, f"version {version}"
        assert int(answers[len(versions) + i][0][0]) == sum(ours.values())
    for (a, b), rows in zip(windows, answers[2 * len(versions) :], strict=True):
        theirs: Counter[Any] = Counter()
        for _, _, kind, *values in rows:
            theirs[tuple(values)] += 1 if kind in ("insert", "update_postimage") else -1
        assert Counter({k: n for k, n in theirs.items() if n}) == net(catalog, table, a, b), (a, b)


def _has(catalog: Catalog, table: str, version: int) -> bool:
    return any(t.name == table for t in catalog.tables(version))
