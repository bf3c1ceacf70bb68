"""Rows looked for by their values, in memory and in the files of a scan: of these only what may hold
one is read.

Law: a row group is left out only if its statistics say that no wanted row is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_trickle.storage.files import disk, parquet
from spark_trickle.storage.files.row_groups import RowGroup, possible
from spark_trickle.storage.files.types import arrow_type
from spark_trickle.storage.read.column_cache import COLUMNS, Taken
from spark_trickle.storage.read.pruning import WantedValues, by_column, kept
from spark_trickle.storage.read.ranges import conditions, inside
from spark_trickle.storage.read.reader import at, chosen_columns, living, select
from spark_trickle.storage.records import (
    FILE_VERSION_FIELD,
    Column,
    Condition,
    DataFile,
    Ranges,
    ScanPlan,
    Table,
)
from spark_trickle.storage.versions.planning import conform

T = TypeVar("T")

Restriction = Mapping[str, pa.Array]
"""By column: the values that a row may have there."""


def search(
    plan: ScanPlan,
    columns: Sequence[str],
    restrictions: Sequence[Restriction],
    taken: Taken,
    most: int | None = None,
) -> pa.Table | None:
    """The rows that meet one of the restrictions; where there is none, only the keys are read.

    None as soon as there are more than ``most``.
    """
    chosen = chosen_columns(plan.table, columns)
    names = [name for restriction in restrictions for name in restriction] + [
        name for name, *_ in plan.within
    ]
    tested = chosen_columns(plan.table, [*dict.fromkeys(names)])
    inlined = select(plan.inlined, plan.table, plan.table.columns)
    parts = [inlined.filter(meets(inlined, restrictions)).select([c.name for c in chosen])]
    taken.rows += plan.inlined.num_rows
    count = _Count(most, parts[0].num_rows)
    matcher = Matcher(restrictions)
    ranges = conditions(plan.within)
    wanted = [by_column(plan.table, {**ranges, **restriction}) for restriction in restrictions]

    def look(file: DataFile) -> tuple[list[pa.Table], Taken]:
        own, found = Taken(), []
        for batch in _worth_reading(plan.table, file, wanted).batches(own):
            places = batch.meeting(tested, matcher, plan.within)
            own.rows += batch.length
            if count.passed_by(len(places)):
                break
            if len(places):
                found.append(batch.rows(chosen, places))
        return found, own

    for found, own in _on_all_cores(look, plan.files):
        parts += found
        taken.rows += own.rows
        taken.bytes += own.bytes
    return None if count.passed_by(0) else pa.concat_tables(parts)


def _on_all_cores(look: Callable[[DataFile], T], files: Sequence[DataFile]) -> Iterator[T]:
    """File by file; decoding and comparing leave the interpreter to other threads."""
    if len(files) < 2:
        yield from map(look, files)
        return
    with ThreadPoolExecutor(min(len(files), pa.cpu_count()), "trickle-search") as pool:
        yield from pool.map(look, files)


class _Count:
    """Rows found by all threads, and how many may be."""

    def __init__(self, most: int | None, known: int) -> None:
        self._most = most
        self._known = known
        self._lock = Lock()

    def passed_by(self, more: int) -> bool:
        """Whether there are more than may be, with so many more."""
        with self._lock:
            self._known += more
            return self._most is not None and self._known > self._most


@dataclass(frozen=True)
class Piece:
    """Live rows of one file."""

    file: DataFile
    rows: pa.Table
    positions: pa.Array
    """Where in the file each of them is."""
    bytes: int
    """What reading them took."""
    decoded: int
    """How many rows, live or dead, they were picked from."""


class Search:
    """A scan looked through for rows that meet conditions; footers are read when first needed."""

    def __init__(self, plan: ScanPlan, conditions: Mapping[str, Condition]) -> None:
        self.plan = plan
        self._wanted: WantedValues = {}
        if plan.files:
            self._wanted = by_column(plan.table, conditions)
            self.plan = replace(plan, files=kept(plan.files, [self._wanted]))

    @cached_property
    def _files(self) -> tuple[_WorthReading, ...]:
        return tuple(
            _worth_reading(self.plan.table, file, [self._wanted]) for file in self.plan.files
        )

    def bytes(self, columns: Sequence[Column]) -> int:
        """What reading these columns takes."""
        return sum(found.bytes(columns) for found in self._files)

    def read(self, columns: Sequence[Column]) -> Iterator[Piece]:
        """The rows of the files that may be wanted; those in the catalog are not among them."""
        for found in self._files:
            taken = Taken()
            for batch in found.batches(taken):
                before = taken.bytes
                places = batch.living()
                rows = batch.rows(columns, places)
                positions = pa.array(places + batch.start)
                yield Piece(found.file, rows, positions, taken.bytes - before, batch.length)


@dataclass(frozen=True)
class _WorthReading:
    """A file and what of it may hold a wanted row; the footer is read once."""

    table: Table
    file: DataFile
    footer: Any
    names: dict[int, str]
    groups: tuple[RowGroup, ...]

    def bytes(self, columns: Sequence[Column]) -> int:
        numbers = [group.number for group in self.groups]
        names = [self.names[column.id] for column in columns if column.id in self.names]
        return parquet.column_bytes(self.footer, numbers, names)

    def batches(self, taken: Taken) -> Iterator[Batch]:
        """The row groups, some at a time."""
        if not self.groups:
            return
        texts = parquet.repeated_texts(self.footer)
        with (
            disk.reading(self.file.path, self.table),
            self.table.files.parquet(self.file.path, self.footer, texts) as source,
        ):
            for groups in _runs(self.groups):
                yield Batch(source, self.file, self.names, groups, taken)


def _worth_reading(table: Table, file: DataFile, wanted: Sequence[WantedValues]) -> _WorthReading:
    with disk.reading(file.path, table):
        footer = table.files.footer(file.path)
    names = parquet.names_by_id(footer.schema.to_arrow_schema(), file)
    return _WorthReading(table, file, footer, names, possible(footer, table, file, wanted))


_BATCH = 1_000_000
"""About so many rows are tested at once: fewer calls for many small row groups."""


@dataclass(frozen=True)
class Batch:
    """Some row groups of an open file."""

    source: pq.ParquetFile
    file: DataFile
    names: dict[int, str]
    groups: list[RowGroup]
    taken: Taken

    @property
    def start(self) -> int:
        return self.groups[0].start

    @property
    def length(self) -> int:
        return sum(group.rows for group in self.groups)

    def living(self) -> np.ndarray:
        """The places of live rows."""
        alive = living(self.file, self._read(()), self.start, self.length)
        return np.arange(self.length) if alive is None else np.flatnonzero(alive.to_numpy(False))

    def meeting(self, tested: Sequence[Column], matcher: Matcher, within: Ranges) -> np.ndarray:
        """The places of live rows in the ranges that meet one of the restrictions."""
        plain = self._read(tested)
        rows = _testable(plain, tested, self.length)
        met = matcher.met(rows)
        if within:
            met &= inside(rows, within)
        alive = living(self.file, plain, self.start, self.length)
        if alive is not None:
            met &= alive.to_numpy(False)
        return np.flatnonzero(met)

    def rows(self, chosen: Sequence[Column], places: np.ndarray) -> pa.Table:
        """Of the rows at these places some columns."""
        plain = self._read(chosen)
        if len(places) < self.length:
            plain = at(plain, places)
        return conform(plain, chosen, len(places))

    def _read(self, columns: Sequence[Column]) -> pa.Table:
        """These columns, named by their ids, and what tells whether a row is meant."""
        wanted = [column.id for column in columns]
        if self.file.filtered:
            wanted.append(FILE_VERSION_FIELD)
        ids = {self.names[i]: str(i) for i in wanted if i in self.names}
        numbers = [group.number for group in self.groups]
        rows = COLUMNS.read(self.file.path, self.source, numbers, list(ids), self.taken)
        return rows.rename_columns([ids[name] for name in rows.column_names])


def _testable(plain: pa.Table, columns: Sequence[Column], length: int) -> pa.Table:
    """The columns by name; integers as they are kept: whoever tests them need not widen them."""
    kept = {
        column.name: plain.column(str(column.id))
        for column in columns
        if str(column.id) in plain.column_names
        and pa.types.is_integer(arrow_type(column))
        and pa.types.is_integer(plain.column(str(column.id)).type)
    }
    rows = conform(plain, [column for column in columns if column.name not in kept], length)
    for name, values in kept.items():
        rows = rows.append_column(name, values)
    return rows


def _runs(groups: Sequence[RowGroup]) -> Iterator[list[RowGroup]]:
    """Neighbours together, up to a batch."""
    run: list[RowGroup] = []
    for group in groups:
        follows = bool(run) and group.number == run[-1].number + 1
        if run and (not follows or sum(g.rows for g in run) + group.rows > _BATCH):
            yield run
            run = []
        run.append(group)
    if run:
        yield run


def meets(rows: pa.Table, restrictions: Sequence[Restriction]) -> pa.Array:
    """Which rows meet one of the restrictions."""
    return pa.array(Matcher(restrictions).met(rows))


class Matcher:
    """Restrictions, ready for batch after batch of rows and for several threads."""

    def __init__(self, restrictions: Sequence[Restriction]) -> None:
        # The shortest list is tried first.
        self._choices = [
            [
                (name, ValueSet(values))
                for name, values in sorted(each.items(), key=lambda item: len(item[1]))
            ]
            for each in restrictions
        ]

    def met(self, rows: pa.Table) -> np.ndarray:
        """Which rows meet one of the restrictions."""
        met = np.zeros(rows.num_rows, dtype=bool)
        for choice in self._choices:
            met[_meeting(rows, choice)] = True
        return met


def _meeting(rows: pa.Table, choice: Sequence[tuple[str, ValueSet]]) -> np.ndarray:
    """The places of the rows that meet a restriction."""
    places: np.ndarray | None = None
    for name, values in choice:
        column = rows.column(name)
        if places is None:
            places = np.flatnonzero(values.among(column))
        else:
            places = places[values.among(column.take(pa.array(places)))]
    return np.arange(rows.num_rows) if places is None else places


_SPAN = 64 << 20
"""Up to so many integers lie between the ends of a list that is looked up in a table of flags."""

_MANY = 64 << 10
"""A table of flags pays for more rows than this."""


class ValueSet:
    """Values that are looked for in columns, which may hold integers in fewer bytes than these."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values

    def among(self, column: pa.ChunkedArray) -> np.ndarray:
        """Which values of the column are among these; NULL is if NULL is one of them."""
        dense = pa.types.is_integer(column.type) and not column.null_count
        if dense and len(column) > _MANY and self._flags is not None:
            least, flags = self._flags
            # Chunk by chunk: what a chunk needs stays in the processor's cache. A difference that
            # overflows is outside of the table all the same, and its ends are not set.
            places = (
                np.subtract(chunk.to_numpy(), least, dtype=np.int64, casting="unsafe")
                for chunk in column.chunks
            )
            return np.concatenate([flags.take(each, mode="clip") for each in places])
        values = self._values
        if dense and pa.types.is_integer(values.type) and _narrower(column.type, values.type):
            column = column.cast(values.type)
        found: np.ndarray = pc.is_in(
            column, value_set=values.cast(column.type, safe=False)
        ).to_numpy()
        return found

    @cached_property
    def _flags(self) -> tuple[int, np.ndarray] | None:
        """By integer, from the first on, whether it is one of the values; None: they are no integers,
        or lie too far apart."""
        values = self._values
        if not pa.types.is_integer(values.type) or values.null_count or not len(values):
            return None
        wanted = values.to_numpy().astype(np.int64)
        low, high = int(wanted.min()), int(wanted.max())
        if high - low >= _SPAN or low == np.iinfo(np.int64).min:
            return None
        flags = np.zeros(high - low + 3, dtype=bool)
        flags[wanted - low + 1] = True
        return low - 1, flags


def _narrower(type: pa.DataType, other: pa.DataType) -> bool:
    return bool(type.bit_width < other.bit_width)
