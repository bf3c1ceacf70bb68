"""Decoded columns of data files, kept in memory for whoever looks through them next.

Law: a data file never changes once it is written, so what was decoded of it stays right. Integers and
decimals are kept in as few bytes as their values need, and texts that repeat as numbers in a
dictionary: whoever takes some of the rows widens these.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_trickle.storage.files import parquet

_Place = tuple[str, int, str]
"""A file, the number of a row group and the name of a column."""


@dataclass
class Taken:
    """What reading took: rows decoded, now or earlier and kept, and those of the catalog; and bytes
    that came from files and not from memory."""

    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class _Read:
    """Columns that were decoded together; slices of them share their memory."""

    places: tuple[_Place, ...]
    bytes: int


class ColumnCache:
    """Columns by file and row group; the reads used longest ago go first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: dict[_Place, tuple[int, list[pa.Array]]] = {}
        self._reads: OrderedDict[int, _Read] = OrderedDict()
        self._number = 0
        self._lock = Lock()
        self.bytes = 0

    def resize(self, limit: int) -> None:
        """Hold no more than this many bytes from now on."""
        with self._lock:
            self._limit = limit
            self._shrink()

    def read(
        self,
        path: str,
        source: pq.ParquetFile,
        groups: Sequence[int],
        names: Sequence[str],
        taken: Taken | None = None,
    ) -> pa.Table:
        """The columns of these row groups, one after the other, in the types they are kept in."""
        if not names:
            return source.read_row_groups(groups, [])
        found = self._held(path, groups, names)
        lacking = {place[1:] for place, chunks in found.items() if chunks is None}
        if lacking:
            wanted, fields = map(set, zip(*lacking, strict=True))
            numbers = [group for group in groups if group in wanted]
            columns = [name for name in names if name in fields]
            found.update(self._decode(path, source, numbers, columns))
            if taken is not None:
                taken.bytes += parquet.column_bytes(source.metadata, numbers, columns)
        schema = source.schema_arrow
        arrays = [
            _together(
                [chunk for group in groups for chunk in found[path, group, name] or ()],
                schema.field(name).type,
            )
            for name in names
        ]
        return pa.Table.from_arrays(arrays, names=list(names))

    def _held(
        self, path: str, groups: Iterable[int], names: Sequence[str]
    ) -> dict[_Place, list[pa.Array] | None]:
        found: dict[_Place, list[pa.Array] | None] = {}
        with self._lock:
            for place in ((path, group, name) for group in groups for name in names):
                number, chunks = self._chunks.get(place, (None, None))
                found[place] = chunks
                if number is not None:
                    self._reads.move_to_end(number)
        return found

    def _decode(
        self, path: str, source: pq.ParquetFile, groups: Sequence[int], names: Sequence[str]
    ) -> dict[_Place, list[pa.Array]]:
        rows = source.read_row_groups(groups, names)
        rows = pa.table({name: _narrowed(rows.column(name)) for name in names})
        found = {}
        start = 0
        for group in groups:
            length = source.metadata.row_group(group).num_rows
            for name in names:
                found[path, group, name] = rows.column(name).slice(start, length).chunks
            start += length
        self._keep(found, rows.nbytes)
        return found

    def _keep(self, found: dict[_Place, list[pa.Array]], bytes: int) -> None:
        with self._lock:
            if bytes > self._limit:
                return  # or all else would go for it, and it too
            self._number += 1
            for place, chunks in found.items():
                self._chunks[place] = self._number, chunks
            self._reads[self._number] = _Read(tuple(found), bytes)
            self.bytes += bytes
            self._shrink()

    def _shrink(self) -> None:
        while self.bytes > self._limit:
            number, read = self._reads.popitem(last=False)
            self.bytes -= read.bytes
            for place in read.places:
                if self._chunks.get(place, (None,))[0] == number:
                    del self._chunks[place]


_WORD, _HALF = 18, 9
"""A decimal of no more digits has a value of 64 bits, or of 32, whatever its scale."""


def _narrowed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in the narrowest type that all its values have."""
    if column.type == pa.int64():
        low, high = pc.min_max(column).as_py().values()
        fits = low is None or (low >= -(1 << 31) and high < 1 << 31)
        return column.cast(pa.int32()) if fits else column
    if pa.types.is_decimal128(column.type) and column.type.precision <= _WORD:
        return _decimals(column)
    if pa.types.is_dictionary(column.type):
        return _numbered(column)
    return column


def _numbered(column: pa.ChunkedArray) -> pa.ChunkedArray:
    longest = max((len(chunk.dictionary) for chunk in column.chunks), default=0)
    kind = next((k for k in (pa.int8(), pa.int16()) if longest <= 1 << k.bit_width - 1), None)
    if kind is None:
        return column
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.indices.cast(kind), chunk.dictionary)
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, pa.dictionary(kind, column.type.value_type))


def _decimals(column: pa.ChunkedArray) -> pa.ChunkedArray:
    words = [_low_words(chunk) for chunk in column.chunks]
    least = 10**_HALF
    few = all(not len(each) or (each.min() > -least and each.max() < least) for each in words)
    precision, scale = column.type.precision, column.type.scale
    type = pa.decimal32(min(precision, _HALF), scale) if few else pa.decimal64(precision, scale)
    kind = np.dtype("<i4" if few else "<i8")
    chunks = [
        pa.Array.from_buffers(type, len(chunk), [_known(chunk), pa.py_buffer(each.astype(kind))])
        for chunk, each in zip(column.chunks, words, strict=True)
    ]
    return pa.chunked_array(chunks, type)


def _low_words(chunk: pa.Array) -> np.ndarray:
    """The lower half of each value, which has all its bits; 0 for NULL."""
    _, words = chunk.buffers()
    low = np.frombuffer(words, np.dtype("<i8"))[::2][chunk.offset : chunk.offset + len(chunk)]
    return np.where(chunk.is_valid().to_numpy(False), low, 0) if chunk.null_count else low


def _known(chunk: pa.Array) -> pa.Buffer | None:
    """The bits that tell values from NULL; a cast of the array would test what is known already."""
    if not chunk.null_count:
        return None
    return pa.py_buffer(np.packbits(chunk.is_valid().to_numpy(False), bitorder="little"))


def _together(chunks: Sequence[pa.Array], type: pa.DataType) -> pa.ChunkedArray:
    """Chunks that may have been narrowed differently; ``type`` is that of the file."""
    types = {chunk.type for chunk in chunks} or {type}
    if len(types) > 1:
        if any(pa.types.is_dictionary(each) for each in types):
            widest = type.value_type if pa.types.is_dictionary(type) else type
        else:
            widest = max(types, key=lambda each: each.bit_width)
        chunks = [chunk.cast(widest) for chunk in chunks]
        types = {widest}
    return pa.chunked_array(chunks, types.pop())


COLUMNS = ColumnCache(1 << 30)
"""One for the process: its lakes and their stream tables read the same files."""
