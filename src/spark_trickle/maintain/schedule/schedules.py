"""Schedules as users write them: a duration, a cron line, or CALCULATED from the dependents."""

from __future__ import annotations

import re

from spark_trickle.errors import UserError

_DURATION = re.compile(r"(?:\d+\s*(?:ms|s|m|h|d|w)\s*)+", re.IGNORECASE)
_UNIT = re.compile(r"(\d+)\s*(ms|s|m|h|d|w)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
_HINT = (
    "write a duration such as '30s' or '1h 30m', a cron line such as '*/5 * * * *', or CALCULATED"
)


def checked(schedule: str | None) -> str | None:
    """The schedule itself; UserError if it is none."""
    if schedule is None or schedule.upper() == "CALCULATED":
        return None if schedule is None else "CALCULATED"
    text = schedule.strip()
    if _DURATION.fullmatch(text):
        if seconds(text) <= 0:
            raise UserError(f"the schedule {schedule!r} has no length", hint=_HINT)
        return text
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise UserError(f"{schedule!r} is not a schedule", hint=_HINT)
    for part, (name, low, high) in zip(parts, _FIELDS, strict=True):
        for item in part.split(","):
            if not _cron_item(item, low, high):
                raise UserError(
                    f"{item!r} is not a {name} of a cron line, which goes from {low} to {high}",
                    hint=_HINT,
                )
    return text


def seconds(duration: str) -> float:
    """The length of a duration."""
    return sum(int(n) * _SECONDS[unit.lower()] for n, unit in _UNIT.findall(duration))


def _cron_item(item: str, low: int, high: int) -> bool:
    span, _, step = item.partition("/")
    if step and not (step.isdigit() and int(step) > 0) or item.endswith("/"):
        return False
    if span == "*":
        return True
    first, _, last = span.partition("-")
    ends = [first, last] if "-" in span else [first]
    return all(end.isdigit() and low <= int(end) <= high for end in ends)
