"""The files that a version of a table has, as columns; a ``DataFile`` is made of those that are read.

Law: the list shows the same files, in the same state, as if each had been made one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, overload

import numpy as np
import pyarrow as pa

from spark_trickle.storage.catalog.structure import resolve
from spark_trickle.storage.file_records import spread
from spark_trickle.storage.files import positions
from spark_trickle.storage.manifest.columns import Numbers
from spark_trickle.storage.manifest.names import in_doubt
from spark_trickle.storage.manifest.pieces import FileRow, Piece, merged
from spark_trickle.storage.manifest.statistics import ColumnBounds, Marks
from spark_trickle.storage.read.pruning import SortedValues, WantedValues, keeps
from spark_trickle.storage.records import Bounds, Column, DataFile, Files, ScanPlan, Table

_NONE: frozenset[int] = frozenset()

Part = tuple[Piece, Numbers]
"""Of a piece the places of the files that are in the list."""


class FileFacts(Protocol):
    """What is known of single files beside the catalog's columns."""

    def has_row_ids(self, row: FileRow, path: str, table: Table) -> bool:
        """Whether the rows of a file carry their ids."""

    def names(self, mapping: int | None) -> frozenset[tuple[int, str]] | None:
        """The columns of a file without field ids."""


@dataclass(frozen=True, eq=False)
class Dead:
    """Dead positions of a file: how many, and which as soon as somebody asks."""

    count: int
    read: Callable[[], pa.Array]

    @classmethod
    def of(cls, found: pa.Array) -> Dead:
        return cls(len(found), lambda: found)

    @cached_property
    def positions(self) -> pa.Array:
        return self.read()


@dataclass(frozen=True, eq=False)
class FileList(Files):
    """Immutable, and cheap to change: the columns of facts are shared."""

    facts: FileFacts
    table: Table
    parts: tuple[Part, ...] = ()
    dead: Mapping[int, Dead] = field(default_factory=dict)
    """Dead positions by file; of files that are not here too."""
    others: tuple[DataFile, ...] = ()
    """Files of a transaction, which the catalog does not know."""

    # As a sequence

    def __len__(self) -> int:
        return sum(len(places) for _, places in self.parts) + len(self.others)

    def __iter__(self) -> Iterator[DataFile]:
        return iter(self._all)

    @cached_property
    def _all(self) -> tuple[DataFile, ...]:
        """Kept: who reads a table whole looks through its files more than once."""
        made = (file for piece, places in self.parts for file in self._files(piece, places))
        return (*made, *self.others)

    @overload
    def __getitem__(self, index: int) -> DataFile: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[DataFile]: ...

    def __getitem__(self, index: int | slice) -> DataFile | Sequence[DataFile]:
        return self._all[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    # Of all files

    @cached_property
    def live(self) -> int:
        seen = sum(int(piece.seen[places].sum()) for piece, places in self.parts)
        return seen - self._deaths() + sum(file.live for file in self.others)

    @cached_property
    def bytes(self) -> int:
        known = sum(int(piece.bytes[places].sum()) for piece, places in self.parts)
        return known + sum(file.bytes for file in self.others)

    def _deaths(self) -> int:
        if len(self) < len(self.dead):
            ids = (i for piece, places in self.parts for i in piece.ids[places].tolist())
            return sum(self.dead[i].count for i in ids if i in self.dead)
        return sum(self.dead[i].count for i in self._among(self.dead))

    def _among(self, ids: Iterable[int]) -> list[int]:
        wanted = list(ids)
        return [
            i
            for piece, places in self.parts
            for i in piece.ids[np.intersect1d(piece.places(wanted), places)].tolist()
        ]

    def find(self, ids: Iterable[int]) -> dict[int, DataFile]:
        wanted = set(ids)
        found = {file.id: file for file in self.others if file.id in wanted}
        for piece, places in self.parts:
            here = np.intersect1d(piece.places(wanted), places)
            found |= {file.id: file for file in self._files(piece, here)}
        return found

    def spread(self, count: int) -> list[tuple[DataFile, float]]:
        sizes = [piece.seen[places] for piece, places in self.parts]
        sizes.append(np.array([file.rows for file in self.others], np.int64))
        starts = np.cumsum([0, *map(len, sizes)])
        found = []
        for number, share in spread(np.concatenate(sizes), count):
            part = int(np.searchsorted(starts, number, side="right")) - 1
            place = number - int(starts[part])
            if part == len(self.parts):
                found.append((self.others[place], share))
            else:
                piece, places = self.parts[part]
                found += [(file, share) for file in self._files(piece, places[place : place + 1])]
        return found

    def ends(self, column: Column) -> tuple[Any, Any]:
        known = [piece.bounds(column).ends_of(places) for piece, places in self.parts]
        bounds = [b for file in self.others if (b := file.bounds.get(column.id)) is not None]
        lows = [low for low, _ in known] + [b.low for b in bounds]
        highs = [high for _, high in known] + [b.high for b in bounds]
        return (
            min((low for low in lows if low is not None), default=None),
            max((high for high in highs if high is not None), default=None),
        )

    # Other lists

    def kept(self, sets: Sequence[WantedValues]) -> FileList:
        parts = []
        for piece, places in self.parts:
            met = np.zeros(len(piece.ids), bool)
            for wanted in sets:
                met |= self._met(piece, wanted)
            parts.append((piece, places[met[places]]))
        return replace(
            self,
            parts=tuple(part for part in parts if len(part[1])),
            others=tuple(f for f in self.others if any(keeps(f, wanted) for wanted in sets)),
        )

    def _met(self, piece: Piece, wanted: WantedValues) -> Marks:
        """Which files may hold a row that meets all conditions."""
        met = np.ones(len(piece.ids), bool)
        for number, condition in wanted.items():
            column = self._columns[number]
            judged = _judged(piece.bounds(column), condition)
            lacking = piece.lacks(column)
            met &= judged if lacking is None else judged | lacking
        return met

    @cached_property
    def _columns(self) -> dict[int, Column]:
        return {column.id: column for column in self.table.columns}

    def of(self, table: Table) -> FileList:
        """The same files, read with other columns."""
        return self if table is self.table else replace(self, table=table)

    def dead_in(self, file: int) -> pa.Array:
        return self.dead[file].positions if file in self.dead else positions.EMPTY

    def without(self, ids: Iterable[int]) -> FileList:
        gone = set(ids)
        parts = []
        for piece, places in self.parts:
            found = piece.places(gone)
            parts.append((piece, places[~np.isin(places, found)] if len(found) else places))
        return replace(
            self,
            parts=tuple(part for part in parts if len(part[1])),
            dead={i: dead for i, dead in self.dead.items() if i not in gone},
            others=tuple(file for file in self.others if file.id not in gone),
        )

    def with_piece(self, piece: Piece, dead: Mapping[int, Dead]) -> FileList:
        """The files of a piece added, of which these positions are dead."""
        counts = np.zeros(len(piece.ids), np.int64)
        if dead:
            known = (dead[i].count if i in dead else 0 for i in piece.ids.tolist())
            counts = np.fromiter(known, np.int64, len(piece.ids))
        places = np.flatnonzero(piece.seen > counts)
        parts = [*self.parts, *([(piece, places)] if len(places) else [])]
        # As many pieces as there are digits in their sizes: each file is carried over a few times.
        while len(parts) > 1 and len(parts[-2][1]) < 2 * len(parts[-1][1]):
            one = merged(*parts[-2:])
            parts[-2:] = [(one, np.arange(len(one.ids)))]
        return replace(self, parts=tuple(parts), dead={**self.dead, **dead})

    def with_work(self, dead: Mapping[int, pa.Array], files: Sequence[DataFile]) -> FileList:
        """After more deletes, and with files that nobody else sees."""
        found = self.find(dead)
        more = {i: positions.union(file.deleted, dead[i]) for i, file in found.items()}
        left = {
            i: Dead.of(p) for i, p in more.items() if len(p) < found[i].live + len(found[i].deleted)
        }
        rest = self.without(i for i in more if i not in left)
        return replace(rest, dead={**rest.dead, **left}, others=(*rest.others, *files))

    def _files(self, piece: Piece, places: Numbers) -> Iterator[DataFile]:
        marked = ((column.id, piece.lacks(column)) for column in self.table.columns)
        lacking = [(column, marks) for column, marks in marked if marks is not None]
        moved = piece.names.moved(self.table.columns)
        seen: list[int] = piece.seen[places].tolist()
        numbers = zip(places.tolist(), seen, piece.facts.rows(places), strict=True)
        for place, count, row in numbers:
            path = resolve(row.path, row.relative, self.table.location)
            dead = self.dead_in(row.id)
            yield DataFile(
                row.id,
                path,
                row.rows,
                row.bytes,
                row.row_id_start,
                row.begin,
                live=count - len(dead),
                deleted=dead,
                has_row_ids=self.facts.has_row_ids(row, path, self.table),
                inserted_through=piece.through.get(row.id),
                missing=frozenset(c for c, marks in lacking if marks[place]) if lacking else _NONE,
                bounds=PlaceBounds(self._columns, piece, place),
                names=self.facts.names(row.mapping),
                doubtful=in_doubt(moved, row.begin, row.by_duckdb) if moved else _NONE,
            )


def found_in(plan: ScanPlan | None, ids: Iterable[int]) -> dict[int, DataFile]:
    """Those of the files that a plan of the catalog has."""
    if plan is None:
        return {}
    assert isinstance(plan.files, FileList), "the catalog's own list"
    return plan.files.find(ids)


class PlaceBounds(Mapping[int, Bounds]):
    """The bounds of one file by column id, looked up in those of all."""

    def __init__(self, columns: Mapping[int, Column], piece: Piece, place: int) -> None:
        self._columns, self._piece, self._place = columns, piece, place

    def __getitem__(self, column: int) -> Bounds:
        found = self._piece.bounds(self._columns[column]).at(self._place)
        if found is None:
            raise KeyError(column)
        return found

    def __iter__(self) -> Iterator[int]:
        found = ((i, self._piece.bounds(column)) for i, column in self._columns.items())
        return (i for i, bounds in found if bounds.known[self._place])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _judged(bounds: ColumnBounds, condition: tuple[Any, Any] | SortedValues) -> Marks:
    if isinstance(condition, SortedValues):
        return bounds.hold(condition.ordered, condition.null, condition.nan)
    return bounds.overlap(*condition)
