"""Equality of values that Spark does not compare: maps, wherever they are nested.

Spark groups by a map by sorting its entries, but in the code that it generates for this a NULL
becomes 0. It generates none inside an array, so an array of one value stands for what holds a map.
A join compares no maps at all: there the sorted entries stand for a map.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as t

from spark_trickle.spark.frames import quote
from spark_trickle.storage.records import WEIGHT


def net(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Equal rows of a weighted frame added up, without those that cancel out."""
    maps = {field.name for field in frame.schema.fields if _holds_map(field.dataType)}
    keys, values = [], []
    for number, name in enumerate(names):
        column = F.col(quote(name))
        if name in maps:
            keys.append(F.array(column).alias(f"__trickle_key_{number}"))
            values.append(F.any_value(column).alias(name))
        else:
            keys.append(column)
    summed = frame.groupBy(*keys).agg(*values, F.sum(WEIGHT).alias(WEIGHT))
    return summed.where(F.col(WEIGHT) != 0).select(*(F.col(quote(n)) for n in (*names, WEIGHT)))


def comparable_columns(frame: DataFrame, names: Sequence[str]) -> list[Column]:
    """Columns of a frame, or what equals another just when they do and Spark can compare."""
    types = {field.name: field.dataType for field in frame.schema.fields}
    return [_comparable_value(F.col(quote(name)), types[name]) for name in names]


def _comparable_value(value: Column, type: t.DataType) -> Column:
    if not _holds_map(type):
        return value
    if isinstance(type, t.MapType):
        entries = t.StructType().add("key", type.keyType).add("value", type.valueType)
        return F.array_sort(_comparable_value(F.map_entries(value), t.ArrayType(entries)))
    if isinstance(type, t.ArrayType):
        inner = type.elementType
        return F.transform(value, lambda item: _comparable_value(item, inner))
    assert isinstance(type, t.StructType)
    fields = [_comparable_value(value[f.name], f.dataType).alias(f.name) for f in type.fields]
    return F.when(value.isNotNull(), F.struct(*fields))


def _holds_map(type: t.DataType) -> bool:
    match type:
        case t.MapType():
            return True
        case t.ArrayType():
            return _holds_map(type.elementType)
        case t.StructType():
            return any(_holds_map(field.dataType) for field in type.fields)
        case _:
            return False
