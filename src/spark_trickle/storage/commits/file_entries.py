"""The entries of a table's data files and delete files in the catalog, written under the lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.catalog.ids import CatalogIds
from spark_trickle.storage.catalog.structure import VISIBLE, resolve
from spark_trickle.storage.files.parquet import FileFacts
from spark_trickle.storage.files.values import ColumnStats
from spark_trickle.storage.records import Table
from spark_trickle.storage.versions import deaths
from spark_trickle.storage.versions.deaths import DeathFile, Deaths, relative_path
from spark_trickle.storage.versions.planning import Planner
from spark_trickle.storage.versions.staging import Owned


@dataclass(frozen=True)
class FileEntries:
    """Those of one table in one commit."""

    connection: Connection
    table: Table
    ids: CatalogIds
    planner: Planner
    settings: Settings
    owned: Owned

    def put(self, made: Mapping[int, DeathFile]) -> None:
        """Record delete files that are there already; a file without a living row ends."""
        rows = self.live(list(made))
        whole = [i for i, f in made.items() if f.guess is None and f.rows == rows[i][1]]
        self.end_files(whole, self.ids.version)
        for number, found in made.items():
            if number not in whole:
                self.owned.add_of_commit(found.path)
                place = (self.ids.next_file(), self.ids.version)
                deaths.put(self.connection, self.table, number, place, found)

    def live(self, wanted: Sequence[int]) -> dict[int, tuple[str, int]]:
        """The path and the rows of each."""
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

    def delete_positions(self, wanted: Mapping[int, pa.Array], paths: Mapping[int, str]) -> bool:
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

    def end_all(self) -> bool:
        """End every file; whether there is one.

        Earlier inlined deletes of a file move into a delete file first: DuckDB's change feed takes
        all rows of an ended file for deleted, except those in a delete file.
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
            paths = self.live(files)
            dirty = self.connection.execute(f"SELECT DISTINCT file_id FROM {name}")
            for (number,) in dirty:
                if number in paths:
                    self._write_delete_file(number, paths[number][0], deaths.NONE)
        self.end_files(files, self.ids.version)
        return bool(files)


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
