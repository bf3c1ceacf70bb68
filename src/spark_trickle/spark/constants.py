"""Values in the texts and conditions that Spark gets.

Law: no date or timestamp goes to Spark as an object of Python or Java, for those bend it by the
zone of a process and by the calendar before 1582; it goes as the number of its type's own unit.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from spark_trickle.spark.types import spark_type
from spark_trickle.statements.text.splices import quoted
from spark_trickle.storage.files import calendar
from spark_trickle.storage.files.values import plain
from spark_trickle.storage.records import Column, Ranges, Table

LISTED = 2_000
"""Up to this many values are listed for Parquet to skip by; more become a range."""
_PUSHED_FROM = {"date": -141_424, "timestamp": -141_424 * calendar.DAY}
"""17 October 1582. Where Spark compares with what Parquet knows of a file, it takes a DATE or
TIMESTAMP through Java's old calendar, which lacks the ten days before the 15th: rows get lost."""


def constant(column: Column) -> Expression:
    """The initial default of a column as a literal of its type."""
    value = column.initial_default
    if column.type in ("date", "timestamp", "timestamp_ntz") and value is not None:
        return F.expr(_text(column.type, value))
    if isinstance(value, bytes):
        return F.expr(_text("binary", value))
    return F.lit(value).cast(spark_type(column, ids=False))


def among(name: str, values: pa.Array) -> tuple[Expression, bool]:
    """Whether a column's value is one of these, and whether it says just that.

    What says less is true for more: for what lies between their ends, or before 1582.
    """
    column = F.col(quoted(name))
    known = values.drop_null()
    if not len(known):
        return column.isNull(), True
    kind = _kind(values.type)
    first = _PUSHED_FROM.get(kind)
    tests = []
    exact = len(known) <= LISTED
    if first is not None:
        numbers = known.cast(pa.int32() if kind == "date" else pa.int64())
        late = pc.greater_equal(numbers, first)
        if not pc.all(late).as_py():
            tests.append(F.expr(f"{quoted(name)} < {_text(kind, first)}"))
            known, exact = known.filter(late), False
    if len(known):
        tests.append(_listed(name, kind, known))
    if values.null_count:
        tests.append(column.isNull())
    return any_of(tests), exact


def among_ranges(table: Table, within: Ranges) -> str:
    """Whether a row lies in all ranges.

    Numbers are compared where Spark would take a constant through the old calendar.
    """
    tests = []
    for name, low, high in within:
        column = table.column(name)
        assert column is not None
        early = _PUSHED_FROM.get(column.type, low)
        plain = quoted(name)
        for sign, end in ((">=", low), ("<=", high)):
            if end is None:
                continue
            if early is not None and end < early and column.type in _UNITS:
                tests.append(f"{_UNITS[column.type]}({plain}) {sign} {end}L")
            else:
                tests.append(f"{plain} {sign} {_text(column.type, end)}")
        if low is None and high is None:
            tests.append(f"{plain} IS NOT NULL")
    return " AND ".join(tests)


_UNITS = {"date": "unix_date", "timestamp": "unix_micros"}


def _listed(name: str, kind: str, values: pa.Array) -> Expression:
    if len(values) <= LISTED:
        if kind in ("string", "boolean"):
            return F.col(quoted(name)).isin(values.to_pylist())
        # One text and not a Column object per value: each of those is a call to the Java side.
        texts = ", ".join(_text(kind, value) for value in plain(values))
        return F.expr(f"{quoted(name)} IN ({texts})")
    found = plain(values)
    low, high = min(found), max(found)
    if kind == "string":
        return F.col(quoted(name)).between(low, high)
    return F.expr(f"{quoted(name)} BETWEEN {_text(kind, low)} AND {_text(kind, high)}")


def _kind(type: pa.DataType) -> str:
    if pa.types.is_timestamp(type):
        return "timestamp" if type.tz else "timestamp_ntz"
    if pa.types.is_decimal(type):
        return f"decimal({type.precision},{type.scale})"
    tests = {
        "date": pa.types.is_date,
        "string": pa.types.is_string,
        "binary": pa.types.is_binary,
        "boolean": pa.types.is_boolean,
    }
    return next((kind for kind, test in tests.items() if test(type)), "integer")


def _text(kind: str, value: Any) -> str:
    """SQL text of a plain value."""
    match kind:
        case "date":
            return f"date_from_unix_date({value})"
        case "timestamp":
            return f"timestamp_micros({value}L)"
        case "timestamp_ntz":
            days, rest = divmod(value, calendar.DAY)
            year, month, day = calendar.civil(days)
            sign = "-" if year < 0 else "+" if year > 9999 else ""
            return f"TIMESTAMP_NTZ'{sign}{abs(year):04}-{month:02}-{day:02} {calendar.clock(rest)}'"
        case "binary":
            return f"X'{value.hex()}'"
        case "integer":
            return f"{value}" if abs(value) < 1 << 31 else f"{value}L"
        case _:
            return f"CAST('{value:f}' AS {kind})"


def all_of(tests: list[Expression]) -> Expression:
    whole = tests[0]
    for test in tests[1:]:
        whole = whole & test
    return whole


def any_of(tests: list[Expression]) -> Expression:
    whole = tests[0]
    for test in tests[1:]:
        whole = whole | test
    return whole
