"""Results brought into this process, bounded by rows and by bytes before they are sent.

A row of numbers and dates has a known size: a limit of rows is one of bytes. Of texts, binaries and
nested values the query itself tells the size of every row and leaves the values of large rows away,
so that what comes is bounded whatever the rows hold. Where that left anything away, the sizes say
whether the rows may be asked for as they are.
"""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as t

from spark_trickle.errors import UserError

_FIXED = 16
"""No value of a type without a length takes more bytes than this."""
_CHARACTER = 8
"""Nor does a nested value, for each character of its text: a text says at least ``1, `` of a number."""
_SIZE = "__trickle_size"


def few(frame: DataFrame, rows: int, bytes: int) -> tuple[pa.Table | None, int]:
    """The rows if they are no more than these, and how many queries were sent; else None."""
    fixed = _FIXED * len(frame.columns)
    names = [f"c{number}" for number in range(len(frame.columns))]
    fields = [t.StructField(n, f.dataType) for n, f in zip(names, frame.schema, strict=True)]
    sizes = {field.name: size for field in fields if (size := _size(field)) is not None}
    if not sizes:
        most = min(rows, bytes // fixed)
        found = first(frame, most + 1).toArrow()
        return (found if found.num_rows <= most else None), 1
    widest = bytes // (rows + 1)
    plain = frame.toDF(*names).select(*(F.col(f.name).cast(_open(f.dataType)) for f in fields))
    size = reduce(Column.__add__, sizes.values(), F.lit(fixed).cast("bigint"))
    shown = [_unless_large(f, widest) if f.name in sizes else F.col(f.name) for f in fields]
    found = first(plain, rows + 1).withColumn(_SIZE, size).select(*shown, _SIZE).toArrow()
    told = found.column(_SIZE)
    if found.num_rows > rows or (pc.sum(told).as_py() or 0) > bytes:
        return None, 1
    queries = 1
    if (pc.max(told).as_py() or 0) > widest:
        found, queries = first(plain, rows + 1).toArrow(), 2  # chance may give more rows this time
        if found.num_rows > rows:
            return None, queries
    return found.select(names).rename_columns(frame.columns), queries


def first(frame: DataFrame, rows: int) -> DataFrame:
    """No more than so many rows; of a frame that is sorted and limited itself, those it means.

    A limit on top of everything, fetched as Arrow, has Spark take rows as they arrive from the
    executors, whatever order was asked for below it; under a filter it sorts them again.
    """
    return frame.limit(rows).where(F.monotonically_increasing_id() >= 0)


def bounded(frame: DataFrame, rows: int, bytes: int) -> pa.Table:
    """All rows of an answer that has to be held here; UserError if they are more, or too large."""
    found, _ = few(frame, rows, bytes)
    if found is None:
        raise UserError(
            f"the answer has more than {rows:,} rows or takes more than {bytes >> 20} MiB",
            hint="ask for fewer rows, or for shorter values of them",
        )
    return found


def _unless_large(field: t.StructField, widest: int) -> Column:
    nothing = F.lit(None)
    if isinstance(
        field.dataType, t.VariantType
    ):  # PySpark makes no Arrow value of one that is NULL
        nothing = F.parse_json(F.lit("null"))
    value = F.when(F.col(_SIZE) <= widest, F.col(field.name)).otherwise(nothing)
    return value.alias(field.name)


def _open(type: t.DataType) -> t.DataType:
    """The type with parts that may be NULL: Arrow takes no NULL for a struct of those that may not."""
    match type:
        case t.ArrayType():
            return t.ArrayType(_open(type.elementType))
        case t.MapType():
            return t.MapType(_open(type.keyType), _open(type.valueType))
        case t.StructType():
            return t.StructType([t.StructField(f.name, _open(f.dataType)) for f in type])
        case _:
            return type


def _size(field: t.StructField) -> Column | None:
    """The bytes of a value beyond what every value takes; None if there never are any."""
    # Not even a Column for the others: PySpark goes to Java some thirty times for one.
    match field.dataType:
        case t.StringType() | t.CharType() | t.VarcharType() | t.BinaryType():
            length = F.octet_length(F.col(field.name))
        case t.ArrayType() | t.MapType() | t.StructType() | t.VariantType():
            length = F.octet_length(F.col(field.name).cast("string")) * _CHARACTER
        case _:
            return None
    return F.coalesce(length.cast("bigint"), F.lit(0))
