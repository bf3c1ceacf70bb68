"""(a AND b) OR (a AND c) = a AND (b OR c): a join condition repeated in every branch of an OR
becomes a join condition (TPC-H q19)."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.ir.nodes import AntiJoin, Filter, Join, Node, OuterJoin, SemiJoin
from spark_trickle.ir.scalars import conjunction, conjuncts, disjunction, disjuncts
from spark_trickle.ir.walk import transform_up


def extract_common(plan: Node) -> Node:
    """The plan with what all branches of an OR share taken out of it."""
    return transform_up(plan, _rule)


def _rule(node: Node) -> Node:
    match node:
        case Filter():
            parts = [part for c in conjuncts(node.predicate) for part in _extracted(c)]
            return Filter(node.input, conjunction(parts))
        case Join() | OuterJoin() | SemiJoin() | AntiJoin():
            conditions = tuple(part for c in node.conditions for part in _extracted(c))
            return replace(node, conditions=conditions)
        case _:
            return node


def _extracted(condition: exp.Expression) -> list[exp.Expression]:
    branches = [conjuncts(branch) for branch in disjuncts(condition)]
    if len(branches) < 2:
        return [condition]
    shared = [part for part in branches[0] if all(part in other for other in branches[1:])]
    if not shared:
        return [condition]
    rests = [[part for part in branch if part not in shared] for branch in branches]
    if not all(rests):
        # One branch is implied by what is shared, so the whole is no more than that.
        return shared
    return [*shared, disjunction(conjunction(rest) for rest in rests)]
