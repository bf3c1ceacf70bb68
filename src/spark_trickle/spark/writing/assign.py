"""Storing values in columns: Spark's ANSI store assignment, with errors that name column and value."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as t

from spark_trickle.errors import InvalidDataError, TrickleError
from spark_trickle.spark.failures import spark_errors
from spark_trickle.spark.frames import quote
from spark_trickle.spark.types import same, spark_type, storable, type_text
from spark_trickle.storage.records import Column, Table


def check_storable(table: Table, column: Column, source: t.DataType) -> None:
    target = spark_type(column, ids=False)
    if not storable(source, target):
        raise InvalidDataError(
            f"column {column.name} of {table} has the type {column.type}: "
            f"a value of type {source.simpleString()} cannot be stored in it",
            hint=f"write CAST(… AS {column.type}) if that is what you mean",
        )


def stored(value: str, source: t.DataType, column: Column) -> str:
    """SQL text of ``value`` as the column stores it."""
    target = spark_type(column, ids=False)
    # Equal means nullability of nested fields too: Arrow cannot hold a NULL struct of them else.
    cast = value if source == target else f"CAST({value} AS {type_text(target)})"
    return cast if column.length is None else _short(cast, column, column.length)


def _short(value: str, column: Column, most: int) -> str:
    """SQL text of a VARCHAR(n)'s value; spaces beyond its end are cut off, no more."""
    words = f"a value does not fit column {column.name}, which has the type {column.declared}"
    refusal = "raise_error('" + words.replace("\\", "\\\\").replace("'", "\\'") + "')"
    return (
        f"CASE WHEN char_length({value}) > {most} THEN CASE WHEN char_length(rtrim({value})) > {most} "
        f"THEN {refusal} ELSE left({value}, {most}) END ELSE {value} END"
    )


def default_of(table: Table, column: Column) -> str:
    """SQL text of what a column gets that a statement does not mention."""
    if column.default is None and not column.nullable:
        raise InvalidDataError(
            f"column {column.name} of {table} is NOT NULL, has no default and gets no value",
            hint="name the column and give it a value",
        )
    value = column.default or "NULL"
    return f"CAST(({value}) AS {type_text(spark_type(column, ids=False))})"


def assign(
    frame: DataFrame, table: Table, given: Mapping[str, str], keep: tuple[str, ...] = ()
) -> DataFrame:
    """The table's columns, each from the frame's column ``given[name]`` or by default.

    ``keep`` are columns of the frame that go along unchanged.
    """
    types = {field.name: field.dataType for field in frame.schema}
    chosen = []
    for column in table.columns:
        name = given.get(column.name)
        if name is None:
            value = default_of(table, column)
        else:
            check_storable(table, column, types[name])
            value = stored(quote(name), types[name], column)
        chosen.append(f"{value} AS {quote(column.name)}")
    with spark_errors():
        return frame.selectExpr(*chosen, *(quote(name) for name in keep))


def misfit(
    frame: DataFrame, table: Table, given: Mapping[str, str], error: TrickleError
) -> TrickleError:
    """After a failed write: the first value that does not fit its column, else ``error`` itself."""
    types = {field.name: field.dataType for field in frame.schema}
    for column in table.columns:
        name = given.get(column.name)
        target = spark_type(column, ids=False)
        if name is None or (same(types[name], target) and column.length is None):
            continue
        value = F.col(quote(name))
        unfit = value.isNotNull() & value.try_cast(target).isNull()
        if column.length is not None:
            unfit = unfit | (F.char_length(F.rtrim(value.cast("string"))) > column.length)
        try:
            with spark_errors():
                wrong = frame.where(unfit)
                rows = wrong.select(value.cast("string")).limit(1).collect()
        except TrickleError:
            continue
        if rows:
            return InvalidDataError(
                f"the value {rows[0][0]} does not fit column {column.name} of {table}, "
                f"which has the type {column.declared}"
            )
    return error
