"""A TopK at work: its reserve as a part of the stream table, sorted in this process.

The reserve stores each row of the TopK's input together with the columns the user sees, so that
the result is a slice of it. It is small by construction, so it is kept in order here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from spark_trickle.compile import CompiledQuery
from spark_trickle.delta.segment import Part, Strategy
from spark_trickle.errors import InvariantError, UserError
from spark_trickle.ir.nodes import Node, Order, Project, TopK
from spark_trickle.ir.scalars import ref, substitute
from spark_trickle.ir.types import Column
from spark_trickle.ir.walk import fresh_ids
from spark_trickle.maintain.apply.matching import row_keys
from spark_trickle.maintain.refresh.topk import RankedRow, advance, capacity, window
from spark_trickle.spark.spill import Rows, Spill
from spark_trickle.storage.records import WEIGHT

RESERVE_PART = "__reserve"
LARGEST = 10_000
"""A TopK of more rows, OFFSET included, is not kept by a reserve."""


@dataclass(frozen=True)
class Reserve:
    """The part that holds the reserve, and how to read order and result off its rows."""

    part: Part
    order: tuple[Order, ...]
    """Over the columns of the part."""
    outputs: tuple[Column, ...]
    """The columns of the part that the user sees, in order."""
    limit: int
    offset: int

    @property
    def capacity(self) -> int:
        return capacity(self.limit, self.offset)

    def first(self) -> Node:
        """The rows of the reserve, and one more to know whether there are others."""
        return TopK(self.part.plan, self.order, self.capacity + 1)

    def check(self, held: int, shown: int) -> None:
        """InvariantError unless a result of so many rows is a slice of a reserve of so many."""
        expected = min(self.limit, max(0, held - self.offset))
        if held > self.capacity or shown != expected:
            raise InvariantError(
                f"the result has {shown} rows, and {held} are kept of the {self.capacity} at most "
                f"that it is the first of",
                hint="the contents are not what the frontier says: run repair_stream_table",
            )


def reserve_of(compiled: CompiledQuery) -> Reserve | None:
    """The reserve of a query whose result is a TopK."""
    top = compiled.topk
    if top is None:
        return None
    ids = fresh_ids(compiled.result.plan)
    inside = [(ids.copy(column), ref(column)) for column in top.columns]
    shown = dict(zip((c.id for c in top.columns), (c for c, _ in inside), strict=True))
    outside = _projected(compiled.result.plan, top)
    outputs = [(ids.copy(column), expression) for column, expression in outside]
    columns = tuple(c for c, _ in (*inside, *outputs))
    plan = Project(top.input, (*inside, *outputs))
    stored = tuple(replace(c, name=f"c{i}") for i, c in enumerate(columns))
    plan = replace(
        plan, outputs=tuple((s, e) for s, (_, e) in zip(stored, plan.outputs, strict=True))
    )
    order = tuple(replace(o, column=_renamed(shown[o.column.id], stored)) for o in top.order)
    part = Part(RESERVE_PART, plan, stored, (), Strategy.ALGEBRA)
    return Reserve(part, order, stored[len(inside) :], top.limit, top.offset)


def _renamed(column: Column, stored: Sequence[Column]) -> Column:
    return next(s for s in stored if s.id == column.id)


def _projected(plan: Node, top: TopK) -> list[tuple[Column, Any]]:
    """What the projections above the TopK make of its rows."""
    if plan is top:
        return [(column, ref(column)) for column in top.columns]
    assert isinstance(plan, Project)
    below = {column.id: expression for column, expression in _projected(plan.input, top)}
    return [(column, substitute(expression, below)) for column, expression in plan.outputs]


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
