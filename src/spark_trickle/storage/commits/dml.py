"""Writes a transaction's rows, files and deletes of one table into the catalog, under the lock; and the
statistics of tables, bounds over everything that they ever held, in every version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa

from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.database import Connection, quoted
from spark_trickle.storage.catalog.ddl import create_inlined
from spark_trickle.storage.catalog.ids import CatalogIds
from spark_trickle.storage.commits.file_entries import FileEntries, insert_file
from spark_trickle.storage.faults import reach
from spark_trickle.storage.files import positions
from spark_trickle.storage.files.parquet import FileFacts
from spark_trickle.storage.files.types import leaves
from spark_trickle.storage.files.values import (
    ColumnStats,
    bound,
    encode,
    plain,
    value_stats,
)
from spark_trickle.storage.records import ROW_ID, Column, Table
from spark_trickle.storage.versions.planning import Planner, conformed
from spark_trickle.storage.versions.staging import Owned, Staged


def next_row_ids(connection: Connection, table: Table, count: int) -> int:
    """The first of so many row ids that no row of the table has had."""
    rows = connection.execute(
        "SELECT next_row_id FROM ducklake_table_stats WHERE table_id = ?", (table.id,)
    )
    if not rows:
        connection.execute("INSERT INTO ducklake_table_stats VALUES (?, 0, 0, 0)", (table.id,))
    if count or not rows:
        connection.execute(
            "UPDATE ducklake_table_stats SET next_row_id = next_row_id + ? WHERE table_id = ?",
            (count, table.id),
        )
    return int(rows[0][0]) if rows else 0


_ASKED = 500
"""Tables that are asked about in one statement."""
InlinedTables = Mapping[int, Sequence[tuple[int, str]]]
"""By table: the tables of the catalog that hold its rows, with their schema versions, oldest first."""


def inlined_tables(connection: Connection, tables: Sequence[Table]) -> InlinedTables:
    """Of some tables."""
    found: dict[int, list[tuple[int, str]]] = {table.id: [] for table in tables}
    if not tables:
        return found
    for number, version, name in connection.execute(
        "SELECT table_id, schema_version, table_name FROM ducklake_inlined_data_tables "
        f"WHERE table_id IN ({', '.join('?' * len(tables))}) ORDER BY schema_version",
        [table.id for table in tables],
    ):
        found[number].append((version, name))
    return found


@dataclass
class TableWriter:
    """Writes for one table in one commit."""

    connection: Connection
    table: Table
    ids: CatalogIds
    planner: Planner
    settings: Settings
    base: int
    owned: Owned
    stats: TableStats
    inlined: InlinedTables = field(default_factory=dict)
    """As far as it is known."""

    @property
    def files(self) -> FileEntries:
        tools = (self.ids, self.planner, self.settings, self.owned)
        return FileEntries(self.connection, self.table, *tools)

    def write(self, staged: Staged) -> list[str]:
        """Write everything; the entries for the list of changes."""
        changes = []
        ended = self._delete(staged)
        reach("deletes-written")
        real_ids = {}
        if staged.files:
            real_ids = {f.id: self._add_file(f.facts) for f in staged.files}
            changes.append(f"inserted_into_table:{self.table.id}")
        if staged.kept_rows:
            self._inline(staged)
            changes.append(f"inlined_insert:{self.table.id}")
            reach("inlined-rows-written")
        own = {real_ids[i]: p for i, p in staged.dead.items() if i in real_ids and len(p)}
        if own:
            paths = {real_ids[f.id]: f.facts.path for f in staged.files}
            in_files = self.files.delete_positions(own, paths)
            ended = Ended(ended.files or in_files, ended.inlined or not in_files)
        made = {real_ids[i]: f for i, f in staged.written.items() if i in real_ids}
        if made:
            self.files.put(made)
            ended.files = True
        if ended.files:
            changes.append(f"deleted_from_table:{self.table.id}")
        if ended.inlined:
            changes.append(f"inlined_delete:{self.table.id}")
        return changes

    # Inserts

    def _inline(self, staged: Staged) -> None:
        columns = self.table.columns
        values, ids = _kept(staged, columns)
        numbered = self._numbers(ids)
        encoded = (
            encode(own, c, self.connection.kind) for own, c in zip(values, columns, strict=True)
        )
        marks = ", ".join("?" * (3 + len(columns)))
        rows = len(numbered)
        self.connection.execute_many(
            f"INSERT INTO {quoted(self._inlined_table())} VALUES ({marks})",
            list(zip(numbered, [self.ids.version] * rows, [None] * rows, *encoded, strict=True)),
        )
        stats = {c.id: value_stats(own, c) for own, c in zip(values, columns, strict=True)}
        self._add_stats(rows, 0, stats)

    def _numbers(self, ids: Sequence[int]) -> list[int]:
        """The ids of rows, new ones in place of those below zero."""
        unnumbered = sum(1 for i in ids if i < 0)
        if not unnumbered:
            return list(ids)
        fresh = count(next_row_ids(self.connection, self.table, unnumbered))
        return [i if i >= 0 else next(fresh) for i in ids]

    def _add_stats(self, rows: int, size: int, stats: Mapping[int, ColumnStats]) -> None:
        self.stats.add(self.table, rows, size, stats)

    def _inlined_table(self) -> str:
        fit = [name for version, name in self._inlined() if version >= self.table.schema_version]
        return fit[-1] if fit else create_inlined(self.connection, self.table)

    def _inlined(self) -> Sequence[tuple[int, str]]:
        known = self.inlined.get(self.table.id)
        if known is None:
            return inlined_tables(self.connection, [self.table])[self.table.id]
        return known

    def _add_file(self, facts: FileFacts) -> int:
        number = self.ids.next_file()
        first = None
        if not facts.has_row_ids:
            first = next_row_ids(self.connection, self.table, facts.rows)
        insert_file(self.connection, self.table, number, facts, (self.ids.version, first, None))
        self._add_stats(facts.rows, facts.bytes, facts.stats)
        return number

    # Deletes

    def _delete(self, staged: Staged) -> Ended:
        if staged.truncated:
            files = self.files.end_all()
            self._end_inlined(None)
            return Ended(files, inlined=True)
        ended = Ended()
        made = {i: f for i, f in staged.written.items() if i >= 0}
        wrong = [i for i, f in made.items() if f.guess not in (None, self.ids.version)]
        staged = staged.loaded(wrong)
        if made:
            self.files.put({i: f for i, f in made.items() if i not in wrong})
            ended.files = True
        wanted = {i: p for i, p in staged.dead.items() if i >= 0 and len(p)}
        if wanted:
            dead = self.planner.dead(self.connection, self.table, self.base, list(wanted))
            rows = self.files.live(list(wanted))
            whole = [
                i for i, p in wanted.items() if not len(dead.get(i, ())) and len(p) == rows[i][1]
            ]
            self.files.end_files(whole, self.ids.version)
            rest = {
                i: positions.minus(p, dead[i]) if i in dead else p
                for i, p in wanted.items()
                if i not in whole
            }
            ended.files = ended.files or bool(whole)
            paths = {i: rows[i][0] for i in rest}
            in_files = bool(rest) and self.files.delete_positions(rest, paths)
            ended.files = ended.files or in_files
            ended.inlined = bool(rest) and not in_files
        if len(staged.dead_inlined):
            self._end_inlined(staged.dead_inlined)
            ended.inlined = True
        return ended

    def _end_inlined(self, row_ids: pa.Array | None) -> int:
        """End inlined rows, all or those of the given ids; how many tables of them there are."""
        names = [name for _, name in self._inlined()]
        for name in names:
            sql = f"UPDATE {quoted(name)} SET end_snapshot = ? WHERE end_snapshot IS NULL"
            if row_ids is None:
                self.connection.execute(sql, (self.ids.version,))
                continue
            wanted = row_ids.to_pylist()
            for start in range(0, len(wanted), 500):
                part = wanted[start : start + 500]
                marks = ", ".join("?" * len(part))
                self.connection.execute(f"{sql} AND row_id IN ({marks})", (self.ids.version, *part))
        return len(names)


def _kept(staged: Staged, columns: Sequence[Column]) -> tuple[list[list[Any]], list[int]]:
    """The rows for the catalog as columns of plain values, and their ids."""
    parts = [r for r in staged.rows if r.num_rows]
    # Few rows: calls to Arrow cost more than the values, so each column is asked for once.
    values = [[v for r in parts for v in plain(conformed(r, c, r.num_rows))] for c in columns]
    ids = [i for r in parts for i in r.column(ROW_ID).to_pylist()]
    if staged.plain is not None:
        ids += staged.plain.ids
        for found, column in zip(values, columns, strict=True):
            found += staged.plain.columns[column.id]
    return values, ids


@dataclass
class Ended:
    """What kinds of deletes were made."""

    files: bool = False
    inlined: bool = False


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
        for start in range(0, len(ids), _ASKED):
            some = ids[start : start + _ASKED]
            rows = self._connection.execute(
                "SELECT table_id, column_id, contains_null, contains_nan, min_value, max_value "
                "FROM ducklake_table_column_stats "
                f"WHERE table_id IN ({', '.join('?' * len(some))})",
                some,
            )
            found |= {(table, column): tuple(row) for table, column, *row in rows}
        return found


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
    low, high = new[2] if lows[1] < lows[0] else old[2], new[3] if highs[1] > highs[0] else old[3]
    return nulls, nan, low, high
