"""A TopK at work: its reserve, sorted in this process.

The reserve stores each row of the TopK's input together with the columns the user sees, so that
the result is a slice of it. It is small by construction, so it is kept in order here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_trickle.delta.reserve import Reserve
from spark_trickle.errors import InvariantError, UserError
from spark_trickle.ir.nodes import Order
from spark_trickle.maintain.apply.locating import row_keys
from spark_trickle.maintain.refresh.topk import RankedRow, advance, window
from spark_trickle.spark.writing.spill import Rows, Spill
from spark_trickle.storage.records import WEIGHT


def check(reserve: Reserve, held: int, shown: int) -> None:
    """InvariantError unless a result of so many rows is a slice of a reserve of so many."""
    expected = min(reserve.limit, max(0, held - reserve.offset))
    if held > reserve.capacity or shown != expected:
        raise InvariantError(
            f"the result has {shown} rows, and {held} are kept of the {reserve.capacity} at most "
            f"that it is the first of",
            hint="the contents are not what the frontier says: run repair_stream_table",
        )


@dataclass(frozen=True)
class MovedReserve:
    """Deltas of reserve and result; ``reserve`` None: it ran dry and must be read again."""

    reserve: pa.Table | None
    result: pa.Table | None
    whole: bool


def move(reserve: Reserve, held: pa.Table, delta: pa.Table, *, whole: bool) -> MovedReserve:
    """Apply a delta of the TopK's input to the reserve's rows."""
    names = [column.name for column in reserve.part.columns]
    rows = pa.concat_tables([held.select(names), delta.select(names)], promote_options="permissive")
    kept: Counter[Any] = Counter(row_keys(held, names))
    changes: Counter[Any] = Counter()
    for key, weight in zip(row_keys(delta, names), delta.column(WEIGHT).to_pylist(), strict=True):
        changes[key] += weight
    entries = [
        RankedRow(place, kept[key], changes[key]) for key, place in sorted_rows(reserve, rows)
    ]
    try:
        outcome = advance(entries, reserve.limit, reserve.offset, whole=whole)
    except ValueError as error:
        raise InvariantError(str(error), hint="run repair_stream_table") from None
    if outcome is None:
        return MovedReserve(None, None, False)
    return MovedReserve(
        weighted(rows, outcome.reserve, names),
        shown(reserve, weighted(rows, outcome.result, names)),
        outcome.whole,
    )


def in_memory(rows: Rows) -> pa.Table:
    """The rows of a reserve, which is kept in order here; UserError if they do not fit."""
    if isinstance(rows, Spill):
        raise UserError(
            f"the {rows.rows} rows that ORDER BY … LIMIT keeps are too large for this process",
            hint="leave long texts and nested values out of the query, or give a smaller LIMIT",
        )
    return rows


def fill(reserve: Reserve, rows: pa.Table) -> MovedReserve:
    """Reserve and result from the first rows of the input; ``rows`` may hold one too many."""
    names = [column.name for column in reserve.part.columns]
    counts = Counter(row_keys(rows, names))
    ordered = [(place, counts[key]) for key, place in sorted_rows(reserve, rows)]
    kept = window(ordered, reserve.capacity, 0)
    result = window(ordered, reserve.limit, reserve.offset)
    whole = rows.num_rows <= reserve.capacity
    return MovedReserve(
        weighted(rows, kept, names), shown(reserve, weighted(rows, result, names)), whole
    )


def weighted(rows: pa.Table, weights: dict[int, int], names: Sequence[str]) -> pa.Table:
    """Some rows, by place, with weights."""
    chosen = rows.select(list(names)).take(pa.array(list(weights), pa.int64()))
    return chosen.append_column(WEIGHT, pa.array(list(weights.values()), pa.int64()))


def shown(reserve: Reserve, rows: pa.Table) -> pa.Table:
    """Only the columns the user sees; named by the caller."""
    return rows.select([*(column.name for column in reserve.outputs), WEIGHT])


def sorted_rows(reserve: Reserve, rows: pa.Table) -> list[tuple[Any, int]]:
    """Each distinct row once, as key and place, in the TopK's order."""
    names = [column.name for column in reserve.part.columns]
    first: dict[Any, int] = {}
    for place, key in enumerate(row_keys(rows, names)):
        first.setdefault(key, place)
    position = {name: i for i, name in enumerate(names)}
    found = list(first.items())
    # Sorts are stable, so the last key goes first.
    for order in reversed(reserve.order):
        found.sort(key=_by(position[order.column.name], order), reverse=order.descending)
    return found


def _by(column: int, order: Order) -> Callable[[tuple[Any, int]], tuple[int, Any]]:
    return lambda item: sort_key(item[0][column], order)


def sort_key(value: Any, order: Order) -> tuple[int, Any]:
    """A key that sorts as Spark does: NULLs where asked, NaN above every number."""
    if value is None:
        return (0 if order.nulls_first != order.descending else 2, 0)
    return (1, _comparable(value))


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    if value == ("NaN",):
        return (1, 0.0)
    if isinstance(value, tuple):
        return tuple((0, 0) if item is None else (1, _comparable(item)) for item in value)
    return value
