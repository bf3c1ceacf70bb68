"""Texts of literals, read as PostgreSQL reads them; spellings that it has and we do not are refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime

from sqlglot import exp

from spark_trickle.sql.pg import types as t
from spark_trickle.sql.pg.types import PgType, numeric, refusal, refuse
from spark_trickle.sql.pg.values import PgValue, cast, text

_NUMBER = re.compile(r"\s*([+-]?)(\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?\s*")
_DATE = re.compile(r"\s*(\d{4})-(\d{1,2})-(\d{1,2})\s*")
_TIME = re.compile(
    r"\s*(\d{4}-\d{1,2}-\d{1,2})(?:[ T]+(\d{1,2}:\d{2})(:\d{2}(?:\.\d{1,6})?)?)?"
    r"\s*(Z|[+-]\d{2}(?::?\d{2})?)?\s*",
    re.IGNORECASE,
)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_LIMITS = {"int2": 1 << 15, "int4": 1 << 31, "int8": 1 << 63}
_TRUTHS = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}
_PART = re.compile(r"\s*([+-]?\d+)\s*([a-z]+)\s*", re.IGNORECASE)
_CLOCK = re.compile(r"\s*([+-]?)(\d+):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?\s*")
_MONTHS = {"year": 12, "yr": 12, "y": 12, "month": 1, "mon": 1}
_DAYS = {"week": 7, "w": 7, "day": 1, "d": 1}
_MICROS = {"hour": 3600, "hr": 3600, "h": 3600, "minute": 60, "min": 60, "m": 60}
_MICROS |= {"second": 1, "sec": 1, "s": 1}


@dataclass(frozen=True)
class Interval:
    """PostgreSQL adds months first, then days, then time."""

    months: int = 0
    days: int = 0
    micros: int = 0

    def __neg__(self) -> Interval:
        return Interval(-self.months, -self.days, -self.micros)


def number_literal(digits: str) -> PgValue:
    """int4, int8 or numeric, as PostgreSQL chooses."""
    if digits.isdigit() and int(digits) < 1 << 63:
        type = t.INT4 if int(digits) < 1 << 31 else t.INT8
        return PgValue(exp.Literal.number(digits), type, int(digits))
    plain, type = plain_number(digits)
    return PgValue(cast(text(plain), type), type, plain)


def plain_number(digits: str) -> tuple[str, PgType]:
    """A number without exponent, and the numeric type that holds just it."""
    found = _NUMBER.fullmatch(digits)
    if found is None:
        refuse(f"{digits!r} is not a number")
    sign, mantissa, exponent = found[1], found[2], int(found[3] or 0)
    whole, _, fraction = mantissa.partition(".")
    if exponent >= 0:
        fraction = fraction.ljust(exponent, "0")
        whole, fraction = whole + fraction[:exponent], fraction[exponent:]
    else:
        whole = whole.rjust(-exponent, "0")
        whole, fraction = whole[:exponent], whole[exponent:] + fraction
    whole = whole.lstrip("0")
    if len(whole) + len(fraction) > t.DIGITS:
        refuse(f"{digits}: a lake has up to {t.DIGITS} digits")
    sign = "-" if sign == "-" else ""
    shown = f"{sign}{whole or '0'}" + (f".{fraction}" if fraction else "")
    return shown, numeric(max(1, len(whole) + len(fraction)), len(fraction))


def literal_as(content: str, type: PgType) -> PgValue:
    """A literal in quotes as a value of a type."""
    if type.is_int:
        return _integer(content, type)
    if type.kind == "numeric":
        plain, own = plain_number(content)
        kept = own if type.free else type
        return PgValue(cast(text(plain), kept), kept, plain)
    if type.kind in ("float4", "float8"):
        if _NUMBER.fullmatch(content) is None:
            refuse(f"{content!r} as {type}")
        return PgValue(cast(text(content.strip()), type), type, content)
    if type.kind == "bool":
        return PgValue(exp.Boolean(this=_truth(content)), type, content)
    if type.kind in ("date", "timestamp", "timestamptz"):
        return PgValue(cast(text(_moment(content, type)), type), type, content)
    if type.kind == "uuid":
        if _UUID.fullmatch(content.strip()) is None:
            refuse(f"{content!r} as uuid: only its usual spelling is read")
        return PgValue(text(content.strip().lower()), type, content)
    if type.kind == "text":
        return PgValue(text(content), type, content)
    if type.kind == "bytea":
        return _bytes(content)
    raise refusal(f"the literal {content!r} as {type}")


def _integer(content: str, type: PgType) -> PgValue:
    if re.fullmatch(r"\s*[+-]?\d+\s*", content) is None:
        refuse(f"{content!r} is not of type {type}")
    value, limit = int(content), _LIMITS[type.kind]
    if not -limit <= value < limit:
        refuse(f"{content!r} is out of range for type {type}")
    return PgValue(cast(text(str(value)), type), type, value)


def _truth(content: str) -> bool:
    word = content.strip().lower()
    if word in ("1", "0"):
        return word == "1"
    found = {truth for name, truth in _TRUTHS.items() if word and name.startswith(word)}
    if len(found) != 1:
        refuse(f"{content!r} is not of type boolean")
    return found.pop()


def _moment(content: str, type: PgType) -> str:
    """ISO text; other spellings, infinity and years beyond 9999 are refused."""
    found = _TIME.fullmatch(content)
    if found is None:
        refuse(f"{content!r} as {type}: only ISO spelling is read", "such as 2024-01-31 12:00:00")
    day, minutes, seconds, zone = found.groups()
    year, month, number_of_day = (int(part) for part in day.split("-"))
    clock = f"{minutes or '00:00'}{seconds or ':00'}"
    clock = clock if clock[1] != ":" else f"0{clock}"
    try:
        date(year, month, number_of_day)
        datetime.fromisoformat(f"2000-01-01T{clock.split('.')[0]}")
    except ValueError:
        refuse(f"{content!r} is not of type {type}")
    day = f"{year:04}-{month:02}-{number_of_day:02}"
    if type.kind == "date":
        return day
    zone = zone if type.kind == "timestamptz" and zone else ""
    if zone and zone.upper() != "Z" and ":" not in zone:
        zone = f"{zone[:3]}:{zone[3:] or '00'}"
    return f"{day} {clock}{zone}"


def _bytes(content: str) -> PgValue:
    if re.fullmatch(r"\\x([0-9a-fA-F]{2})*", content) is None:
        refuse(f"{content!r} as bytea: only \\x… is read")
    return PgValue(exp.Anonymous(this="unhex", expressions=[text(content[2:])]), t.BYTEA, content)


def interval(content: str, unit: str | None) -> Interval:
    """``1 day 2 hours``, ``-1 month``, ``01:30:00``, or a number with the unit after the literal."""
    if unit:
        return _unit(int(_whole(content)), unit, content)
    total, place = Interval(), 0
    while place < len(content):
        found, clock = _PART.match(content, place), _CLOCK.match(content, place)
        if clock is not None:
            part = _clock(clock)
        elif found is not None:
            part = _unit(int(found[1]), found[2], content)
        else:
            refuse(f"interval {content!r}: this spelling is not read", "such as '1 day 2 hours'")
        total = Interval(
            total.months + part.months, total.days + part.days, total.micros + part.micros
        )
        place = (clock or found).end()  # type: ignore[union-attr]
    return total


def _whole(content: str) -> str:
    if re.fullmatch(r"\s*[+-]?\d+\s*", content) is None:
        refuse(f"interval {content!r}: this spelling is not read", "such as '1 day 2 hours'")
    return content


def _clock(found: re.Match[str]) -> Interval:
    sign = -1 if found[1] == "-" else 1
    micros = int((found[5] or "").ljust(6, "0"))
    seconds = int(found[2]) * 3600 + int(found[3]) * 60 + int(found[4] or 0)
    return Interval(micros=sign * (seconds * 1_000_000 + micros))


def _unit(amount: int, unit: str, content: str) -> Interval:
    word = unit.lower()
    word = word if word in _MONTHS | _DAYS | _MICROS else word.removesuffix("s")
    if word in _MONTHS:
        return Interval(months=amount * _MONTHS[word])
    if word in _DAYS:
        return Interval(days=amount * _DAYS[word])
    if word in _MICROS:
        return Interval(micros=amount * _MICROS[word] * 1_000_000)
    raise refusal(f"interval {content!r}: the unit {unit} is not read")
