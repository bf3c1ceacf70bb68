"""D(plan): the one match from operators to their laws. Each rule is told how its inputs change."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from spark_trickle.delta.laws.change import Change
from spark_trickle.delta.laws.full_join import delta_full_join
from spark_trickle.delta.laws.join import delta_join
from spark_trickle.delta.laws.linear import delta_linear, delta_scan, delta_union
from spark_trickle.delta.laws.preserving import delta_preserving
from spark_trickle.delta.laws.touched import delta_keyed
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
from spark_trickle.ir.types import Side
from spark_trickle.ir.walk import ColumnIds, children, with_children


def differentiate(plan: Node, changed: frozenset[str], ids: ColumnIds) -> Change:
    """How a plan changes when exactly the ``changed`` sources do."""
    inputs = tuple(differentiate(child, changed, ids) for child in children(plan))
    if isinstance(plan, Scan):
        if plan.source not in changed:
            return Change(plan, plan, None)
        return Change(replace(plan, side=Side.BEFORE), plan, delta_scan(plan))
    if all(change.delta is None for change in inputs):
        return Change(plan, plan, None)
    before = with_children(plan, tuple(change.before for change in inputs))
    after = with_children(plan, tuple(change.after for change in inputs))
    return Change(before, after, _delta(plan, inputs, ids))


def _delta(node: Node, inputs: tuple[Change, ...], ids: ColumnIds) -> Node | None:
    match node:
        case Scan() | Values():
            return None
        case Project() | Filter() | Generate() | Expand() | Negate():
            return delta_linear(node, inputs[0])
        case UnionAll():
            return delta_union(node, inputs)
        case Join():
            return delta_join(node, inputs, ids)
        case OuterJoin():
            if node.kind is OuterKind.FULL:
                return delta_full_join(node, inputs[0], inputs[1], ids)
            return delta_preserving(node, inputs[0], inputs[1], ids)
        case SemiJoin() | AntiJoin():
            return delta_preserving(node, inputs[0], inputs[1], ids)
        case Aggregate() | Distinct() | Window() | TopK():
            return delta_keyed(node, inputs[0], ids)
        case _:
            assert_never(node)
