"""D(l full join r) by touched keys where it has equalities; else l full join r = l left join r + pad(r anti l)."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.delta.keys.equalities import keys_together
from spark_trickle.delta.keys.restrict import KeySet, restrict
from spark_trickle.delta.laws.change import Change, difference, total
from spark_trickle.delta.laws.preserving import delta_preserving, key_pairs
from spark_trickle.ir.nodes import (
    AntiJoin,
    Node,
    OuterJoin,
    OuterKind,
    Project,
)
from spark_trickle.ir.scalars import ref
from spark_trickle.ir.trees import duplicate
from spark_trickle.ir.types import Column, Schema
from spark_trickle.ir.walk import ColumnIds


def delta_full_join(node: OuterJoin, left: Change, right: Change, ids: ColumnIds) -> Node | None:
    """A FULL join under any condition."""
    if left.delta is None and right.delta is None:
        return None
    pairs = key_pairs(node)
    if not pairs:
        return _as_left_join_and_rest(node, left, right, ids)
    left_keys = _columns(node.left.columns, [a for a, _ in pairs])
    right_keys = _columns(node.right.columns, [b for _, b in pairs])
    keys = _keys(left, right, left_keys, right_keys, ids)
    left_on = tuple(key.id for key in left_keys)
    right_on = tuple(key.id for key in right_keys)

    def joined(left_rows: Node, right_rows: Node) -> Node:
        return replace(
            node,
            left=restrict(left_rows, keys, left_on),
            right=restrict(right_rows, keys, right_on),
        )

    return difference(joined(left.after, right.after), joined(left.before, right.before))


def _keys(
    left: Change, right: Change, left_keys: Schema, right_keys: Schema, ids: ColumnIds
) -> KeySet:
    sides = ((left.delta, left_keys), (right.delta, right_keys))
    parts = [(delta, keys) for delta, keys in sides if delta is not None]
    return KeySet(keys_together(parts, left_keys, ids), ids)


def _as_left_join_and_rest(
    node: OuterJoin, left: Change, right: Change, ids: ColumnIds
) -> Node | None:
    matched = OuterJoin(node.left, node.right, OuterKind.LEFT, node.conditions, node.columns)
    rest = AntiJoin(node.right, node.left, node.conditions)
    terms = []
    first = delta_preserving(matched, left, right, ids)
    if first is not None:
        terms.append(first)
    second = delta_preserving(rest, right, left, ids)
    if second is not None:
        terms.append(_padded(node, second))
    result = total(terms)
    return None if result is None else result


def _padded(node: OuterJoin, right_rows: Node) -> Node:
    """Right rows with NULLs for the left columns."""
    nulls = tuple((column, _null(column)) for column in _part(node, node.left.columns))
    kept = tuple((column, ref(column)) for column in _part(node, node.right.columns))
    return Project(right_rows, (*nulls, *kept))


def _part(node: OuterJoin, columns: Schema) -> Schema:
    wanted = {column.id for column in columns}
    return tuple(column for column in node.columns if column.id in wanted)


def _null(column: Column) -> exp.Expression:
    return exp.cast(exp.null(), duplicate(column.type))


def _columns(columns: Schema, ids: list[int]) -> Schema:
    offered = {column.id: column for column in columns}
    return tuple(offered[id] for id in ids)
