"""Schedules as users write them: a duration, a cron line, CALCULATED from the readers, or by hand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from spark_trickle.errors import UserError

_DURATION = re.compile(r"(?:\d+\s*(?:ms|s|m|h|d|w)\s*)+", re.IGNORECASE)
_UNIT = re.compile(r"(\d+)\s*(ms|s|m|h|d|w)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
    "@minutely": "* * * * *",
}
_HINT = (
    "write a duration such as '30s' or '1h 30m', a cron line such as '*/5 * * * *' or '@hourly', if "
    "need be with a time zone ('0 6 * * * Europe/Berlin'), CALCULATED, or UNSET for by hand"
)
CALCULATED, UNSET = "CALCULATED", "UNSET"
LONGEST = 366 * 86400.0


@dataclass(frozen=True)
class Every:
    """At most so many seconds between two refreshes, and never more often."""

    seconds: float


@dataclass(frozen=True)
class Cron:
    """At the ticks of a cron line of 5 fields, or of 6 with seconds first."""

    line: str
    zone: str = "UTC"

    def after(self, moment: float) -> float:
        """The first tick after a moment; infinity if there is none for decades."""
        return _tick(self, moment)

    def gap(self, moment: float) -> float:
        """The time between the next two ticks."""
        first = self.after(moment)
        return self.after(first) - first


@dataclass(frozen=True)
class Calculated:
    """As often as those that read it need it."""


@dataclass(frozen=True)
class ByHand:
    """Never by the scheduler, not even for those that read it."""


Schedule = Every | Cron | Calculated | ByHand


def checked(schedule: str | None) -> str | None:
    """The schedule as it is stored; UserError if it is none."""
    if schedule is None:
        return None
    text = schedule.strip()
    if text.upper() in (CALCULATED, UNSET, "NULL"):
        return CALCULATED if text.upper() == CALCULATED else UNSET
    parsed(text)
    return text


@lru_cache(maxsize=4096)
def parsed(schedule: str | None) -> Schedule:
    """What a schedule means. Without one, a stream table is refreshed for those that read it."""
    text = (CALCULATED if schedule is None else schedule).strip()
    if text.upper() == CALCULATED:
        return Calculated()
    if text.upper() == UNSET:
        return ByHand()
    if _DURATION.fullmatch(text):
        length = seconds(text)
        if not 0 < length <= LONGEST:
            raise UserError(
                f"the schedule {schedule!r} has no length"
                if not length
                else f"the schedule {schedule!r} is longer than a year",
                hint=_HINT,
            )
        return Every(length)
    return _cron(text)


def seconds(duration: str) -> float:
    """The length of a duration."""
    return sum(int(n) * _SECONDS[unit.lower()] for n, unit in _UNIT.findall(duration))


def _cron(text: str) -> Cron:
    words = text.split()
    zone = "UTC"
    prefix, _, given = words[0].partition("=") if words else ("", "", "")
    if prefix.upper() in ("CRON_TZ", "TZ"):
        zone, words = _zone(given, text), words[1:]
    elif len(words) > 1 and _is_zone(words[-1]):
        zone, words = words[-1], words[:-1]
    line = " ".join(words)
    line = _NAMED.get(line.lower(), line)
    if len(line.split()) not in (5, 6):
        raise UserError(f"{text!r} is not a schedule", hint=_HINT)
    try:
        cron = Cron(line, zone)
        if cron.after(0.0) == float("inf"):
            raise UserError(f"the cron line {text!r} never comes true", hint=_HINT)
    except CronSimError as error:
        reason = str(error)[:1].lower() + str(error)[1:]
        raise UserError(f"{text!r} is not a schedule: {reason}", hint=_HINT) from None
    return cron


def _is_zone(word: str) -> bool:
    try:
        return word.upper() == "UTC" or bool(ZoneInfo(word))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


def _zone(word: str, text: str) -> str:
    if not _is_zone(word):
        raise UserError(f"{word!r} in the schedule {text!r} is not a time zone", hint=_HINT)
    return word


@lru_cache(maxsize=65536)
def _tick(cron: Cron, moment: float) -> float:
    zone = UTC if cron.zone.upper() == "UTC" else ZoneInfo(cron.zone)
    begin = datetime.fromtimestamp(moment, zone)
    found = next(CronSim(cron.line, begin), None)
    return found.timestamp() if found is not None else float("inf")
