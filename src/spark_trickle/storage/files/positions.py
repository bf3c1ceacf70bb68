"""Sets of row positions: sorted int64 Arrow arrays without duplicates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

EMPTY: pa.Array = pa.array([], pa.int64())


def of(values: Iterable[int] | pa.Array | pa.ChunkedArray) -> pa.Array:
    """The set of the given positions."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not isinstance(values, pa.Array):
        return pa.array(sorted(set(values)), pa.int64())
    ordered = np.sort(_numbers(values.cast(pa.int64())), kind="stable")  # quick on sorted runs
    return pa.array(ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]])


def union(*sets: pa.Array) -> pa.Array:
    filled = [s for s in sets if len(s)]
    if len(filled) <= 1:
        return filled[0] if filled else EMPTY
    return of(pa.concat_arrays(filled))


def minus(left: pa.Array, right: pa.Array) -> pa.Array:
    if not len(left) or not len(right):
        return left
    return pa.array(_numbers(left)[~_within(left, right)])


def common(left: pa.Array, right: pa.Array) -> pa.Array:
    if not len(left) or not len(right):
        return EMPTY
    return pa.array(_numbers(left)[_within(left, right)])


def _within(left: pa.Array, right: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.isin(_numbers(left), _numbers(right), assume_unique=True)


def _numbers(array: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    numbers: np.ndarray[Any, np.dtype[np.int64]] = array.to_numpy(zero_copy_only=False)
    return numbers


def mask(length: int, dead: pa.Array, start: int = 0) -> pa.Array | None:
    """For rows start..start+length: true where the row is not in ``dead``; None: none is."""
    ordered = _numbers(dead)
    near = ordered[np.searchsorted(ordered, start) : np.searchsorted(ordered, start + length)]
    if not len(near):
        return None
    alive = np.ones(length, dtype=bool)
    alive[near - start] = False
    return pa.array(alive)
