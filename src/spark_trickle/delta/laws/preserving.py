"""D(l ? r) = D(l) ? after(r) + (l' ? after(r) - l' ? before(r)), l' = before(l) touched by D(r).

? is a left outer, semi or anti join: linear on its left, where each row looks at the right by itself.
A left row looks different only if a row of D(r) is its partner; l' holds at least those rows.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.delta.keys.equalities import across, equal_pairs
from spark_trickle.delta.keys.restrict import key_set, restrict, worth_restricting
from spark_trickle.delta.laws.change import Change, difference, total
from spark_trickle.ir.nodes import AntiJoin, Filter, Node, OuterJoin, SemiJoin
from spark_trickle.ir.scalars import conjunction, ref
from spark_trickle.ir.types import Column, Schema
from spark_trickle.ir.walk import ColumnIds

Preserving = OuterJoin | SemiJoin | AntiJoin


def delta_preserving(node: Preserving, left: Change, right: Change, ids: ColumnIds) -> Node | None:
    """The left delta against the right after, then the left rows whose partners changed."""
    terms: list[Node] = []
    if left.delta is not None:
        partners = _reachable(node, left.delta, right.after, ids)
        terms.append(_over(node, left.delta, partners))
    if right.delta is not None:
        terms.append(_touched_left(node, left.before, right, right.delta, ids))
    return total(terms)


def _touched_left(
    node: Preserving, before: Node, right: Change, delta: Node, ids: ColumnIds
) -> Node:
    pairs = key_pairs(node)
    rows: Node = SemiJoin(before, delta, node.conditions)
    if not pairs:
        return difference(_over(node, rows, right.after), _over(node, rows, right.before))
    right_keys = _columns(node.right.columns, [b for _, b in pairs])
    keys = key_set(_with_partner(node, delta, right_keys), right_keys, ids)
    on = tuple(key.id for key in right_keys)
    rows = restrict(before, keys, tuple(a for a, _ in pairs))
    return difference(
        _over(node, rows, restrict(right.after, keys, on)),
        _over(node, rows, restrict(right.before, keys, on)),
    )


def key_pairs(node: Preserving) -> list[tuple[int, int]]:
    """The columns a row and its partner agree on, left first."""
    columns = node.left.columns + node.right.columns
    return across(equal_pairs(node.conditions, columns), node.left.columns, node.right.columns)


def _with_partner(node: Preserving, delta: Node, keys: Schema) -> Node:
    """Without the rows whose NULL key ``=`` never matches: their keys touch nothing."""
    strict = equal_pairs(node.conditions, node.left.columns + node.right.columns, null_safe=False)
    plain = {id for pair in strict for id in pair}
    tests = [_present(key) for key in keys if key.id in plain and key.nullable]
    return Filter(delta, conjunction(tests)) if tests else delta


def _present(column: Column) -> exp.Expression:
    return exp.Not(this=exp.Is(this=ref(column), expression=exp.null()))


def _reachable(node: Preserving, rows: Node, right: Node, ids: ColumnIds) -> Node:
    """The right side, restricted to the keys of ``rows`` where that saves work."""
    pairs = key_pairs(node)
    if not pairs or not worth_restricting(right):
        return right
    keys = key_set(rows, _columns(node.left.columns, [a for a, _ in pairs]), ids)
    return restrict(right, keys, tuple(b for _, b in pairs))


def _over(node: Preserving, left: Node, right: Node) -> Node:
    return replace(node, left=left, right=right)


def _columns(columns: Schema, ids: list[int]) -> Schema:
    offered = {column.id: column for column in columns}
    return tuple(offered[id] for id in ids)
