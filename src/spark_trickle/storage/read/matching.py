"""Rows tested for values that are looked for; what the test needs is made once for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Restriction = Mapping[str, pa.Array]
"""By column: the values that a row may have there."""


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
