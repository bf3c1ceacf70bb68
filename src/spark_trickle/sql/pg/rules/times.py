"""Dates and times: a difference of dates is a number of days, EXTRACT is numeric."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from spark_trickle.sql.pg import types as t
from spark_trickle.sql.pg.literals import Interval
from spark_trickle.sql.pg.rules.casts import coerced
from spark_trickle.sql.pg.types import numeric, refuse
from spark_trickle.sql.pg.values import PgValue, Rule, binary, call, cast, number, text

_MOMENTS = ("date", "timestamp", "timestamptz")


def is_moment(value: PgValue) -> bool:
    return value.type.kind in _MOMENTS


def added(left: PgValue, right: PgValue, *, minus: bool) -> PgValue | None:
    """``+`` and ``-`` with a date or time on a side; None: neither has one."""
    if isinstance(left.constant, Interval) and not minus:
        left, right = right, left
    if isinstance(right.constant, Interval):
        if not is_moment(left):
            refuse(f"an interval and {left.type}")
        return _moved(left, -right.constant if minus else right.constant)
    if is_moment(right) and not is_moment(left) and not minus:
        left, right = right, left
    if not is_moment(left):
        if is_moment(right):
            refuse(f"{left.type} - {right.type}")
        return None
    if minus and right.type == t.UNKNOWN:
        right = coerced(right, left.type)
    if is_moment(right):
        return _between(left, right, minus)
    if left.type != t.DATE or right.type not in (t.INT2, t.INT4):
        refuse(f"{left.type} {'-' if minus else '+'} {right.type}")
    return PgValue(call("date_sub" if minus else "date_add", left.tree, right.tree), t.DATE)


def _between(left: PgValue, right: PgValue, minus: bool) -> PgValue:
    if not minus:
        refuse(f"{left.type} + {right.type}")
    if left.type == right.type == t.DATE:
        return PgValue(call("datediff", left.tree, right.tree), t.INT4)
    if left.type == t.DATE or right.type == t.DATE or left.type != right.type:
        refuse(f"{left.type} - {right.type}", "CAST both to timestamp")
    return PgValue(binary(exp.Sub, left.tree, right.tree), t.INTERVAL)


def _moved(value: PgValue, by: Interval) -> PgValue:
    """A date becomes a timestamp, whatever the interval."""
    type = t.TIMESTAMP if value.type == t.DATE else value.type
    tree = coerced(value, type).tree
    steps = (
        (by.months, call("make_ym_interval", number(0), number(by.months))),
        (by.days, call("make_dt_interval", number(by.days))),
        (by.micros, _time(by.micros)),
    )
    for amount, step in steps:
        if amount:
            tree = binary(exp.Add, tree, step)
    return PgValue(tree, type)


def _time(micros: int) -> exp.Expr:
    sign = -1 if micros < 0 else 1
    seconds, rest = divmod(abs(micros), 1_000_000)
    part = f"{'-' if sign < 0 else ''}{seconds}.{rest:06}"
    return call(
        "make_dt_interval", number(0), number(0), number(0), cast(text(part), numeric(18, 6))
    )


_FIELDS = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "week": "weekofyear",
    "day": "day",
    "doy": "dayofyear",
}
_CLOCK = {"hour": "hour", "minute": "minute"}


def extract(field: str, value: PgValue) -> PgValue:
    """EXTRACT: numeric; of seconds with six digits after the point."""
    if not is_moment(value):
        refuse(f"extract from {value.type}")
    name = field.lower()
    if name in _FIELDS or (name in _CLOCK and value.type != t.DATE):
        tree = call((_FIELDS | _CLOCK)[name], value.tree)
    elif name == "dow":
        tree = binary(exp.Sub, call("dayofweek", value.tree), number(1))
    elif name == "isodow":
        tree = binary(exp.Add, call("weekday", value.tree), number(1))
    elif name == "second" and value.type != t.DATE:
        second = exp.Extract(this=exp.var("SECOND"), expression=value.tree)
        return PgValue(cast(second, numeric(8, 6)), numeric(8, 6))
    elif name == "epoch":
        return _epoch(value)
    else:
        refuse(f"extract({field} from {value.type})")
    type = numeric(10, 0)
    return PgValue(cast(tree, type), type)


def _epoch(value: PgValue) -> PgValue:
    if value.type == t.DATE:
        days = call("datediff", value.tree, cast(text("1970-01-01"), t.DATE))
        type = numeric(20, 0)
        return PgValue(cast(binary(exp.Mul, cast(days, t.INT8), number(86400)), type), type)
    if value.type == t.TIMESTAMP:
        refuse("extract(epoch from timestamp)", "CAST it to timestamptz")
    type = numeric(26, 6)
    micros = cast(call("unix_micros", value.tree), numeric(20, 0))
    return PgValue(cast(binary(exp.Mul, micros, cast(text("0.000001"), numeric(6, 6))), type), type)


def _date_part(arguments: Sequence[PgValue]) -> PgValue:
    field, value = arguments
    if not isinstance(field.constant, str):
        refuse("date_part with a field that is not a constant")
    return coerced(extract(field.constant, value), t.FLOAT8)


_DAYS = {"year": "YEAR", "quarter": "QUARTER", "month": "MONTH", "week": "WEEK", "day": None}
_PARTS = ("hour", "minute", "second")


def _date_trunc(arguments: Sequence[PgValue]) -> PgValue:
    unit, value = arguments
    name = str(unit.constant or "").lower()
    if not is_moment(value) or name not in (*_DAYS, *_PARTS):
        refuse(f"date_trunc({name!r}, {value.type})")
    if value.type != t.TIMESTAMP:
        moment = coerced(value, t.TIMESTAMPTZ)
        return PgValue(call("date_trunc", text(name), moment.tree), t.TIMESTAMPTZ)
    if name in _DAYS:
        day = cast(value.tree, t.DATE)
        first = day if _DAYS[name] is None else call("trunc", day, text(str(_DAYS[name])))
        return PgValue(cast(first, t.TIMESTAMP), t.TIMESTAMP)
    return PgValue(binary(exp.Sub, value.tree, _rest_of(name, value.tree)), t.TIMESTAMP)


def _rest_of(unit: str, tree: exp.Expr) -> exp.Expr:
    """What is beyond the unit, as an interval: times without a zone are not to pass through one."""
    second = cast(exp.Extract(this=exp.var("SECOND"), expression=tree.copy()), numeric(18, 6))
    minute = call("minute", tree.copy()) if unit == "hour" else number(0)
    if unit == "second":
        second = cast(binary(exp.Mod, second, cast(number(1), numeric(1, 0))), numeric(18, 6))
    return call("make_dt_interval", number(0), number(0), minute, second)


_TOKENS = {"YYYY": "yyyy", "MM": "MM", "DD": "dd", "HH24": "HH", "MI": "mm", "SS": "ss"}
_TOKEN = re.compile(r"YYYY|MM|DD|HH24|MI|SS|[-/:., ]")


def _to_char(arguments: Sequence[PgValue]) -> PgValue:
    value, form = arguments
    if not is_moment(value) or not isinstance(form.constant, str):
        refuse(f"to_char of {value.type}", "only of dates and times, with a constant format")
    spelled, place = "", 0
    while place < len(form.constant):
        found = _TOKEN.match(form.constant, place)
        if found is None:
            refuse(f"to_char with {form.constant[place:]!r}", f"known: {', '.join(_TOKENS)}")
        spelled += _TOKENS.get(found[0], found[0])
        place = found.end()
    return PgValue(call("date_format", value.tree, text(spelled)), t.TEXT)


def _make_date(arguments: Sequence[PgValue]) -> PgValue:
    if any(a.type not in (t.INT2, t.INT4) for a in arguments):
        refuse("make_date of other than integers")
    year = arguments[0].constant
    if not isinstance(year, int) or year < 1:
        refuse("make_date unless the year is a constant after 0")
    return PgValue(call("make_date", *(a.tree for a in arguments)), t.DATE)


def _now(_: Sequence[PgValue]) -> PgValue:
    return PgValue(call("current_timestamp"), t.TIMESTAMPTZ)


RULES: dict[str, tuple[int, int, Rule]] = {
    "date_part": (2, 2, _date_part),
    "date_trunc": (2, 2, _date_trunc),
    "to_char": (2, 2, _to_char),
    "make_date": (3, 3, _make_date),
    "now": (0, 0, _now),
    "transaction_timestamp": (0, 0, _now),
}
