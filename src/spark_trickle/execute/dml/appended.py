"""Rows from outside as the table's: pyarrow, pandas and lists of dicts.

Law: a number, a date or a time means what Spark would take it for, also inside lists, maps and structs.
One without a zone is a wall time of the session's zone, one with a zone is an instant, a date is its
midnight; of numbers ``decimals`` tells. What a column would lose of a value (a time of day, nanoseconds,
a zone, a field) is refused, not cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.errors import InvalidDataError
from spark_trickle.execute.dml.decimals import as_decimals, as_doubles
from spark_trickle.execute.dml.nested import by_parts, with_pairs
from spark_trickle.storage.files.types import arrow_type
from spark_trickle.storage.records import Column, Table

Instants = Callable[[pa.ChunkedArray], pa.ChunkedArray]
"""Wall times (microseconds, no zone) of the session's zone as instants."""

_INSTANT, _WALL = pa.timestamp("us", "UTC"), pa.timestamp("us")
_FIRST, _LAST = 0, 2_145_916_800_000_000
"""1970 to 2038: here all databases of zones agree."""
UTC = ("UTC", "Etc/UTC", "GMT", "Z")


def to_arrow(table: Table, data: Any) -> pa.Table | None:
    """``data`` as Arrow, if it is pyarrow, pandas or dicts; None: something else."""
    found = _to_arrow(table, data)
    names = [] if found is None else [name.lower() for name in found.column_names]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidDataError(
            f"column {twice} of {table} is given twice", hint="names of columns have no case"
        )
    return found


def _to_arrow(table: Table, data: Any) -> pa.Table | None:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
        return _from_dicts(table, data)
    if type(data).__module__.split(".")[0] == "pandas" and hasattr(data, "columns"):
        for name in data.columns:
            if data[name].dtype == object:
                _check_one_kind(table, str(name), data[name])
        try:
            return pa.Table.from_pandas(data, preserve_index=False)
        except _NO_VALUES as error:
            raise InvalidDataError(f"the frame for {table} cannot be read: {error}") from None
    return None


def _from_dicts(table: Table, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """One Arrow column per name; each is typed on its own so that an error can name it."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(str(name) for name in row))
    if rows and not names:
        raise InvalidDataError(
            f"the rows for {table} have no columns", hint="name one, with None for NULL"
        )
    arrays = []
    for name in names:
        values = [row.get(name) for row in rows]
        _check_one_kind(table, name, values)
        column = table.column(name)
        try:
            arrays.append(_array(values if column is None else with_pairs(column, values)))
        except _NO_VALUES as error:
            raise InvalidDataError(
                f"the values of {name} for {table} are not of one type, or of none that a table has: "
                f"{error}"
            ) from None
    return pa.table(dict(zip(names, arrays, strict=True))) if names else pa.table({})


_NO_VALUES = (pa.ArrowException, TypeError, ValueError, OverflowError)


def _array(values: list[Any]) -> pa.Array:
    values = [None if isinstance(v, date) and v != v else v for v in values]  # NaT of pandas
    try:
        return pa.array(values)
    except OverflowError:  # whole numbers of more than 64 bits are decimals
        return pa.array([Decimal(v) if isinstance(v, int) else v for v in values])


def _check_one_kind(table: Table, name: str, values: Iterable[Any]) -> None:
    """Arrow takes dates, times with and times without a zone for each other."""
    kinds = {_kind(value) for value in _dates(values) if value == value}
    if "times with nanoseconds" in kinds:
        hint = "round them to microseconds first, for example with .floor('us')"
        raise InvalidDataError(f"the values of {name} for {table} have nanoseconds", hint=hint)
    if len(kinds) > 1:
        listed = " and ".join(sorted(kinds))
        raise InvalidDataError(
            f"the values of {name} for {table} are not of one type: there are {listed}",
            hint="give all of them a zone or none, and dates as datetimes where there are times",
        )


def _dates(values: Iterable[Any]) -> Iterator[date]:
    """Those among values, and inside of them."""
    for value in values:
        if isinstance(value, date):
            yield value
        elif isinstance(value, Mapping):
            yield from _dates(value.values())
        elif isinstance(value, list | tuple):
            yield from _dates(value)


def _kind(value: date) -> str:
    if getattr(value, "nanosecond", 0):
        return "times with nanoseconds"
    if not isinstance(value, datetime):
        return "dates"
    return "times without a zone" if value.tzinfo is None else "times with a zone"


def stored(table: Table, data: pa.Table, zone: str, instants: Instants) -> pa.Table:
    """The data with numbers, dates and times as the table's columns store them."""

    def convert(column: Column, array: pa.ChunkedArray) -> pa.ChunkedArray:
        if pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
            if column.type in ("date", "timestamp", "timestamp_ntz"):
                return _times(table, column, array, zone, instants)
        elif column.type.startswith("decimal("):
            return _decimals(table, column, array)
        elif column.type in ("double", "float"):
            return as_doubles(array)
        return array

    for place, name in enumerate(data.column_names):
        column = table.column(name)
        if column is not None:
            made = by_parts(column, data.column(place), convert)
            data = data.set_column(place, name, made)
    return data


def _decimals(table: Table, column: Column, array: pa.ChunkedArray) -> pa.ChunkedArray:
    target = arrow_type(column)
    try:
        return as_decimals(array, target.scale)
    except pa.ArrowInvalid as error:
        what = f"a number ({str(error).splitlines()[0]})"
        raise _lossy(table, column, what, "NULL stands for what is not there") from None


def _times(
    table: Table, column: Column, array: pa.ChunkedArray, zone: str, instants: Instants
) -> pa.ChunkedArray:
    dates = pa.types.is_date(array.type)
    zoned = not dates and array.type.tz is not None
    if zoned and column.type != "timestamp":
        raise _lossy(table, column, "a time with a zone", _NO_ZONE.format(column.type.upper()))
    if column.type == "date":
        return array.cast(pa.date32()) if dates else _days(table, column, array)
    try:
        if zoned:
            return array.cast(_INSTANT)
        wall = array.cast(pa.date32()).cast(_WALL) if dates else array.cast(_WALL)
    except pa.ArrowInvalid:
        hint = "round it to microseconds first, for example with .dt.floor('us') in pandas"
        raise _lossy(table, column, "a time with nanoseconds, or one out of range", hint) from None
    return wall if column.type == "timestamp_ntz" else _in_zone(wall, zone, instants)


_NO_ZONE = "{} has no zone: convert to wall times first, for example with .dt.tz_localize(None)"


def _days(table: Table, column: Column, array: pa.ChunkedArray) -> pa.ChunkedArray:
    days = array.cast(pa.date32())
    if pc.any(pc.not_equal(days.cast(array.type), array)).as_py():
        hint = "give dates, for example with .dt.normalize() in pandas"
        raise _lossy(table, column, "a time of day", hint)
    return days


def _in_zone(wall: pa.ChunkedArray, zone: str, instants: Instants) -> pa.ChunkedArray:
    if zone in UTC:
        return wall.cast(pa.int64()).cast(_INSTANT)
    ends = pc.min_max(wall.cast(pa.int64()))
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is None or (low >= _FIRST and high < _LAST):
        try:
            return pc.assume_timezone(wall, zone).cast(_INSTANT)
        except (pa.ArrowInvalid, pa.ArrowKeyError):
            pass  # a time that the zone skips or has twice, or a zone that only Spark knows
    return instants(wall)


def _lossy(table: Table, column: Column, what: str, hint: str) -> InvalidDataError:
    return InvalidDataError(
        f"{what} does not fit column {column.name} of {table}, which has the type {column.type}",
        hint=hint,
    )
