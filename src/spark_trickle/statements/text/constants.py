"""Python values as typed literals of SQL."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from spark_trickle.errors import UserError


def literal(value: Any, dialect: str = "spark") -> str:
    """An expression whose value and type are those of ``value``; UserError if SQL has none."""
    value = value.item() if type(value).__module__ == "numpy" and value.ndim == 0 else value
    match value:
        case None | bool():
            return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
        case int() | float() | Decimal():
            return _number(value, dialect)
        case str() | UUID():
            return _string(str(value), dialect)
        case bytes() | bytearray() | memoryview():
            return _binary(bytes(value), dialect)
        case date() | timedelta():
            return _time(value, dialect)
        case list() | tuple() if dialect == "spark":
            return f"array({', '.join(literal(item) for item in value)})"
        case Mapping() if dialect == "spark":
            pairs = (literal(item) for pair in value.items() for item in pair)
            return f"map({', '.join(pairs)})"
        case _:
            raise UserError(
                f"a parameter cannot be a {type(value).__name__}",
                hint="None, bool, int, float, Decimal, str, bytes, date, datetime, timedelta, UUID, "
                "and lists and dicts of them can",
            )


def _number(value: int | float | Decimal, dialect: str) -> str:
    match value:
        case int():
            return _signed(_integer(value))
        case float():
            return _double(value, dialect)
        case _:
            return _decimal(value, dialect)


def _signed(digits: str) -> str:
    """In brackets: ``a -:b`` is no comment, and ``:b::string`` casts the whole number."""
    return f"({digits})" if digits.startswith("-") else digits


def _integer(value: int) -> str:
    if abs(value) >= 10**38:
        raise UserError(f"the number {value} has more than 38 digits")
    return str(value)


def _double(value: float, dialect: str) -> str:
    name = "DOUBLE" if dialect == "spark" else "DOUBLE PRECISION"
    if not math.isfinite(value):
        text = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return f"CAST('{text}' AS {name})"
    if dialect == "spark":
        return _signed(f"{value!r}D")
    return f"CAST('{value!r}' AS {name})"


def _decimal(value: Decimal, dialect: str) -> str:
    if not value.is_finite():
        raise UserError(f"a parameter cannot be the decimal {value}")
    text = f"{value:f}"
    if len(text.replace("-", "").replace(".", "").lstrip("0")) > 38:
        raise UserError(f"the number {value} has more than 38 digits")
    return _signed(f"{text}BD") if dialect == "spark" else _signed(text)


def _string(text: str, dialect: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError("the text is not Unicode: it has half of a surrogate pair") from None
    if dialect != "spark" or ("\\" not in text and "${" not in text):
        return _quoted(text)
    # What a backslash means is a setting of Spark, and ${…} inside texts it replaces by settings
    # and variables of its environment.
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _binary(value: bytes, dialect: str) -> str:
    return f"X'{value.hex()}'" if dialect == "spark" else f"CAST('\\x{value.hex()}' AS BYTEA)"


def _time(value: date | timedelta, dialect: str) -> str:
    match value:
        case datetime():
            return _moment(value, dialect)
        case date():
            return f"DATE '{value.isoformat()}'"
        case _:
            return _interval(value)


def _moment(value: datetime, dialect: str) -> str:
    """A time without a zone is one of the session's zone, as in Spark's own literals."""
    if value != value:  # pandas' NaT
        return "NULL"
    if value.tzinfo is None or value.utcoffset() is None:
        return f"TIMESTAMP '{datetime.isoformat(value, sep=' ')}'"
    text = datetime.isoformat(value.astimezone(UTC), sep=" ")
    return f"{'TIMESTAMP' if dialect == 'spark' else 'TIMESTAMPTZ'} '{text}'"


def _interval(value: timedelta) -> str:
    sign = "-" if value < timedelta() else ""
    positive = abs(value)
    minutes, seconds = divmod(positive.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{positive.days} {hours:02}:{minutes:02}:{seconds:02}.{positive.microseconds:06}"
    return f"INTERVAL '{sign}{text}' DAY TO SECOND"
