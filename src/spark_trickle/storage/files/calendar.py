"""Dates and timestamps as numbers (days, microseconds since 1970) and as DuckDB's text, both ways.

Law: no zone and no other calendar than the proleptic Gregorian one takes part, and years need not
lie in 1..9999. Python's own objects do the usual cases, because they are faster.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

EPOCH = date(1970, 1, 1).toordinal()
FIRST_DAY, LAST_DAY = date.min.toordinal() - EPOCH, date.max.toordinal() - EPOCH
"""The days that Python knows."""
DAY = 86_400_000_000
_LEAST_DAYS, _LEAST_MICROS = -2_147_483_647, -9_223_372_022_400_000_000
_MOST_DAYS, _MOST_MICROS = 2**31 - 1, 2**63 - 1
_EPOCH_TIME = datetime(1970, 1, 1)
_MICRO = timedelta(microseconds=1)
_DATE = re.compile(r"([+-]?\d+)-(\d{1,2})-(\d{1,2})( \(BC\))?")
_REST = re.compile(
    r"[ T](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6})\d*)?)?\s*"
    r"(Z|([+-])(\d{2})(?::?(\d{2}))?(?::?(\d{2}))?)?( \(BC\))?"
)
_RAW = re.compile(r"<value out of range: (-?\d+)>")
"""What older versions stored of a number that Arrow has no text for."""


def has_text(number: int, *, days: bool) -> bool:
    """Whether DuckDB has a text for the number."""
    return number >= (_LEAST_DAYS if days else _LEAST_MICROS)


def date_text(days: int) -> str:
    """DuckDB's text of a date; the largest number is its infinity."""
    if FIRST_DAY <= days <= LAST_DAY:
        return date.fromordinal(days + EPOCH).isoformat()
    if abs(days) == _MOST_DAYS:
        return "infinity" if days > 0 else "-infinity"
    year, month, day = civil(days)
    return f"{_year(year)}-{month:02}-{day:02}{' (BC)' if year < 1 else ''}"


def _year(year: int) -> str:
    return f"{year if year > 0 else 1 - year:04}"


def timestamp_text(micros: int) -> str:
    """DuckDB's text of a timestamp, without a zone."""
    if abs(micros) == _MOST_MICROS:
        return "infinity" if micros > 0 else "-infinity"
    days, rest = divmod(micros, DAY)
    return f"{date_text(days)} {clock(rest)}"


def clock(micros: int) -> str:
    """The time of day."""
    seconds, fraction = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}" if fraction else text


def read_date(text: str) -> int:
    """The days of a text that DuckDB or an older version of us wrote. ValueError if it is none."""
    try:
        return date.fromisoformat(text).toordinal() - EPOCH
    except ValueError:
        pass
    special = _special(text, _MOST_DAYS)
    if special is not None:
        return special
    found = _DATE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no date")
    return _days(found, found.group(4) is not None)


def read_timestamp(text: str) -> int:
    """The microseconds of a text, those of UTC if it has an offset. ValueError if it is none."""
    try:
        value = datetime.fromisoformat(text)
        if value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return (value - _EPOCH_TIME) // _MICRO
    except (ValueError, OverflowError):
        pass
    special = _special(text.removesuffix("+00"), _MOST_MICROS)
    if special is not None:
        return special
    found = _DATE.match(text)
    rest = _REST.fullmatch(text, found.end()) if found is not None else None
    if found is None or (rest is None and found.end() < len(text)):
        raise ValueError(f"{text!r} is no timestamp")
    before = found.group(4) is not None or (rest is not None and rest.group(10) is not None)
    return _days(found, before) * DAY + (0 if rest is None else _micros(rest))


def _special(text: str, most: int) -> int | None:
    if text in ("infinity", "-infinity"):
        return most if text == "infinity" else -most
    raw = _RAW.fullmatch(text)
    return None if raw is None else int(raw.group(1))


def _days(found: re.Match[str], before: bool) -> int:
    year, month, day = (int(found.group(i)) for i in (1, 2, 3))
    year = 1 - year if before else year
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        raise ValueError(f"{found.group()!r} is no date")
    return days_of(year, month, day)


def _micros(rest: re.Match[str]) -> int:
    hours, minutes, seconds = (int(rest.group(i) or 0) for i in (1, 2, 3))
    fraction = int((rest.group(4) or "0").ljust(6, "0"))
    micros = (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + fraction
    if rest.group(6) is None:
        return micros
    offset = sum(int(rest.group(i) or 0) * n for i, n in ((7, 3600), (8, 60), (9, 1))) * 1_000_000
    return micros - offset if rest.group(6) == "+" else micros + offset


def civil(days: int) -> tuple[int, int, int]:
    """Year (0 is 1 BC), month and day."""
    # 400 years repeat; each one counted from March, so that the leap day is the last.
    era, inside = divmod(days + 719_468, 146_097)
    years = (inside - inside // 1_460 + inside // 36_524 - inside // 146_096) // 365
    rest = inside - (365 * years + years // 4 - years // 100)
    month = (5 * rest + 2) // 153
    day = rest - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return era * 400 + years + (month <= 2), month, day


def days_of(year: int, month: int, day: int) -> int:
    """The days since 1970 of a date."""
    year -= month <= 2
    era, inside = divmod(year, 400)
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + inside * 365 + inside // 4 - inside // 100 + of_year - 719_468
