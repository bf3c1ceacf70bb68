"""Bounds of columns: of one file, and of many as columns of ranks, which are judged at once.

Law: what is said of a file here is what ``pruning.may_meet`` says of its bounds alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.files.values import bound
from spark_trickle.storage.manifest.columns import Numbers, Texts, read_columns
from spark_trickle.storage.records import Bounds, Column, Table

Marks = np.ndarray[Any, np.dtype[np.bool_]]

_INTEGERS = ("tinyint", "smallint", "int", "bigint")


class LazyBounds(Mapping[int, Bounds]):
    """Bounds by column id, read from their text only when asked for."""

    def __init__(self, table: Table, stats: Mapping[int, tuple[Any, ...]]) -> None:
        self._columns = {c.id: c for c in table.columns}
        self.stats = stats

    def __getitem__(self, column: int) -> Bounds:
        values, nulls, low, high, nan = self.stats[column]
        own = self._columns[column]
        return Bounds(
            bound(own, low), bound(own, high), nulls, values, None if nan is None else bool(nan)
        )

    def __iter__(self) -> Iterator[int]:
        return (c for c in self.stats if c in self._columns)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True, eq=False)
class ColumnBounds:
    """What the catalog knows of a column, file by file."""

    known: Marks
    """Whether it knows anything."""
    ends: list[Any]
    """All lows and highs, sorted, each once."""
    low: Numbers
    """Each file's low as its place among the ends; -1: not known."""
    high: Numbers
    nulls: Numbers
    """How many; -1: not known. So for the values, and 0 or 1 for whether there is a NaN."""
    values: Numbers
    nan: Numbers
    floating: bool

    def at(self, place: int) -> Bounds | None:
        """The bounds in one file."""
        if not self.known[place]:
            return None
        low, high = (None if i < 0 else self.ends[i] for i in (self.low[place], self.high[place]))
        nulls, values = (None if n < 0 else int(n) for n in (self.nulls[place], self.values[place]))
        nan = self.nan[place]
        return Bounds(low, high, nulls, values, None if nan < 0 else bool(nan))

    def ends_of(self, places: Numbers) -> tuple[Any, Any]:
        """The lowest low and the highest high in these files, as far as they are known."""
        lows, highs = self.low[places], self.high[places]
        lows, highs = lows[lows >= 0], highs[highs >= 0]
        low = self.ends[lows.min()] if len(lows) else None
        return low, self.ends[highs.max()] if len(highs) else None

    def overlap(self, low: Any, high: Any) -> Marks:
        """Which files may hold a value from ``low`` to ``high``; None is open."""
        met = self.values != 0
        if low is not None:
            below = (self.high >= 0) & (self.high < bisect_left(self.ends, low))
            if self.floating or isinstance(low, float) or isinstance(high, float):
                below &= self.nan == 0  # Spark orders NaN above every number
            met &= ~below
        if high is not None:
            met &= self.low < bisect_right(self.ends, high)
        return np.asarray(met | ~self.known)

    def hold(self, wanted: Sequence[Any], null: bool, nan: bool) -> Marks:
        """Which files may hold one of the wanted values, which are sorted."""
        met = np.zeros(len(self.known), bool)
        if wanted:
            left, right = self._places(wanted)
            first = np.searchsorted(right, self.low, side="right")
            met = first < len(wanted)
            met &= (self.high < 0) | (self.high >= left[np.minimum(first, len(wanted) - 1)])
        if nan:
            met |= self.nan != 0
        met &= self.values != 0
        if null:
            met |= self.nulls != 0
        return np.asarray(met | ~self.known)

    def _places(self, wanted: Sequence[Any]) -> tuple[Numbers, Numbers]:
        """How many ends lie below each value, and how many not above it."""
        left = np.fromiter((bisect_left(self.ends, v) for v in wanted), np.int64, len(wanted))
        right = np.fromiter((bisect_right(self.ends, v) for v in wanted), np.int64, len(wanted))
        return left, right


_NUMBERS = (
    "data_file_id",
    "null_count",
    "value_count",
    "CASE WHEN contains_nan IS NULL THEN -1 WHEN contains_nan THEN 1 ELSE 0 END",
)


def column_bounds(
    connection: Connection, column: Column, ids: Numbers, wanted: tuple[str, Sequence[Any]]
) -> ColumnBounds:
    """Of the files with these ids, in order; ``wanted`` finds their statistics and perhaps others."""
    where, parameters = wanted
    rest = f"ducklake_file_column_stats WHERE {where}"
    texts = ("min_value", "max_value")
    (files, *counts), ends = read_columns(connection, _NUMBERS, texts, rest, parameters)
    places = np.searchsorted(ids, files)
    here = np.flatnonzero(places < len(ids))
    here = here[ids[places[here]] == files[here]]
    places = places[here]

    def spread(found: Numbers) -> Numbers:
        result = np.full(len(ids), -1, np.int64)
        result[places] = found[here]
        return result

    known = np.zeros(len(ids), bool)
    known[places] = True
    values, low, high = _ranked(column, *ends)
    floating = column.type in ("float", "double")
    nulls, count, nan = (spread(found) for found in counts)
    return ColumnBounds(known, values, spread(low), spread(high), nulls, count, nan, floating)


def _ranked(column: Column, lows: Texts, highs: Texts) -> tuple[list[Any], Numbers, Numbers]:
    """All ends that the texts say, sorted, and the place of each low and high among them."""
    texts = (*lows, *highs)
    if column.type in _INTEGERS:
        try:
            return _ranked_integers(pa.array(texts, pa.string()).cast(pa.int64()))
        except pa.ArrowInvalid:
            pass  # one of them is no number: each by itself
    read = {text: bound(column, text) for text in set(texts)}
    ends = sorted({end for end in read.values() if end is not None})
    rank = {end: place for place, end in enumerate(ends)}
    ranks = {text: -1 if end is None else rank[end] for text, end in read.items()}
    found = np.fromiter((ranks[text] for text in texts), np.int64, len(texts))
    return ends, found[: len(lows)], found[len(lows) :]


def _ranked_integers(found: pa.Array) -> tuple[list[Any], Numbers, Numbers]:
    known = found.is_valid().to_numpy(zero_copy_only=False)
    ends, places = np.unique(found.drop_null().to_numpy(), return_inverse=True)
    ranks = np.full(len(found), -1, np.int64)
    ranks[known] = places
    half = len(found) // 2
    return ends.tolist(), ranks[:half], ranks[half:]
