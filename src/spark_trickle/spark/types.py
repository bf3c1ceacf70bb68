"""The lake's column types as Spark's, with field ids, and which type may be stored in which."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import types as t
from pyspark.sql.types import DataType as DataType

from spark_trickle.errors import CatalogError
from spark_trickle.statements.text.splices import quoted
from spark_trickle.storage.records import Column

FIELD_ID = "parquet.field.id"

_FLAT: dict[str, t.DataType] = {
    "boolean": t.BooleanType(),
    "tinyint": t.ByteType(),
    "smallint": t.ShortType(),
    "int": t.IntegerType(),
    "bigint": t.LongType(),
    "float": t.FloatType(),
    "double": t.DoubleType(),
    "string": t.StringType(),
    "binary": t.BinaryType(),
    "date": t.DateType(),
    "timestamp": t.TimestampType(),
    "timestamp_ntz": t.TimestampNTZType(),
    "variant": t.VariantType(),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def spark_type(column: Column, *, ids: bool = True) -> t.DataType:
    """The Spark type of a column; nested fields carry their field ids when ``ids``."""
    text = column.type
    if text.startswith("array"):
        return t.ArrayType(spark_type(column.children[0], ids=ids), True)
    if text.startswith("map"):
        key, value = column.children
        return t.MapType(spark_type(key, ids=ids), spark_type(value, ids=ids), True)
    if text.startswith("struct"):
        return t.StructType([spark_field(child, ids=ids) for child in column.children])
    decimal = _DECIMAL.fullmatch(text)
    if decimal:
        return t.DecimalType(int(decimal.group(1)), int(decimal.group(2)))
    if text not in _FLAT:
        raise CatalogError(
            f"column {column.name} has the type {text}, which Spark cannot read",
            hint="the table was written by another program; name the other columns only there",
        )
    return _FLAT[text]


def spark_field(column: Column, *, ids: bool = True) -> t.StructField:
    # Nullable always: a file's rows may be older than a NOT NULL, and Spark would trust it.
    metadata = {FIELD_ID: column.id} if ids else None
    return t.StructField(column.name, spark_type(column, ids=ids), True, metadata)


def spark_schema(columns: Sequence[Column], *, ids: bool = True) -> t.StructType:
    return t.StructType([spark_field(column, ids=ids) for column in columns])


def storable(source: t.DataType, target: t.DataType) -> bool:
    """Spark's ANSI rule for storing a value of one type in a column of another."""
    if isinstance(source, t.NullType) or source == target:
        return True
    match source, target:
        case t.ArrayType(), t.ArrayType():
            return storable(source.elementType, target.elementType)
        case t.MapType(), t.MapType():
            return storable(source.keyType, target.keyType) and storable(
                source.valueType, target.valueType
            )
        case t.StructType(), t.StructType():
            return len(source) == len(target) and all(
                storable(s.dataType, f.dataType) for s, f in zip(source, target, strict=True)
            )
        case t.NumericType(), t.NumericType():
            return True
        case _, t.StringType():
            return isinstance(source, t.AtomicType)
        case _:
            return isinstance(source, _DATETIMES) and isinstance(target, _DATETIMES)


_DATETIMES = (t.DateType, t.TimestampType, t.TimestampNTZType)


def same(source: t.DataType, target: t.DataType) -> bool:
    """Equal but for names, nullability and metadata of nested fields."""
    return source.simpleString() == target.simpleString()


def type_text(data_type: t.DataType) -> str:
    """A type as DDL text, with the names of nested fields quoted."""
    match data_type:
        case t.ArrayType():
            return f"array<{type_text(data_type.elementType)}>"
        case t.MapType():
            return f"map<{type_text(data_type.keyType)},{type_text(data_type.valueType)}>"
        case t.StructType():
            fields = (f"{quoted(f.name)}:{type_text(f.dataType)}" for f in data_type)
            return f"struct<{','.join(fields)}>"
        case _:
            return data_type.simpleString()
