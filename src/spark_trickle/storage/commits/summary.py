"""Table-wide statistics: bounds over everything the table ever held, in every version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.files.types import leaves
from spark_trickle.storage.files.values import ColumnStats, bound, texts
from spark_trickle.storage.records import Column, Table


class TableStats:
    """What is added to the statistics of tables in one commit, written at once.

    DuckDB plans by them, so they must never be too narrow.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._added: list[tuple[Table, int, int, Mapping[int, ColumnStats]]] = []

    def add(self, table: Table, rows: int, size: int, stats: Mapping[int, ColumnStats]) -> None:
        self._added.append((table, rows, size, stats))

    def write(self) -> None:
        """Widen the statistics of all tables."""
        if not self._added:
            return
        self._connection.execute_many(
            "UPDATE ducklake_table_stats SET record_count = record_count + ?, "
            "file_size_bytes = file_size_bytes + ? WHERE table_id = ?",
            [(rows, size, table.id) for table, rows, size, _ in self._added],
        )
        before = self._known()
        after = dict(before)
        for table, _, _, stats in self._added:
            for column in (leaf for top in table.columns for leaf in leaves(top)):
                new, old = _as_row(stats.get(column.id)), after.get((table.id, column.id))
                after[table.id, column.id] = new if old is None else _merged(column, old, new)
        self._connection.execute_many(
            "INSERT INTO ducklake_table_column_stats VALUES (?, ?, ?, ?, ?, ?, NULL)",
            [(*place, *row) for place, row in after.items() if place not in before],
        )
        self._connection.execute_many(
            "UPDATE ducklake_table_column_stats SET contains_null = ?, contains_nan = ?, "
            "min_value = ?, max_value = ? WHERE table_id = ? AND column_id = ?",
            [(*row, *p) for p, row in after.items() if p in before and row != before[p]],
        )

    def _known(self) -> dict[tuple[int, int], tuple[Any, ...]]:
        ids = sorted({table.id for table, *_ in self._added})
        found: dict[tuple[int, int], tuple[Any, ...]] = {}
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            rows = self._connection.execute(
                "SELECT table_id, column_id, contains_null, contains_nan, min_value, max_value "
                "FROM ducklake_table_column_stats "
                f"WHERE table_id IN ({', '.join('?' * len(some))})",
                some,
            )
            found |= {(table, column): tuple(row) for table, column, *row in rows}
        return found


_AT_ONCE = 500
"""Tables that are asked about in one statement."""


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
