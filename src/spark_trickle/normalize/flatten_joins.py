"""Inner joins of inner joins are one join of n inputs, and a filter over a join is a condition of it.

Law: the delta of a join of n inputs has n terms; of nested joins of two it would have more.
"""

from __future__ import annotations

from spark_trickle.ir.nodes import Filter, Join, Node
from spark_trickle.ir.scalars import conjuncts
from spark_trickle.ir.walk import transform_up


def flatten_joins(plan: Node) -> Node:
    """The plan with each tree of inner joins as one join."""
    return transform_up(plan, _rule)


def _rule(node: Node) -> Node:
    match node:
        case Filter(input=Join() as join):
            return _flat(Join(join.inputs, join.conditions + tuple(conjuncts(node.predicate))))
        case Join():
            return _flat(node)
        case _:
            return node


def _flat(node: Join) -> Join:
    inputs: list[Node] = []
    conditions = list(node.conditions)
    for child in node.inputs:
        if isinstance(child, Join):
            inputs += child.inputs
            conditions += child.conditions
        elif isinstance(child, Filter) and isinstance(child.input, Join):
            inputs += child.input.inputs
            conditions += [*child.input.conditions, *conjuncts(child.predicate)]
        else:
            inputs.append(child)
    unique = dict.fromkeys(conditions)
    return Join(tuple(inputs), tuple(unique))
