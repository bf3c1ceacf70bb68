"""Columns of exact values as arrays: many rows at once.

Numbers, days and microseconds are integers of 64 bits where their bound allows it, else Python's;
texts are numbers of a list, in which equal texts have equal numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.errors import invalid_text
from spark_trickle.ir.exact import ExactKind, ExactType
from spark_trickle.local.values import arrow_type, number, to_arrow

LARGEST = 1 << 62
"""A magnitude below this leaves room for a sign or one more sum in 64 bits."""
_TEXTS = (ExactKind.STRING, ExactKind.BINARY)
_DTYPES = {ExactKind.BOOLEAN: np.dtype(bool), ExactKind.DOUBLE: np.dtype(np.float64)}


@dataclass(frozen=True)
class Vector:
    """A column; what is not known is 0, 0.0 or False."""

    values: np.ndarray
    known: np.ndarray
    """False where it is NULL."""
    most: int = 1
    """No magnitude of a number is larger."""

    def take(self, places: np.ndarray) -> Vector:
        return Vector(self.values[places], self.known[places], self.most)

    @property
    def true(self) -> np.ndarray:
        """Where a condition holds."""
        found: np.ndarray = self.known & self.values.astype(bool)
        return found


class Texts:
    """Texts by number, for all columns of one run."""

    def __init__(self) -> None:
        self.words: list[str | bytes] = []
        self._numbers: dict[str | bytes, int] = {}
        self._ranks = np.zeros(0, np.int64)

    def numbers(self, words: Iterable[str | bytes]) -> list[int]:
        """The number of each, a new one if it is new."""
        found = []
        for word in words:
            number = self._numbers.get(word)
            if number is None:
                number = self._numbers[word] = len(self.words)
                self.words.append(word)
            found.append(number)
        return found

    @property
    def ranks(self) -> np.ndarray:
        """By number: the place of each text among all, as Spark orders them."""
        if len(self._ranks) < len(self.words):
            texts = [w.encode() if isinstance(w, str) else w for w in self.words]
            order = sorted(range(len(texts)), key=texts.__getitem__)
            self._ranks = np.empty(len(order), np.int64)
            self._ranks[order] = np.arange(len(order))
        return self._ranks


def dtype(type: ExactType) -> np.dtype[Any]:
    return _DTYPES.get(type.kind, np.dtype(np.int64))


def bounded(values: np.ndarray, known: np.ndarray) -> Vector:
    """Whole numbers, with their bound."""
    most = max(int(values.max(initial=0)), -int(values.min(initial=0))) if len(values) else 0
    if values.dtype != object and most >= LARGEST:
        values = values.astype(object)
    return Vector(values, known, most)


def from_values(values: Sequence[Any], type: ExactType, texts: Texts) -> Vector:
    """Python's values as a column."""
    known = np.array([value is not None for value in values], bool)
    if type.kind in _TEXTS:
        found = iter(texts.numbers(value for value in values if value is not None))
        return Vector(np.array([0 if v is None else next(found) for v in values], np.int64), known)
    filled = [0 if value is None else value for value in values]
    if type.kind in _DTYPES:
        return Vector(np.array(filled, dtype(type)), known)
    if any(abs(value) >= LARGEST for value in filled):
        return bounded(np.array([*filled, None], object)[:-1], known)
    return bounded(np.array(filled, np.int64), known)


def to_values(vector: Vector, type: ExactType, texts: Texts) -> list[Any]:
    """A column as Python's values."""
    found = vector.values.tolist()
    if type.kind in _TEXTS:
        words = texts.words
        return [words[n] if k else None for n, k in zip(found, vector.known, strict=True)]
    if vector.known.all():
        return list(found)
    return [v if k else None for v, k in zip(found, vector.known, strict=True)]


# Arrow


def from_arrow(column: pa.ChunkedArray, type: ExactType, texts: Texts) -> Vector:
    """A column of Arrow."""
    array = _whole(column, column.type if type.kind is ExactKind.OPAQUE else arrow_type(type))
    known = np.asarray(array.is_valid())
    match type.kind:
        case ExactKind.OPAQUE:
            return Vector(known, known)
        case ExactKind.STRING | ExactKind.BINARY:
            return _texts(array, known, texts)
        case ExactKind.DECIMAL:
            return _decimals(array, known)
        case ExactKind.BOOLEAN:
            return Vector(np.asarray(array.fill_null(False)), known)
        case ExactKind.DOUBLE:
            return Vector(_doubles(array), known)
        case ExactKind.DATE:
            values = np.asarray(array.cast(pa.int32()).fill_null(0)).astype(np.int64)
        case _:
            values = np.asarray(array.cast(pa.int64()).fill_null(0))
    return bounded(values, known)


def _whole(column: pa.ChunkedArray, target: pa.DataType) -> pa.Array:
    column = column if column.type == target else column.cast(target)
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], target)


def _texts(array: pa.Array, known: np.ndarray, texts: Texts) -> Vector:
    encoded = array.dictionary_encode()
    try:
        numbers = np.array(texts.numbers(encoded.dictionary.to_pylist()), np.int64)
    except UnicodeDecodeError:
        raise invalid_text() from None
    places = np.asarray(encoded.indices.fill_null(0))
    return Vector(numbers[places] if len(numbers) else np.zeros(len(known), np.int64), known)


def _doubles(array: pa.Array) -> np.ndarray:
    values = np.asarray(array.fill_null(0.0))
    for value in values[np.isnan(values)]:
        number(value)
    return values


def _decimals(array: pa.Array, known: np.ndarray) -> Vector:
    if not len(array):
        return Vector(np.zeros(0, np.int64), known, 0)
    words = np.frombuffer(array.buffers()[1], np.int64)
    words = words[2 * array.offset : 2 * (array.offset + len(array))]
    low, high = np.where(known, words[::2], 0), np.where(known, words[1::2], 0)
    if (high == low >> 63).all():
        return bounded(low, known)
    return bounded((high.astype(object) << 64) | (low.astype(object) & ((1 << 64) - 1)), known)


def arrow_array(vector: Vector, type: ExactType, texts: Texts) -> pa.Array:
    """A column for Arrow."""
    if vector.values.dtype == object:
        return to_arrow(to_values(vector, type, texts), type)
    nulls = None if vector.known.all() else ~vector.known
    target = arrow_type(type)
    match type.kind:
        case ExactKind.STRING | ExactKind.BINARY:
            return _words(vector, nulls, target, texts)
        case ExactKind.DECIMAL:
            words = np.empty((len(vector.values), 2), np.int64)
            words[:, 0], words[:, 1] = vector.values, vector.values >> 63
            valid = None if nulls is None else pa.array(vector.known).buffers()[1]
            return pa.Array.from_buffers(target, len(words), [valid, pa.py_buffer(words)])
        case ExactKind.DATE:
            return pa.array(vector.values.astype(np.int32), pa.int32(), mask=nulls).cast(target)
        case ExactKind.TIMESTAMP | ExactKind.TIMESTAMP_NTZ:
            return pa.array(vector.values, pa.int64(), mask=nulls).cast(target)
        case _:
            return pa.array(vector.values, mask=nulls).cast(target)


def _words(vector: Vector, nulls: np.ndarray | None, target: pa.DataType, texts: Texts) -> pa.Array:
    used, places = np.unique(vector.values[vector.known], return_inverse=True)
    words = pa.array([texts.words[number] for number in used.tolist()], target)
    indices = np.zeros(len(vector.values), np.int64)
    indices[vector.known] = places
    return (
        pc.take(words, pa.array(indices, mask=nulls))
        if len(used)
        else pa.nulls(len(indices), target)
    )


# Rows


def stacked(vectors: Sequence[Vector]) -> Vector:
    """Columns of one type, one below the other."""
    if len(vectors) == 1:
        return vectors[0]
    return Vector(
        np.concatenate([vector.values for vector in vectors]),
        np.concatenate([vector.known for vector in vectors]),
        max(vector.most for vector in vectors),
    )


def numbered(columns: Iterable[Vector], rows: int) -> np.ndarray:
    """A number for each row, from 0 on without gaps: the same just for equal rows; NULL equals NULL."""
    codes, width = np.zeros(rows, np.int64), 1
    for column in columns:
        own, span = _codes(column)
        if width * span >= LARGEST:
            (own, span), (codes, width) = _dense(own), _dense(codes)
        codes, width = codes * span + own, width * span
    return _dense(codes)[0] if width > 1 else codes


def _codes(column: Vector) -> tuple[np.ndarray, int]:
    """Numbers from 0 to a bound for the values; 0 for NULL."""
    values = column.values
    if values.dtype.kind in "fO":
        values = _dense(values)[0]
    elif values.dtype.kind == "b":
        values = values.astype(np.int64)
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if high - low >= LARGEST:
        values, high = _dense(values)
        low = 0
    return np.where(column.known, values - (low - 1), 0), high - low + 2


def _dense(values: np.ndarray) -> tuple[np.ndarray, int]:
    if values.dtype == object:
        found, codes = np.unique(values, return_inverse=True)
        return codes.astype(np.int64), len(found) + 1
    encoded = pa.array(values).dictionary_encode()
    return np.asarray(encoded.indices).astype(np.int64), len(encoded.dictionary) + 1


def ranks(column: Vector, type: ExactType, texts: Texts) -> np.ndarray:
    """Numbers in the order of the values."""
    if type.kind in _TEXTS:
        return texts.ranks[column.values] if len(texts.words) else column.values
    if column.values.dtype == object:
        return np.unique(column.values, return_inverse=True)[1].astype(np.int64)
    return column.values.astype(np.int64) if column.values.dtype == bool else column.values
