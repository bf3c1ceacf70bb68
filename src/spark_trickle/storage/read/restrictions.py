"""Which rows have one of the wanted values, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Restriction = Mapping[str, pa.Array]
"""By column: the values that a row may have there."""


def meets(rows: pa.Table, restrictions: Sequence[Restriction]) -> pa.Array:
    """Which rows meet one of the restrictions."""
    met = np.zeros(rows.num_rows, dtype=bool)
    for restriction in restrictions:
        met[_meeting(rows, restriction)] = True
    return pa.array(met)


def _meeting(rows: pa.Table, restriction: Restriction) -> np.ndarray:
    """The places of the rows that meet a restriction; the shortest list is tried first."""
    places: np.ndarray | None = None
    for name, values in sorted(restriction.items(), key=lambda item: len(item[1])):
        column = rows.column(name)
        if places is None:
            places = np.flatnonzero(_among(column, values))
        else:
            places = places[_among(column.take(pa.array(places)), values)]
    return np.arange(rows.num_rows) if places is None else places


_SPAN = 64 << 20
"""Up to so many integers lie between the ends of a list that is looked up in a table of flags."""


def _among(column: pa.ChunkedArray, values: pa.Array) -> np.ndarray:
    values = values.cast(column.type, safe=False)
    dense = pa.types.is_integer(column.type) and not column.null_count and not values.null_count
    if dense and len(values) and len(column) > _SPAN >> 10:
        wanted = values.to_numpy().astype(np.int64)
        low, span = int(wanted.min()), int(wanted.max()) - int(wanted.min()) + 1
        if span <= _SPAN:
            flags = np.zeros(span + 2, dtype=bool)
            flags[wanted - low + 1] = True
            # Chunk by chunk: what a chunk needs stays in the processor's cache.
            parts = [
                flags[np.clip(chunk.to_numpy(), low - 1, low + span) - (low - 1)]
                for chunk in column.chunks
            ]
            return np.concatenate(parts)
    found: np.ndarray = pc.is_in(column, value_set=values).to_numpy()
    return found
