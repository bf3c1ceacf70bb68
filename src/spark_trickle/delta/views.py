"""Parts made row by row of what one segment stores: their delta comes beside the segment's.

Law: D(f(s)) = f(D(s)) where f projects and filters. So the query that gives the rows of D(s) can
give those of D(f(s)) with them: what f makes of each row, and whether f keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from spark_trickle.delta.segment import Part, core
from spark_trickle.ir.nodes import Filter, Node, Project, Scan
from spark_trickle.ir.scalars import ref, substitute
from spark_trickle.ir.trees import duplicate
from spark_trickle.ir.walk import fresh_ids

KEPT = "__trickle_kept"
"""Whether the view has the row."""
_BOOLEAN = exp.DataType.build("boolean")


def viewed(part: Part) -> str | None:
    """The segment that a part is made of row by row, with at most one filter."""
    bottom = core(part.plan)
    return bottom.source if isinstance(bottom, Scan) and _filters(part.plan) < 2 else None


def beside_names(view: Part) -> list[str]:
    """What the columns of a view are called beside those of its segment."""
    return [f"__trickle_beside_{number}" for number in range(len(view.columns))]


def with_view(delta: Node, segment: Part, view: Part, *, as_stored: bool) -> Node:
    """The delta of a segment, then beside each row what the view makes of it, then ``KEPT``.

    ``as_stored``: the view sees the rows as the segment stores them, where -0.0 is 0.0: a text tells
    one from the other, and later the view is made of what is stored.
    """
    ids = fresh_ids(delta, view.plan)
    own: dict[str, exp.Expression] = {
        s.name: ref(c) for s, c in zip(segment.columns, delta.columns, strict=True)
    }
    if as_stored:
        own = {s.name: _stored(own[s.name], s.type) for s in segment.columns}
    values, test = _over(view.plan, own)
    if test is not None:
        # What the filter drops may be what the columns cannot be computed of: x / 0.
        values = {id: _when(test, value) for id, value in values.items()}
    made = [
        (ids.column(name, column.type), values[column.id])
        for name, column in zip(beside_names(view), view.plan.columns, strict=True)
    ]
    kept = exp.true() if test is None else exp.Coalesce(this=test, expressions=[exp.false()])
    shown = [(column, ref(column)) for column in delta.columns]
    return Project(delta, (*shown, *made, (ids.column(KEPT, _BOOLEAN), kept)))


def _filters(plan: Node) -> int:
    if not isinstance(plan, Project | Filter):
        return 0
    return isinstance(plan, Filter) + _filters(plan.input)


def _over(
    plan: Node, own: Mapping[str, exp.Expression]
) -> tuple[dict[int, exp.Expression], exp.Expression | None]:
    """The columns of a view and the test of its filter, over the columns of the segment."""
    if isinstance(plan, Scan):
        return {column.id: own[column.name] for column in plan.columns}, None
    assert isinstance(plan, Project | Filter)
    values, test = _over(plan.input, own)
    if isinstance(plan, Filter):
        return values, substitute(plan.predicate, values)
    return {column.id: substitute(e, values) for column, e in plan.outputs}, test


def _stored(value: exp.Expression, type: exp.DataType) -> exp.Expression:
    """-0.0 + 0.0 is 0.0; every other number stays as it is."""
    if type.this not in (exp.DataType.Type.FLOAT, exp.DataType.Type.DOUBLE):
        return value
    return exp.Add(this=value, expression=exp.cast(exp.Literal.number(0), duplicate(type)))


def _when(test: exp.Expression, value: exp.Expression) -> exp.Expression:
    return exp.Case(ifs=[exp.If(this=duplicate(test), true=value)])
