"""Field ids of nested columns, put into the footer of a Parquet file; its rows stay where they are.

Spark gives no ids to the elements of arrays and to the keys and values of maps. The footer is a
struct in Thrift's compact protocol, whose second field is the schema: a list of structs, each with
the number of its children, depth first. Only that list is read and written anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_trickle.storage.records import Column

_MAGIC = b"PAR1"
_I32, _BINARY, _LIST, _STRUCT = 5, 8, 9, 12
_CHILDREN, _FIELD_ID, _SCHEMA = 5, 9, 2


def with_ids(footer: bytes, columns: Sequence[Column]) -> bytes:
    """A footer with the ids of all that is nested in the columns."""
    reader = _Reader(footer)
    while (field := reader.field()) is not None and field.id != _SCHEMA:
        reader.skip(field.type)
    count = reader.list_size()
    start = reader.at
    elements = [list(reader.struct()) for _ in range(count)]
    known = {column.id: column for column in columns}
    ids: dict[int, int] = {}
    place = 1  # after the root
    while place < count:
        column = known.get(_number(elements[place], _FIELD_ID) or 0)
        place = _assign(elements, place, column, ids)
    written = [_element(one, ids.get(i)) for i, one in enumerate(elements)]
    return footer[:start] + b"".join(written) + footer[reader.at :]


def replaced(content: bytes, columns: Sequence[Column]) -> bytes:
    """The end of a file, footer, length and magic, with the ids; ``content``: the same as it is."""
    footer = with_ids(content[:-8], columns)
    return footer + len(footer).to_bytes(4, "little") + _MAGIC


def _assign(
    elements: Sequence[Sequence[_Field]], place: int, column: Column | None, ids: dict[int, int]
) -> int:
    """Give ids to an element of the schema and all below it; the place after them."""
    if column is not None:
        ids[place] = column.id
    children = _number(elements[place], _CHILDREN) or 0
    inner: Sequence[Column | None] = column.children if column is not None else ()
    place += 1
    if column is not None and column.type.startswith(("array", "map")):
        # A repeated group stands between the column and its parts, and has no id.
        children = _number(elements[place], _CHILDREN) or 0
        place += 1
    for number in range(children):
        place = _assign(elements, place, inner[number] if number < len(inner) else None, ids)
    return place


@dataclass(frozen=True)
class _Field:
    id: int
    type: int
    value: bytes = b""


def _number(element: Sequence[_Field], field: int) -> int | None:
    found = next((one for one in element if one.id == field), None)
    if found is None:
        return None
    number = _Reader(found.value).varint()
    return (number >> 1) ^ -(number & 1)


def _element(fields: Sequence[_Field], number: int | None) -> bytes:
    kept = [field for field in fields if number is None or field.id != _FIELD_ID]
    if number is not None:
        kept.append(_Field(_FIELD_ID, _I32, _varint(number << 1)))
    parts, last = [], 0
    for field in sorted(kept, key=lambda one: one.id):
        parts += [bytes([(field.id - last) << 4 | field.type]), field.value]
        last = field.id
    return b"".join(parts) + b"\0"


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


class _Reader:
    """Reads the compact protocol; values are kept as they are written."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._last = 0
        self.at = 0

    def byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    def field(self) -> _Field | None:
        """The head of the next field of the outermost struct; None at its end."""
        head = self.byte()
        if not head:
            return None
        if head >> 4:
            self._last += head >> 4
        else:
            number = self.varint()
            self._last = (number >> 1) ^ -(number & 1)
        return _Field(self._last, head & 15)

    def struct(self) -> Iterator[_Field]:
        outer, self._last = self._last, 0
        while (field := self.field()) is not None:
            start, last = self.at, self._last
            self.skip(field.type)
            self._last = last
            yield _Field(field.id, field.type, self._data[start : self.at])
        self._last = outer

    def list_size(self) -> int:
        head = self.byte()
        return self.varint() if head >> 4 == 15 else head >> 4

    def skip(self, kind: int) -> None:
        if kind in (1, 2):  # a boolean is its own head
            return
        if kind == 3:
            self.at += 1
        elif kind in (4, 5, 6):
            self.varint()
        elif kind == 7:
            self.at += 8
        elif kind == _BINARY:
            length = self.varint()
            self.at += length
        elif kind in (_LIST, 10):
            inner = self._data[self.at] & 15
            for _ in range(self.list_size()):
                self.skip(3 if inner in (1, 2) else inner)
        elif kind == _STRUCT:
            for _ in self.struct():
                pass
        else:
            raise ValueError(f"a footer with a value of type {kind}")
