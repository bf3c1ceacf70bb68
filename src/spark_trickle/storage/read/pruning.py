"""Which files can hold rows that meet conditions: judged by the catalog's min/max alone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_trickle.storage.files.values import plain, plain_value
from spark_trickle.storage.records import Bounds, Condition, DataFile, Files, Table


@dataclass(frozen=True)
class SortedValues:
    """Wanted values, sorted once so that each file costs two comparisons."""

    ordered: tuple[Any, ...]
    null: bool
    nan: bool

    @classmethod
    def of(cls, values: Iterable[Any]) -> SortedValues:
        arrow = isinstance(values, pa.Array | pa.ChunkedArray)
        found = plain(values) if arrow else [plain_value(value) for value in values]
        known = {v for v in found if v is not None and v == v}
        return cls(tuple(sorted(known)), None in found, any(v != v for v in found))


WantedValues = Mapping[int, tuple[Any, Any] | SortedValues]


def by_column(table: Table, conditions: Mapping[str, Condition]) -> WantedValues:
    """Conditions on columns of the table, by column id; of nested values no bounds are known."""
    wanted: dict[int, tuple[Any, Any] | SortedValues] = {}
    for name, condition in conditions.items():
        column = table.column(name)
        if column is not None and not column.children:
            if isinstance(condition, tuple):
                wanted[column.id] = (plain_value(condition[0]), plain_value(condition[1]))
            else:
                wanted[column.id] = SortedValues.of(condition)
    return wanted


def kept(
    files: Files | tuple[DataFile, ...], sets: Sequence[WantedValues]
) -> Files | tuple[DataFile, ...]:
    """The files that may hold a row that meets all conditions of one of the sets."""
    if isinstance(files, Files):
        return files.kept(sets)
    return tuple(file for file in files if any(keeps(file, wanted) for wanted in sets))


def keeps(file: DataFile, wanted: WantedValues) -> bool:
    """Whether ``file`` may hold a row that meets all conditions, given by column id."""
    found = {column: file.bounds.get(column) for column in wanted if column not in file.missing}
    return may_meet({column: bounds for column, bounds in found.items() if bounds}, wanted)


def may_meet(known: Mapping[int, Bounds], wanted: WantedValues) -> bool:
    """Whether rows with these bounds, by column id, may meet all conditions.

    Law: rows are left out only if certainly none of them does; what is not known keeps them.
    """
    for column, condition in wanted.items():
        bounds = known.get(column)
        if bounds is None:
            continue
        if isinstance(condition, SortedValues):
            possible = _may_hold(bounds, condition)
        else:
            possible = _overlaps(bounds, *condition)
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


def _may_hold(bounds: Bounds, wanted: SortedValues) -> bool:
    if wanted.null and bounds.nulls != 0:
        return True
    if bounds.values == 0:
        return False
    if wanted.nan and bounds.nan is not False:
        return True
    first = 0 if bounds.low is None else bisect_left(wanted.ordered, bounds.low)
    if first == len(wanted.ordered):
        return False
    return bounds.high is None or not wanted.ordered[first] > bounds.high


def _is_float(*values: Any) -> bool:
    return any(isinstance(v, float) for v in values)
