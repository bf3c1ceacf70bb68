"""The reserve of a TopK as a part: the first rows of its input, more of them than the result shows.

Law: it holds the first m rows of the input, m >= offset + limit, or all there are. The reserve stores
each row of the TopK's input together with the columns the user sees, so that the result is a slice
of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from spark_trickle.delta.segment import RESULT, Part, Strategy
from spark_trickle.ir.nodes import Node, Order, Project, Scan, TopK
from spark_trickle.ir.scalars import column_id, ref, substitute
from spark_trickle.ir.types import Column
from spark_trickle.ir.walk import fresh_ids

RESERVE_PART = "__reserve"
TOGETHER = (RESERVE_PART, RESULT)
"""A reserve and the slice of it that is shown move in one step."""
LARGEST = 10_000
"""A TopK of more rows, OFFSET included, is not kept by a reserve."""
RESERVE = 100
"""Rows kept behind the result at least."""


def capacity(limit: int, offset: int) -> int:
    """How many rows the reserve holds at most."""
    return offset + limit + max(RESERVE, limit)


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


def top_of(plan: Node) -> TopK | None:
    """ORDER BY with LIMIT at the top of a plan."""
    while isinstance(plan, Project):
        plan = plan.input
    return plan if isinstance(plan, TopK) and not plan.partition_by else None


def with_reserve(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Parts whose result is a TopK, with the reserve before it, which the result is a slice of."""
    *segments, result = parts
    top = top_of(result.plan)
    if top is None:
        return parts
    ids = fresh_ids(result.plan)
    inside = [(column, ref(column)) for column in top.columns]
    outputs = [(ids.copy(c), e) for c, e in (*inside, *_projected(result.plan, top))]
    stored = tuple(replace(c, name=f"c{i}") for i, (c, _) in enumerate(outputs))
    plan = Project(top.input, tuple((s, e) for s, (_, e) in zip(stored, outputs, strict=True)))
    reserve = Part(RESERVE_PART, plan, stored, (), Strategy.ALGEBRA)
    scanned = tuple(ids.copy(column) for column in stored)
    places = {column.id: place for place, column in enumerate(top.columns)}
    order = tuple(replace(each, column=scanned[places[each.column.id]]) for each in top.order)
    shown = zip(result.plan.columns, scanned[len(inside) :], strict=True)
    slice = TopK(Scan(RESERVE_PART, scanned), order, top.limit, top.offset)
    sliced = Project(slice, tuple((column, ref(kept)) for column, kept in shown))
    return (*segments, reserve, replace(result, plan=sliced))


def reserve_of(parts: Sequence[Part]) -> Reserve | None:
    """The reserve among parts, if there is one."""
    top = top_of(parts[-1].plan) if parts else None
    if top is None:
        return None
    part, result = parts[-2], parts[-1].plan
    assert isinstance(result, Project)
    stored = dict(zip((column.id for column in top.columns), part.columns, strict=True))
    order = tuple(replace(each, column=stored[each.column.id]) for each in top.order)
    outputs = tuple(stored[column_id(e)] for _, e in result.outputs if isinstance(e, exp.Column))
    return Reserve(part, order, outputs, top.limit, top.offset)


def _projected(plan: Node, top: TopK) -> list[tuple[Column, Any]]:
    """What the projections above the TopK make of its rows."""
    if plan is top:
        return [(column, ref(column)) for column in top.columns]
    assert isinstance(plan, Project)
    below = {column.id: expression for column, expression in _projected(plan.input, top)}
    return [(column, substitute(expression, below)) for column, expression in plan.outputs]
