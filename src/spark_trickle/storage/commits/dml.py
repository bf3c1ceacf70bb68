"""Writes a transaction's rows, files and deletes of one table into the catalog, under the lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.database import Connection, quoted
from spark_trickle.storage.catalog.ddl import create_inlined
from spark_trickle.storage.catalog.ids import CatalogIds
from spark_trickle.storage.catalog.structure import VISIBLE, resolve
from spark_trickle.storage.commits.summary import TableStats
from spark_trickle.storage.faults import reach
from spark_trickle.storage.files import positions
from spark_trickle.storage.files.parquet import FileFacts
from spark_trickle.storage.files.values import ColumnStats, array_stats, encode
from spark_trickle.storage.records import ROW_ID, Table
from spark_trickle.storage.versions import deaths
from spark_trickle.storage.versions.deaths import DeathFile, Deaths, relative_path
from spark_trickle.storage.versions.planning import Planner, conform
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
    stats: TableStats | None = None
    """Where statistics are gathered; None: they are written table by table."""
    inlined: InlinedTables = field(default_factory=dict)
    """As far as it is known."""

    def write(self, staged: Staged) -> list[str]:
        """Write everything; the entries for the list of changes."""
        changes = []
        ended = self._delete(staged)
        reach("deletes-written")
        real_ids = {}
        if staged.files:
            real_ids = {f.id: self._add_file(f.facts) for f in staged.files}
            changes.append(f"inserted_into_table:{self.table.id}")
        if sum(r.num_rows for r in staged.rows):
            self._inline(staged)
            changes.append(f"inlined_insert:{self.table.id}")
            reach("inlined-rows-written")
        own = {real_ids[i]: p for i, p in staged.dead.items() if i in real_ids and len(p)}
        if own:
            paths = {real_ids[f.id]: f.facts.path for f in staged.files}
            in_files = self._delete_positions(own, paths)
            ended = Ended(ended.files or in_files, ended.inlined or not in_files)
        made = {real_ids[i]: f for i, f in staged.written.items() if i in real_ids}
        if made:
            self._put(made)
            ended.files = True
        if ended.files:
            changes.append(f"deleted_from_table:{self.table.id}")
        if ended.inlined:
            changes.append(f"inlined_delete:{self.table.id}")
        return changes

    # Inserts

    def _inline(self, staged: Staged) -> None:
        columns = self.table.columns
        parts = [conform(r, columns) for r in staged.rows if r.num_rows]
        rows = pa.concat_tables(parts)
        ids = [i for r in staged.rows if r.num_rows for i in r.column(ROW_ID).to_pylist()]
        unnumbered = sum(1 for i in ids if i < 0)
        fresh = next_row_ids(self.connection, self.table, unnumbered) if unnumbered else 0
        numbered = []
        for number in ids:
            numbered.append(number if number >= 0 else fresh)
            fresh += number < 0
        version = self.ids.version
        encoded = [
            encode(rows.column(i), column, self.connection.kind) for i, column in enumerate(columns)
        ]
        marks = ", ".join("?" * (3 + len(columns)))
        name = self._inlined_table()
        count = len(numbered)
        self.connection.execute_many(
            f"INSERT INTO {quoted(name)} VALUES ({marks})",
            list(zip(numbered, [version] * count, [None] * count, *encoded, strict=True)),
        )
        stats = {c.id: array_stats(rows.column(i), c) for i, c in enumerate(columns)}
        self._add_stats(count, 0, stats)

    def _add_stats(self, rows: int, size: int, stats: Mapping[int, ColumnStats]) -> None:
        added = self.stats or TableStats(self.connection)
        added.add(self.table, rows, size, stats)
        if self.stats is None:
            added.write()

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
            return self._truncate()
        ended = Ended()
        made = {i: f for i, f in staged.written.items() if i >= 0}
        wrong = [i for i, f in made.items() if f.guess not in (None, self.ids.version)]
        staged = staged.loaded(wrong)
        if made:
            self._put({i: f for i, f in made.items() if i not in wrong})
            ended.files = True
        wanted = {i: p for i, p in staged.dead.items() if i >= 0 and len(p)}
        if wanted:
            dead = self.planner.dead(self.connection, self.table, self.base, list(wanted))
            rows = self._live_files(list(wanted))
            whole = [
                i for i, p in wanted.items() if not len(dead.get(i, ())) and len(p) == rows[i][1]
            ]
            self.end_files(whole, self.ids.version)
            rest = {
                i: positions.minus(p, dead[i]) if i in dead else p
                for i, p in wanted.items()
                if i not in whole
            }
            ended.files = ended.files or bool(whole)
            paths = {i: rows[i][0] for i in rest}
            in_files = bool(rest) and self._delete_positions(rest, paths)
            ended.files = ended.files or in_files
            ended.inlined = bool(rest) and not in_files
        if len(staged.dead_inlined):
            self._end_inlined(staged.dead_inlined)
            ended.inlined = True
        return ended

    def _put(self, made: Mapping[int, DeathFile]) -> None:
        """Record delete files that are there already; a file without a living row ends."""
        rows = self._live_files(list(made))
        whole = [i for i, f in made.items() if f.guess is None and f.rows == rows[i][1]]
        self.end_files(whole, self.ids.version)
        for number, found in made.items():
            if number not in whole:
                self.owned.add_of_commit(found.path)
                place = (self.ids.next_file(), self.ids.version)
                deaths.put(self.connection, self.table, number, place, found)

    def _live_files(self, wanted: Sequence[int]) -> dict[int, tuple[str, int]]:
        result = {}
        for start in range(0, len(wanted), 500):
            part = wanted[start : start + 500]
            marks = ", ".join("?" * len(part))
            for number, path, relative, rows in self.connection.execute(
                "SELECT data_file_id, path, path_is_relative, record_count FROM ducklake_data_file "
                f"WHERE data_file_id IN ({marks})",
                part,
            ):
                result[number] = (resolve(path, relative, self.table.location), rows)
        return result

    def _delete_positions(self, wanted: Mapping[int, pa.Array], paths: Mapping[int, str]) -> bool:
        """Inlined if they are few, else one delete file per data file; whether the latter."""
        few = sum(len(p) for p in wanted.values()) <= self.settings.inline_delete_limit
        for number, found in wanted.items():
            new = deaths.at_version(found, self.ids.version)
            if few:
                deaths.inline(self.connection, self.table, number, new)
            else:
                self._write_delete_file(number, paths[number], new)
        return not few

    def add_deaths(self, number: int, path: str, new: Deaths) -> None:
        """Record deaths of a file that has none so far."""
        if len(new) <= self.settings.inline_delete_limit:
            deaths.inline(self.connection, self.table, number, new)
        else:
            self._write_delete_file(number, path, new)

    def _write_delete_file(self, number: int, path: str, new: Deaths) -> None:
        old = deaths.so_far(self.connection, self.planner, self.table, number)
        place = (number, path)
        target = deaths.new_path(self.table)
        self.owned.add_of_commit(target)
        deaths.write_file(
            self.connection, self.table, place, (self.ids.next_file(), target), old.and_also(new)
        )

    def end_files(self, files: Sequence[int], version: int) -> None:
        for kind in ("data_file", "delete_file"):
            self.connection.execute_many(
                f"UPDATE ducklake_{kind} SET end_snapshot = ? "
                "WHERE data_file_id = ? AND end_snapshot IS NULL",
                [(version, i) for i in files],
            )

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

    def _truncate(self) -> Ended:
        """End every file. Earlier inlined deletes of a file move into a delete file first:

        DuckDB's change feed takes all rows of an ended file for deleted, except those in a
        delete file.
        """
        at = self.ids.version - 1
        files = [
            row[0]
            for row in self.connection.execute(
                f"SELECT data_file_id FROM ducklake_data_file WHERE table_id = ? AND {VISIBLE}",
                (self.table.id, at, at),
            )
        ]
        name = deaths.inlined_name(self.table)
        if files and self.connection.has_table(name):
            paths = self._live_files(files)
            dirty = self.connection.execute(f"SELECT DISTINCT file_id FROM {name}")
            for (number,) in dirty:
                if number in paths:
                    self._write_delete_file(number, paths[number][0], deaths.NONE)
        self.end_files(files, self.ids.version)
        self._end_inlined(None)
        return Ended(files=bool(files), inlined=True)


@dataclass
class Ended:
    """What kinds of deletes were made."""

    files: bool = False
    inlined: bool = False


def insert_file(
    connection: Connection,
    table: Table,
    number: int,
    facts: FileFacts,
    place: tuple[int, int | None, int | None],
) -> None:
    """A row of ducklake_data_file and its statistics; place = (begin, first row id, partial_max)."""
    begin, first, partial_max = place
    path, relative = relative_path(facts.path, table)
    connection.execute(
        "INSERT INTO ducklake_data_file VALUES "
        "(?, ?, ?, NULL, NULL, ?, ?, 'parquet', ?, ?, ?, ?, NULL, NULL, NULL, ?)",
        (
            number,
            table.id,
            begin,
            path,
            relative,
            facts.rows,
            facts.bytes,
            facts.footer,
            first,
            partial_max,
        ),
    )
    connection.execute_many(
        "INSERT INTO ducklake_file_column_stats VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
        [_stats_row(number, table.id, column, s) for column, s in facts.stats.items()],
    )


def _stats_row(number: int, table: int, column: int, s: ColumnStats) -> tuple[object, ...]:
    return (number, table, column, s.size, s.values, s.nulls, s.low, s.high, s.nan)
