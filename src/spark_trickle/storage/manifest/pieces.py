"""Facts about many files, a column for each; they never change, so plans of later versions share them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from spark_trickle.storage.catalog.database import Connection, in_parts
from spark_trickle.storage.manifest.columns import Numbers, read_columns
from spark_trickle.storage.manifest.names import NamedColumn, Names
from spark_trickle.storage.manifest.statistics import ColumnBounds, Marks, column_bounds
from spark_trickle.storage.records import Column

Reading = Callable[[], AbstractContextManager[Connection]]
"""Opens a read transaction of the catalog."""

FEW = 1_000
"""Of no more files than these each is asked for by its id."""


FILE_COLUMNS = (
    "data_file_id, path, path_is_relative, record_count, file_size_bytes, row_id_start, "
    "begin_snapshot, end_snapshot, partial_max, mapping_id, encryption_key"
)


class FileRow(NamedTuple):
    """A row of ducklake_data_file."""

    id: int
    path: str
    relative: Any
    rows: int
    bytes: int
    row_id_start: int | None
    begin: int
    end: int | None
    partial_max: int | None
    mapping: int | None
    encryption: str | None
    renamed: int | None = None
    """The last version that ended a column of the table, or its name, if that was asked for."""

    @property
    def by_duckdb(self) -> bool:
        return self.path.rsplit("/", 1)[-1].startswith("ducklake-")

    def visible(self, version: int) -> bool:
        return self.begin <= version and (self.end is None or self.end > version)


@dataclass(frozen=True)
class DeleteRow:
    """A row of ducklake_delete_file."""

    id: int
    file: int
    path: str
    begin: int
    end: int | None
    partial_max: int | None
    rows: int


_NUMBERS = (
    "data_file_id",
    "record_count",
    "file_size_bytes",
    "row_id_start",
    "begin_snapshot",
    "partial_max",
    "mapping_id",
    "CASE WHEN path_is_relative THEN 1 ELSE 0 END",
    "CASE WHEN encryption_key IS NULL OR encryption_key = '' THEN 0 ELSE 1 END",
)


@dataclass(frozen=True, eq=False)
class Facts:
    """Rows of ducklake_data_file as columns, ordered by id."""

    numbers: Numbers
    """A line for each of ``_NUMBERS``; -1 stands for NULL."""
    paths: Sequence[str]

    @classmethod
    def read(cls, connection: Connection, where: str, parameters: Sequence[Any]) -> Facts:
        rest = f"ducklake_data_file WHERE {where}"
        numbers, texts = read_columns(connection, _NUMBERS, ["path"], rest, parameters)
        return cls._ordered(np.stack(numbers), texts[0])

    @classmethod
    def joined(cls, parts: Sequence[Facts]) -> Facts:
        paths = [path for part in parts for path in part.paths]
        return cls._ordered(np.concatenate([part.numbers for part in parts], axis=1), paths)

    @classmethod
    def _ordered(cls, numbers: Numbers, paths: Sequence[Any]) -> Facts:
        order = np.argsort(numbers[0], kind="stable")
        if len(order) and (order[1:] < order[:-1]).any():
            numbers, paths = numbers[:, order], [paths[place] for place in order.tolist()]
        return cls(numbers, paths)

    def at(self, places: Numbers) -> Facts:
        return Facts(self.numbers[:, places], [self.paths[place] for place in places.tolist()])

    @property
    def encrypted(self) -> str | None:
        """The path of a file that is."""
        found = np.flatnonzero(self.numbers[8])
        return self.paths[found[0]] if len(found) else None

    def rows(self, places: Numbers) -> Iterator[FileRow]:
        lines: list[list[int]] = self.numbers[:8, places].T.tolist()
        for place, line in zip(places.tolist(), lines, strict=True):
            number, rows, size, start, begin, latest, mapping, relative = line
            own = (number, self.paths[place], relative, rows, size, _known(start), begin)
            yield FileRow(*own, None, _known(latest), _known(mapping), None)


def _known(number: int) -> int | None:
    return None if number < 0 else number


@dataclass(frozen=True, eq=False)
class Piece:
    """Files of one table, by id."""

    table: int
    facts: Facts
    seen: Numbers
    """Rows that the version sees, dead ones included."""
    through: Mapping[int, int]
    """By id, of files with rows of later versions too: the version."""
    lacking: Mapping[int, Marks | None]
    """By column of any version: which files were written without it; None: none of them."""
    names: Names
    reading: Reading
    _bounds: dict[tuple[int, str], ColumnBounds] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def ids(self) -> Numbers:
        return np.asarray(self.facts.numbers[0])

    @property
    def bytes(self) -> Numbers:
        return np.asarray(self.facts.numbers[2])

    def places(self, ids: Iterable[int]) -> Numbers:
        """Where those of the files are that are here."""
        wanted = np.fromiter(ids, np.int64)
        found = np.searchsorted(self.ids, wanted)
        inside = found < len(self.ids)
        found, wanted = found[inside], wanted[inside]
        return np.asarray(found[self.ids[found] == wanted])

    def bounds(self, column: Column) -> ColumnBounds:
        """The catalog's statistics of a column, read when first asked for.

        What compaction has taken away since is not known, and so leaves no file out.
        """
        key = (column.id, column.type)
        with self._lock:
            if key not in self._bounds:
                wanted, files = "table_id = ? AND column_id = ?", [self.table]
                if len(self.ids) <= FEW:
                    marks = ", ".join("?" * len(self.ids))
                    wanted, files = (
                        f"data_file_id IN ({marks}) AND column_id = ?",
                        self.ids.tolist(),
                    )
                with self.reading() as connection:
                    own = (*files, column.id)
                    self._bounds[key] = column_bounds(connection, column, self.ids, (wanted, own))
            return self._bounds[key]

    def lacks(self, column: Column) -> Marks | None:
        """Which files were written without the column; None: none of them."""
        if column.id in self.lacking:
            return self.lacking[column.id]
        with self.reading() as connection:  # a transaction is about to add it
            return described(connection, self.ids)


def merged(*parts: tuple[Piece, Numbers]) -> Piece:
    """The files at these places of some pieces in one."""
    pieces = [piece for piece, _ in parts]
    ids = np.concatenate([piece.ids[places] for piece, places in parts])
    order = np.argsort(ids, kind="stable")

    def joined(columns: Iterable[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        found = zip(columns, parts, strict=True)
        return np.concatenate([column[places] for column, (_, places) in found])[order]

    without: dict[int, Marks | None] = {}
    for column in {column for piece in pieces for column in piece.lacking}:
        marks = [piece.lacking.get(column) for piece in pieces]
        without[column] = None
        if any(mark is not None for mark in marks):
            without[column] = joined(
                np.zeros(len(piece.ids), bool) if mark is None else mark
                for piece, mark in zip(pieces, marks, strict=True)
            )
    return Piece(
        pieces[0].table,
        Facts.joined([piece.facts.at(places) for piece, places in parts]),
        joined(piece.seen for piece in pieces),
        {file: version for piece in pieces for file, version in piece.through.items()},
        without,
        pieces[-1].names,
        pieces[0].reading,
    )


def lacking(
    connection: Connection,
    table: int,
    columns: Iterable[NamedColumn],
    files: tuple[Numbers, Numbers, Marks],
) -> dict[int, Marks | None]:
    """By column of the table, of any version: which files lack it; None: none of them.

    ``files``: their ids, their versions, and which of them have columns by name.

    Law: a file has every column that was there before it, unless another program added it by name.
    Of a file without any statistics nobody knows what it lacks.
    """
    ids, begins, named = files
    found: dict[int, Marks | None] = {}
    for number, (begin, inside) in _with_parts(columns).items():
        found[number] = None
        places = np.flatnonzero(named | (begins <= begin))
        if len(places):
            places = places[~_having(connection, table, ids[places], inside)]
        if len(places):
            places = places[described(connection, ids[places])]
            found[number] = np.isin(np.arange(len(ids)), places)
    return found


def _with_parts(rows: Iterable[NamedColumn]) -> dict[int, tuple[int, list[int]]]:
    """The version that made each column, and the column with all that is inside it."""
    columns: dict[int, tuple[int, list[int]]] = {}
    above: dict[int, int] = {}
    for row in rows:
        if row.id not in above:
            above[row.id] = row.id if row.parent is None else above[row.parent]
            columns.setdefault(above[row.id], (row.begin, []))[1].append(row.id)
    return columns


def _having(connection: Connection, table: int, ids: Numbers, columns: Sequence[int]) -> Marks:
    """Which of the files have statistics of one of these columns."""
    sql = "SELECT data_file_id FROM ducklake_file_column_stats WHERE"
    files: set[int] = set()
    for column in columns:
        if len(ids) > FEW:
            own = f"{sql} table_id = ? AND column_id = ?"
            files |= {row[0] for row in connection.execute(own, (table, column))}
            continue
        for part, marks in in_parts(ids.tolist()):
            own = f"{sql} data_file_id IN ({marks}) AND column_id = ?"
            files |= {row[0] for row in connection.execute(own, (*part, column))}
    return np.isin(ids, np.fromiter(files, np.int64, len(files)))


def described(connection: Connection, ids: Numbers) -> Marks:
    """Which of the files have statistics of any column."""
    files: set[int] = set()
    for part, marks in in_parts(ids.tolist()):
        sql = f"SELECT DISTINCT data_file_id FROM ducklake_file_column_stats WHERE data_file_id IN ({marks})"
        files |= {row[0] for row in connection.execute(sql, part)}
    return np.isin(ids, np.fromiter(files, np.int64, len(files)))
