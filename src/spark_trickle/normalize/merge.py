"""Neighbouring projections and filters become one; projections that do nothing go away."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sqlglot import exp

from spark_trickle.ir.nodes import (
    Aggregate,
    AntiJoin,
    Filter,
    Join,
    Node,
    OuterJoin,
    Project,
    SemiJoin,
)
from spark_trickle.ir.scalars import column_id, conjunction, conjuncts, substitute
from spark_trickle.ir.types import Column
from spark_trickle.ir.walk import transform_up


def merge(plan: Node) -> Node:
    """The plan with chains of projections and of filters merged."""
    return transform_up(plan, _rule)


def _rule(node: Node) -> Node:
    match node:
        case Filter(input=Filter() as inner):
            both = [*conjuncts(inner.predicate), *conjuncts(node.predicate)]
            return Filter(inner.input, conjunction(both))
        case Project():
            return _project(node)
        case Join():
            return replace(node, inputs=tuple(map(_without_passing, node.inputs)))
        case Aggregate():
            return replace(node, input=_without_passing(node.input))
        case SemiJoin() | AntiJoin():
            return replace(node, right=_without_passing(node.right))
        case OuterJoin():
            return _widened(node)
        case _:
            return node


def _widened(node: OuterJoin) -> Node:
    """An inner join below may show more columns now; an outer join writes its columns down."""
    known = {column.id: column for column in node.columns}
    offered = node.left.columns + node.right.columns
    # A column that was hidden so far is read by nobody above, so it may well be nullable.
    columns = tuple(known.get(c.id) or replace(c, nullable=True) for c in offered)
    return node if columns == node.columns else replace(node, columns=columns)


def _project(node: Project) -> Node:
    if [c.id for c in node.columns] == [c.id for c in node.input.columns] and passes(node):
        return node.input
    inner = node.input
    if not isinstance(inner, Project):
        return node
    if passes(inner):
        return Project(inner.input, node.outputs)
    if not _may_inline(node, inner):
        return node
    values = {column.id: value for column, value in inner.outputs}
    outputs = tuple((column, _output(value, values)) for column, value in node.outputs)
    return _project(Project(inner.input, outputs))


def _output(value: exp.Expression, values: dict[int, exp.Expression]) -> exp.Expression:
    result = substitute(value, values)
    result.type = value.type
    return result


def _may_inline(node: Project, inner: Project) -> bool:
    """A computed column that is used twice is computed once, below."""
    uses = Counter(
        column_id(column) for _, value in node.outputs for column in value.find_all(exp.Column)
    )
    return all(uses[column.id] <= 1 or _is_cheap(value) for column, value in inner.outputs)


def _is_cheap(value: exp.Expression) -> bool:
    return isinstance(value, exp.Column | exp.Literal | exp.Boolean | exp.Null)


def passes(node: Project) -> bool:
    """Whether a projection only leaves columns out or reorders them."""
    return all(_same_column(column, value) for column, value in node.outputs)


def _same_column(column: Column, value: exp.Expression) -> bool:
    return isinstance(value, exp.Column) and column_id(value) == column.id


def _without_passing(node: Node) -> Node:
    """Where columns are read by id, a projection that only leaves some out is not needed.

    What it hides may not be computed again above, so ids stay unique.
    """
    return node.input if isinstance(node, Project) and passes(node) else node
