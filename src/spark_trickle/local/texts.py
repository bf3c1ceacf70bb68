"""Functions of texts and dates, as Spark has them: code points, and the calendar that never changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spark_trickle.ir.exact import Op

_ERA = 146_097
"""Days of 400 years, after which the calendar repeats itself."""
_SHIFT = 719_468
"""Days from the first of March of the year 0 to 1970."""


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a date; of any year, unlike Python's dates.

    Years begin in March here, so that the day which some years lack is their last.
    """
    era, day = divmod(days + _SHIFT, _ERA)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    late = month >= 10
    return era * 400 + year + late, month - 9 if late else month + 3, day + 1


def _substring(text: str, start: int, length: int | None = None) -> str:
    return text[start - 1 :] if length is None else text[start - 1 : start - 1 + length]


def _concat(*texts: str) -> str:
    return "".join(texts)


FUNCTIONS: dict[Op, Callable[..., Any]] = {
    Op.STARTS: str.startswith,
    Op.ENDS: str.endswith,
    Op.CONTAINS: lambda text, other: other in text,
    Op.CONCAT: _concat,
    Op.LENGTH: len,
    Op.SUBSTRING: _substring,
    Op.YEAR: lambda days: civil(days)[0],
    Op.QUARTER: lambda days: (civil(days)[1] + 2) // 3,
    Op.MONTH: lambda days: civil(days)[1],
    Op.DAY: lambda days: civil(days)[2],
}
