"""What common expressions of the clock are at a clock, without Spark: in UTC, where days are alike.

A refresh that finds nothing to do need not start Spark for this. What has no rule here is Spark's.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum

from sqlglot import exp

from spark_trickle.ir.aggregates import arguments, function_name
from spark_trickle.ir.temporal import TimeEdge, is_clock
from spark_trickle.maintain.timed.clocks import ClockValue
from spark_trickle.spark.sessions.facts import Meaning
from spark_trickle.storage.files.calendar import DAY

_EPOCH = date(1970, 1, 1).toordinal()
_SECOND = 1_000_000
_MICROS = {
    "WEEK": 7 * DAY,
    "DAY": DAY,
    "HOUR": 3600 * _SECOND,
    "MINUTE": 60 * _SECOND,
    "SECOND": _SECOND,
}
_MONTHS = {"YEAR": 12, "MONTH": 1}
_T = exp.DataType.Type


class NotHere(Exception):
    """Spark must say."""


class TimeKind(Enum):
    """What a value is: a day, or microseconds; in UTC moments and wall times are the same number."""

    DATE = "date"
    TIME = "time"


KnownTime = tuple[TimeKind, int]


def by_rule(
    meaning: Meaning | None,
) -> Callable[[Sequence[tuple[TimeEdge, int]]], list[ClockValue | None]]:
    """Answers by the rules below; NotHere if one has none, or under another zone than UTC."""

    def ask(asked: Sequence[tuple[TimeEdge, int]]) -> list[ClockValue | None]:
        settings = {} if meaning is None else meaning.settings
        zone = settings.get("spark.sql.session.timeZone")
        if zone not in ("UTC", "Etc/UTC", "GMT", "Z", "+00:00"):
            raise NotHere
        if settings.get("spark.sql.timestampType", "TIMESTAMP_LTZ") != "TIMESTAMP_LTZ":
            raise NotHere
        return [_placed(edge, _Evaluation(clock).value(edge.value)) for edge, clock in asked]

    return ask


def _placed(edge: TimeEdge, known: KnownTime) -> ClockValue:
    if edge.type.this is not _T.DATE:
        return ClockValue(_micros(known), exact=True)
    floor, rest = divmod(_micros(known), DAY)
    return ClockValue(floor, exact=rest == 0)


def _micros(known: KnownTime) -> int:
    kind, number = known
    return number * DAY if kind is TimeKind.DATE else number


def _day(known: KnownTime) -> int:
    kind, number = known
    return number if kind is TimeKind.DATE else number // DAY


@dataclass(frozen=True)
class _Evaluation:
    clock: int

    def value(self, node: exp.Expression) -> KnownTime:
        """The value of an expression; NotHere if no rule fits."""
        if is_clock(node):
            of_day = isinstance(node, exp.CurrentDate) or function_name(node) in (
                "current_date",
                "curdate",
            )
            return (TimeKind.DATE, self.clock // DAY) if of_day else (TimeKind.TIME, self.clock)
        if isinstance(node, exp.Paren):
            return self.value(node.this)
        if type(node) in (exp.Add, exp.Sub):
            sign = 1 if isinstance(node, exp.Add) else -1
            return self._moved(self.value(node.this), node.expression, sign)
        if type(node) is exp.Cast and not node.args.get("format"):
            return self._cast(self.value(node.this), node.to.this)
        if isinstance(node, exp.Anonymous):
            return self._call(function_name(node) or "", arguments(node))
        raise NotHere

    def _cast(self, known: KnownTime, to: object) -> KnownTime:
        if to is _T.DATE:
            return TimeKind.DATE, _day(known)
        if to in (_T.TIMESTAMP, _T.TIMESTAMPTZ, _T.TIMESTAMPLTZ, _T.TIMESTAMPNTZ):
            return TimeKind.TIME, _micros(known)
        raise NotHere

    def _call(self, name: str, given: list[exp.Expression]) -> KnownTime:
        if name in ("to_date", "date") and len(given) == 1:
            return TimeKind.DATE, _day(self.value(given[0]))
        if len(given) != 2:
            raise NotHere
        if name in ("date_add", "date_sub"):
            sign = 1 if name == "date_add" else -1
            return TimeKind.DATE, _day(self.value(given[0])) + sign * _number(given[1])
        if name == "add_months":
            return TimeKind.DATE, _plus_months(_day(self.value(given[0])), _number(given[1]))
        if name == "date_trunc":
            return TimeKind.TIME, _truncated(_micros(self.value(given[1])), _unit(given[0]))
        raise NotHere

    def _moved(self, known: KnownTime, by: exp.Expr, sign: int) -> KnownTime:
        kind, number = known
        if isinstance(by, exp.Literal) and kind is TimeKind.DATE:
            return kind, number + sign * _number(by)
        if not isinstance(by, exp.Interval) or not isinstance(by.args.get("unit"), exp.Var):
            raise NotHere
        count = sign * _number(by.this)
        unit = by.args["unit"].name.upper().removesuffix("S")
        if unit in _MONTHS:
            day, rest = (number, 0) if kind is TimeKind.DATE else divmod(number, DAY)
            day = _plus_months(day, count * _MONTHS[unit])
            return kind, (day if kind is TimeKind.DATE else day * DAY + rest)
        if kind is TimeKind.TIME and unit in _MICROS:
            return kind, number + count * _MICROS[unit]
        if kind is TimeKind.DATE and unit == "DAY":
            return kind, number + count
        raise NotHere


def _number(node: object) -> int:
    if isinstance(node, exp.Literal) and node.name.isdecimal() and len(node.name) < 6:
        return int(node.name)
    raise NotHere


def _unit(node: exp.Expression) -> str:
    if isinstance(node, exp.Literal) and node.is_string:
        return node.name.lower()
    raise NotHere


def _plus_months(day: int, months: int) -> int:
    """The same day of the month, or its last one."""
    try:
        start = date.fromordinal(day + _EPOCH)
        year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
        last = monthrange(year, month + 1)[1]
        return date(year, month + 1, min(start.day, last)).toordinal() - _EPOCH
    except (ValueError, OverflowError):
        raise NotHere from None


def _truncated(micros: int, unit: str) -> int:
    if unit.upper() in ("DAY", "HOUR", "MINUTE", "SECOND"):
        return micros - micros % _MICROS[unit.upper()]
    day = micros // DAY
    if unit == "week":
        return (day - (day + 3) % 7) * DAY  # 1970 began on a Thursday; weeks begin on Mondays
    try:
        found = date.fromordinal(day + _EPOCH)
    except (ValueError, OverflowError):
        raise NotHere from None
    months = {"month": found.month, "quarter": (found.month - 1) // 3 * 3 + 1, "year": 1}
    if unit not in months:
        raise NotHere
    return (date(found.year, months[unit], 1).toordinal() - _EPOCH) * DAY
