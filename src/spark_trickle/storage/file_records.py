"""Records of data files: one, and very many."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from spark_trickle.storage.records import Column


@dataclass(frozen=True)
class Bounds:
    """What is known of one column's values in one file. Bounds are inclusive, not always tight."""

    low: Any = None
    """A lower bound of the values that are neither NULL nor NaN, or None: not known. Dates and
    timestamps are numbers: days and microseconds since 1970."""
    high: Any = None
    nulls: int | None = None
    """How many NULLs, or None: not known."""
    values: int | None = None
    """How many values that are not NULL, or None: not known."""
    nan: bool | None = None
    """Whether there is a NaN, or None: not known."""


def _no_positions() -> pa.Array:
    return pa.array([], pa.int64())


@dataclass(frozen=True)
class DataFile:
    """A Parquet file as one version sees it."""

    id: int
    """Negative while the file is staged in a transaction."""
    path: str
    """Absolute path or URI, in the spelling of ``FileSystem``."""
    rows: int
    """Rows in the file, dead ones included."""
    bytes: int
    row_id_start: int | None
    begin: int
    live: int = 0
    """Rows that the planned version sees."""
    deleted: pa.Array = field(default_factory=_no_positions, compare=False)
    """Positions (int64, sorted, from 0) that are dead at the planned version."""
    has_row_ids: bool = False
    """Row ids are in the column ``FILE_ROW_ID``; otherwise row id = row_id_start + position."""
    inserted_after: int | None = None
    """If set, only rows with ``FILE_VERSION`` > this are meant."""
    inserted_through: int | None = None
    """If set, only rows with ``FILE_VERSION`` <= this are meant."""
    missing: frozenset[int] = frozenset()
    """Ids of the table's columns that the file lacks: they read as ``initial_default``."""
    bounds: Mapping[int, Bounds] = field(default_factory=dict, compare=False)
    """By column id; a column that is not there has unknown bounds."""
    names: frozenset[tuple[int, str]] | None = None
    """Of a file without field ids: column ids with the names that the columns have in it."""
    doubtful: frozenset[int] = frozenset()
    """Ids of the table's columns whose names may be those of others in the file, and of nested ones that
    may have other names in it."""

    @property
    def by_name(self) -> bool:
        return self.names is not None

    @property
    def filtered(self) -> bool:
        """Whether rows must be chosen by ``FILE_VERSION``."""
        return self.inserted_after is not None or self.inserted_through is not None


def spread(sizes: Sequence[int] | np.ndarray, count: int) -> list[tuple[int, float]]:
    """Points at even distances over things of these sizes: in which of them each is, and how far in it.

    A thing that is twice as large is met twice as often.
    """
    ends = np.cumsum(sizes)
    if not len(ends) or not ends[-1]:
        return []
    points = (np.arange(count) + 0.5) * ends[-1] / count
    places = np.searchsorted(ends, points, side="right")
    starts = ends[places] - np.asarray(sizes)[places]
    shares = (points - starts) / np.asarray(sizes)[places]
    return list(zip(places.tolist(), shares.tolist(), strict=True))


class Files(Sequence[DataFile]):
    """Very many files: what is asked of all of them is answered without a look at each."""

    @property
    @abstractmethod
    def live(self) -> int:
        """Rows that the planned version sees in them."""

    @property
    @abstractmethod
    def bytes(self) -> int: ...

    @abstractmethod
    def kept(self, sets: Sequence[Mapping[int, Any]]) -> Files:
        """Those that may hold a row that meets all conditions, by column id, of one of the sets."""

    @abstractmethod
    def find(self, ids: Iterable[int]) -> dict[int, DataFile]:
        """Those with these ids."""

    @abstractmethod
    def spread(self, count: int) -> list[tuple[DataFile, float]]:
        """Those at so many points, at even distances over all rows, and how far in it each point is."""

    @abstractmethod
    def ends(self, column: Column) -> tuple[Any, Any]:
        """The lowest low and the highest high of a column, as far as they are known."""
