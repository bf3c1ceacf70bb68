"""The reserve of a TopK as a part: the first rows of its input, more of them than the result shows.

Law: it holds the first m rows of the input, m >= offset + limit, or all there are. The reserve stores
each row of the TopK's input together with the columns the user sees, so that the result is a slice
of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_trickle.delta.segment import Part, Strategy
from spark_trickle.ir.nodes import Node, Order, Project, TopK
from spark_trickle.ir.scalars import ref, substitute
from spark_trickle.ir.types import Column
from spark_trickle.ir.walk import fresh_ids

RESERVE_PART = "__reserve"
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


def reserve_of(result: Part) -> Reserve | None:
    """The reserve of a result that is a TopK."""
    top = top_of(result.plan)
    if top is None:
        return None
    ids = fresh_ids(result.plan)
    inside = [(ids.copy(column), ref(column)) for column in top.columns]
    shown = dict(zip((c.id for c in top.columns), (c for c, _ in inside), strict=True))
    outside = _projected(result.plan, top)
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
