"""Which files can hold rows that meet conditions: judged by the catalog's min/max alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_trickle.storage.records import Bounds, DataFile


def keeps(file: DataFile, wanted: Mapping[int, tuple[Any, Any] | list[Any]]) -> bool:
    """Whether ``file`` may hold a row that meets all conditions, given by column id.

    Law: a file is left out only if it certainly holds no such row; what is not known keeps it.
    """
    for column, condition in wanted.items():
        bounds = file.bounds.get(column)
        if bounds is None or column in file.missing:
            continue
        if isinstance(condition, tuple):
            possible = _overlaps(bounds, *condition)
        else:
            possible = any(_may_hold(bounds, value) for value in condition)
        if not possible:
            return False
    return True


def _overlaps(bounds: Bounds, low: Any, high: Any) -> bool:
    if bounds.values == 0:
        return False
    nan = bounds.nan is not False and _is_float(bounds.low, low, high)
    high_end = None if nan else bounds.high  # Spark orders NaN above every number
    if low is not None and high_end is not None and high_end < low:
        return False
    return not (high is not None and bounds.low is not None and bounds.low > high)


def _may_hold(bounds: Bounds, value: Any) -> bool:
    if value is None:
        return bounds.nulls != 0
    if isinstance(value, float) and value != value:
        return bounds.nan is not False and bounds.values != 0
    if bounds.values == 0:
        return False
    return not (
        (bounds.low is not None and value < bounds.low)
        or (bounds.high is not None and value > bounds.high)
    )


def _is_float(*values: Any) -> bool:
    return any(isinstance(v, float) for v in values)
