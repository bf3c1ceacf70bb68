"""Lists, maps and structs from outside, part by part: what holds for a column holds inside it, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from spark_trickle.errors import InvalidDataError
from spark_trickle.storage.files.types import NESTED, walk
from spark_trickle.storage.records import Column

Convert = Callable[[Column, pa.ChunkedArray], pa.ChunkedArray]
"""Makes values of a flat column as it stores them."""


def by_parts(column: Column, array: pa.ChunkedArray, convert: Convert) -> pa.ChunkedArray:
    """The values of a column with every flat part of them converted."""
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if column.storage_type not in NESTED:
        return convert(column, array)
    chunks = [_rebuilt(column, chunk, convert) for chunk in array.chunks]
    return pa.chunked_array(chunks) if chunks else array


def _rebuilt(column: Column, array: pa.Array, convert: Convert) -> pa.Array:
    """What is not of the column's kind is left as it is, and refused when it is stored."""
    kind = array.type
    if column.storage_type == "struct" and pa.types.is_struct(kind):
        return _struct(column, array, convert)
    if pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        array = array.cast(pa.list_(kind.value_type))
        kind = array.type
    if column.storage_type == "list" and pa.types.is_list(kind):
        (element,) = column.children
        values = _part(element, _inside(array, array.values), convert)
        return pa.ListArray.from_arrays(_offsets(array), values)
    if column.storage_type == "map" and (pa.types.is_map(kind) or _pairs(kind)):
        keys, items = (array.keys, array.items) if pa.types.is_map(kind) else _fields(array)
        key, value = column.children
        parts = [
            _part(part, _inside(array, values), convert)
            for part, values in ((key, keys), (value, items))
        ]
        return pa.MapArray.from_arrays(_offsets(array), *parts)
    return array


def _part(column: Column, array: pa.Array, convert: Convert) -> pa.Array:
    found = by_parts(column, pa.chunked_array([array]), convert)
    return found.combine_chunks() if found.num_chunks != 1 else found.chunk(0)


def _struct(column: Column, array: pa.StructArray, convert: Convert) -> pa.Array:
    """By name; a field that is not given is NULL, one that the column has not is refused."""
    given = {array.type.field(i).name.lower(): part for i, part in enumerate(array.flatten())}
    unknown = given.keys() - {child.name.lower() for child in column.children}
    if unknown:
        raise InvalidDataError(
            f"column {column.name} has no field {min(unknown)}",
            hint=f"its fields: {', '.join(child.name for child in column.children)}",
        )
    parts = [
        _part(child, given.get(child.name.lower(), pa.nulls(len(array))), convert)
        for child in column.children
    ]
    names = [child.name for child in column.children]
    return pa.StructArray.from_arrays(parts, names=names, mask=array.is_null())


def _inside(array: pa.Array, values: pa.Array) -> pa.Array:
    """Of the values of lists or maps those that a slice of them has."""
    ends = array.offsets
    first, last = ends[0].as_py(), ends[len(array)].as_py()
    return values.slice(first, last - first)


def _offsets(array: pa.Array) -> pa.Array:
    """Where each list begins; NULL for one that is NULL."""
    places = array.offsets.to_numpy()
    gone = np.append(array.is_null().to_numpy(zero_copy_only=False), False)
    return pa.array(places - places[0], pa.int32(), mask=gone)


def _pairs(kind: pa.DataType) -> bool:
    return (
        pa.types.is_list(kind)
        and pa.types.is_struct(kind.value_type)
        and [kind.value_type.field(i).name for i in range(kind.value_type.num_fields)] == [*_PAIR]
    )


def _fields(array: pa.ListArray) -> tuple[pa.Array, pa.Array]:
    keys, items = array.values.flatten()
    return keys, items


_PAIR = ("__trickle_key", "__trickle_value")


def with_pairs(column: Column, values: list[Any]) -> list[Any]:
    """Python values in which dicts that are maps are lists of pairs: Arrow takes a dict for a struct."""
    if not any(part.storage_type == "map" for part in walk(column)):
        return values
    return [_paired(column, value) for value in values]


def _paired(column: Column, value: Any) -> Any:
    match column.storage_type:
        case "map" if isinstance(value, Mapping | list):
            key, item = column.children
            pairs = value.items() if isinstance(value, Mapping) else value
            return [
                dict(zip(_PAIR, (_paired(key, k), _paired(item, v)), strict=True)) for k, v in pairs
            ]
        case "list" if isinstance(value, list):
            return [_paired(column.children[0], each) for each in value]
        case "struct" if isinstance(value, Mapping):
            parts = {child.name.lower(): child for child in column.children}
            return {
                name: _paired(parts[name.lower()], part) if name.lower() in parts else part
                for name, part in value.items()
            }
        case _:
            return value
