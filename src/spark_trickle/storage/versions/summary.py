"""Table-wide statistics: bounds over everything the table ever held, in every version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.files.parquet import ColumnStats, texts
from spark_trickle.storage.files.types import leaves
from spark_trickle.storage.files.values import bound
from spark_trickle.storage.records import Column, Table


def add_to_table(
    connection: Connection, table: Table, rows: int, size: int, stats: Mapping[int, ColumnStats]
) -> None:
    """Widen the table's statistics; DuckDB plans by them, so they must never be too narrow."""
    connection.execute(
        "UPDATE ducklake_table_stats SET record_count = record_count + ?, "
        "file_size_bytes = file_size_bytes + ? WHERE table_id = ?",
        (rows, size, table.id),
    )
    known = {
        row[0]: row[1:]
        for row in connection.execute(
            "SELECT column_id, contains_null, contains_nan, min_value, max_value "
            "FROM ducklake_table_column_stats WHERE table_id = ?",
            (table.id,),
        )
    }
    updates, inserts = [], []
    for column in (leaf for top in table.columns for leaf in leaves(top)):
        new = _as_row(stats.get(column.id))
        old = known.get(column.id)
        merged = new if old is None else _merged(column, old, new)
        if old is None:
            inserts.append((table.id, column.id, *merged))
        elif merged != tuple(old):
            updates.append((*merged, table.id, column.id))
    connection.execute_many(
        "INSERT INTO ducklake_table_column_stats VALUES (?, ?, ?, ?, ?, ?, NULL)", inserts
    )
    connection.execute_many(
        "UPDATE ducklake_table_column_stats SET contains_null = ?, contains_nan = ?, min_value = ?, "
        "max_value = ? WHERE table_id = ? AND column_id = ?",
        updates,
    )


def _as_row(stats: ColumnStats | None) -> tuple[Any, ...]:
    """(contains_null, contains_nan, min, max); a column the file lacks may hold anything."""
    if stats is None:
        return True, None, None, None
    nulls = True if stats.nulls is None else stats.nulls > 0
    return nulls, stats.nan, stats.low, stats.high


def _merged(column: Column, old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
    nulls = None if old[0] is None else bool(old[0]) or new[0]
    nan = None if old[1] is None or new[1] is None else bool(old[1]) or new[1]
    lows = [bound(column, t) for t in (old[2], new[2])]
    highs = [bound(column, t) for t in (old[3], new[3])]
    if None in lows or None in highs:
        return nulls, nan, None, None
    return nulls, nan, *texts(column, min(lows), max(highs))
