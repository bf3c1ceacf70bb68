"""Predicates move towards the scans, where they cut files and rows.

Law: a filter commutes with an operator if the operator lets rows through one by one as far as the
filter's columns are concerned: through projections by substitution, through grouping, windows,
DISTINCT and TopK on their keys, through joins into the side that has the columns, but never into
the side that an outer join pads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from sqlglot import exp

from spark_trickle.ir.nodes import (
    Aggregate,
    AntiJoin,
    Distinct,
    Expand,
    Filter,
    Generate,
    Join,
    Negate,
    Node,
    OuterJoin,
    OuterKind,
    Project,
    Scan,
    SemiJoin,
    TopK,
    UnionAll,
    Values,
    Window,
)
from spark_trickle.ir.scalars import column_ids, conjunction, conjuncts, ref, substitute
from spark_trickle.ir.types import Schema
from spark_trickle.ir.walk import children, transform_up, with_children

Parts = list[exp.Expression]


def push_filters(plan: Node) -> Node:
    """The plan with every predicate as deep as it may go."""
    return transform_up(plan, _rule)


def _rule(node: Node) -> Node:
    match node:
        case Filter():
            return push(node.input, conjuncts(node.predicate))
        case Join():
            return _join(node, [])
        case OuterJoin() if node.kind is OuterKind.LEFT:
            return _own_conditions(node, right_only=True)
        case SemiJoin():
            return _own_conditions(node, right_only=False)
        case AntiJoin():
            return _own_conditions(node, right_only=True)
        case _:
            return node


def push(node: Node, parts: Parts) -> Node:  # noqa: C901  one case per operator
    """The node restricted by the parts, each as deep as it may go."""
    if not parts:
        return node
    match node:
        case Filter():
            return push(node.input, [*conjuncts(node.predicate), *parts])
        case Project():
            return _project(node, parts)
        case Join():
            return _join(node, parts)
        case OuterJoin():
            return _outer(node, parts)
        case SemiJoin() | AntiJoin():
            return replace(node, left=push(node.left, parts))
        case Aggregate():
            return _keyed(node, parts, node.keys)
        case Window():
            return _keyed(node, parts, node.partition_by)
        case TopK():
            return _keyed(node, parts, node.partition_by)
        case Distinct():
            return replace(node, input=push(node.input, parts))
        case Generate():
            return _keyed(node, parts, node.input.columns)
        case Expand():
            return _keyed(node, parts, _unchanged(node))
        case UnionAll():
            return _union(node, parts)
        case Scan() | Values() | Negate():
            return Filter(node, conjunction(parts))
        case _:
            assert_never(node)


def _restricted(node: Node, parts: Parts) -> Node:
    return Filter(node, conjunction(parts)) if parts else node


def _split(parts: Parts, columns: Schema) -> tuple[Parts, Parts]:
    """Parts that read only these columns, and at least one; and the others."""
    ids = {column.id for column in columns}
    inside = [part for part in parts if column_ids(part) and column_ids(part) <= ids]
    return inside, [part for part in parts if part not in inside]


def _project(node: Project, parts: Parts) -> Node:
    values = {column.id: value for column, value in node.outputs}
    below = [substitute(part, values) for part in parts]
    return Project(push(node.input, below), node.outputs)


def _keyed(node: Node, parts: Parts, keys: Schema) -> Node:
    inside, above = _split(parts, keys)
    if inside:
        (input,) = children(node)
        node = with_children(node, (push(input, inside),))
    return _restricted(node, above)


def _unchanged(node: Expand) -> Schema:
    return tuple(c for c in node.columns if c in node.input.columns)


def _join(node: Join, parts: Parts) -> Node:
    rest = [*node.conditions, *parts]
    inputs: list[Node] = []
    for child in node.inputs:
        inside, rest = _split(rest, child.columns)
        inputs.append(push(child, inside))
    return Join(tuple(inputs), tuple(dict.fromkeys(rest)))


def _outer(node: OuterJoin, parts: Parts) -> Node:
    if node.kind is not OuterKind.LEFT:
        return _restricted(node, parts)
    inside, above = _split(parts, node.left.columns)
    return _restricted(replace(node, left=push(node.left, inside)), above)


def _own_conditions(node: OuterJoin | SemiJoin | AntiJoin, *, right_only: bool) -> Node:
    """A condition about one side alone restricts that side, where that keeps the meaning."""
    right, rest = _split(list(node.conditions), node.right.columns)
    left: Parts = []
    if not right_only:
        left, rest = _split(rest, node.left.columns)
    if not left and not right:
        return node
    return replace(
        node,
        left=push(node.left, left),
        right=push(node.right, right),
        conditions=tuple(rest),
    )


def _union(node: UnionAll, parts: Parts) -> Node:
    inputs = []
    for child in node.inputs:
        pairs = zip(node.columns, child.columns, strict=True)
        names: dict[int, exp.Expression] = {mine.id: ref(theirs) for mine, theirs in pairs}
        inputs.append(push(child, [substitute(part, names) for part in parts]))
    return replace(node, inputs=tuple(inputs))
