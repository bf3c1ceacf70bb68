"""Restriction to keys: rows whose key is one of a set, pushed as far down as the operators allow.

Law: an operator that treats each key by itself commutes with restriction to a set of keys,
f(x restricted to K) = f(x) restricted to K. NULL is a key like any other, so keys match by <=>.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from sqlglot import exp

from spark_trickle.delta.keys.equalities import (
    Classes,
    across,
    equal_pairs,
    keys_together,
    null_safe_equal,
)
from spark_trickle.delta.keys.narrow import key_sources
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
from spark_trickle.ir.scalars import column_id, ref
from spark_trickle.ir.types import Schema
from spark_trickle.ir.walk import ColumnIds, nodes


class KeySet:
    """A set of keys: ``plan`` has one row for each; equal parts of it are the same object."""

    def __init__(self, plan: Node, ids: ColumnIds) -> None:
        self.plan = plan
        self._ids = ids
        self._parts: dict[tuple[int, ...], KeySet] = {}

    def part(self, positions: tuple[int, ...]) -> KeySet:
        """The keys cut down to some of their columns."""
        if positions == tuple(range(len(self.plan.columns))):
            return self
        if positions not in self._parts:
            columns = [self.plan.columns[position] for position in positions]
            outputs = tuple((self._ids.copy(column), ref(column)) for column in columns)
            self._parts[positions] = KeySet(Distinct(Project(self.plan, outputs)), self._ids)
        return self._parts[positions]


def key_set(rows: Node, keys: Schema, ids: ColumnIds) -> KeySet:
    """The keys that occur in ``rows``, whatever their weights; perhaps some more."""
    parts = []
    for plan, own in key_sources(rows, tuple(key.id for key in keys)):
        offered = {column.id: column for column in plan.columns}
        parts.append((plan, tuple(offered[id] for id in own)))
    return KeySet(keys_together(parts, keys, ids), ids)


def restrict(node: Node, keys: KeySet, on: tuple[int, ...]) -> Node:
    """The rows whose columns ``on`` are a key; ``on`` is aligned with the columns of the keys."""
    pushed, exact = _push(node, keys, on)
    if exact:
        return pushed
    columns = {column.id: column for column in pushed.columns}
    conditions = tuple(
        null_safe_equal(columns[id], key) for id, key in zip(on, keys.plan.columns, strict=True)
    )
    return SemiJoin(pushed, keys.plan, conditions)


def worth_restricting(node: Node) -> bool:
    """Whether a plan does work per key that a restriction would save."""
    costly = Aggregate | Distinct | Window | TopK | OuterJoin | SemiJoin | AntiJoin
    return any(isinstance(found, costly) for found in nodes(node))


def _push(node: Node, keys: KeySet, on: tuple[int, ...]) -> tuple[Node, bool]:
    """The node over restricted inputs, and whether that already is the whole restriction."""
    match node:
        case Scan() | Values() | Expand():
            return node, False
        case Filter() | Negate() | Distinct():
            return replace(node, input=restrict(node.input, keys, on)), True
        case Project():
            passed = {c.id: column_id(e) for c, e in node.outputs if isinstance(e, exp.Column)}
            return _push_below(node, keys, on, passed)
        case Aggregate():
            return _push_below(node, keys, on, _same(node.keys))
        case Window() | TopK():
            return _push_below(node, keys, on, _same(node.partition_by))
        case Generate():
            return _push_below(node, keys, on, _same(node.input.columns))
        case UnionAll():
            return _push_union(node, keys, on), True
        case Join():
            return _push_join(node, keys, on)
        case OuterJoin():
            if node.kind is OuterKind.FULL:
                return node, False
            return _push_left(node, keys, on)
        case SemiJoin() | AntiJoin():
            return _push_left(node, keys, on)
        case _:
            assert_never(node)


def _same(columns: Schema) -> dict[int, int]:
    return {column.id: column.id for column in columns}


def _push_below(
    node: Project | Aggregate | Window | TopK | Generate,
    keys: KeySet,
    on: tuple[int, ...],
    passed: dict[int, int],
) -> tuple[Node, bool]:
    """Restrict the input by the keys that pass through the operator unchanged."""
    positions = tuple(position for position, id in enumerate(on) if id in passed)
    if not positions:
        return node, False
    below = tuple(passed[on[position]] for position in positions)
    input = restrict(node.input, keys.part(positions), below)
    return replace(node, input=input), len(positions) == len(on)


def _push_union(node: UnionAll, keys: KeySet, on: tuple[int, ...]) -> Node:
    places = {column.id: position for position, column in enumerate(node.columns)}
    inputs = tuple(
        restrict(child, keys, tuple(child.columns[places[id]].id for id in on))
        for child in node.inputs
    )
    return replace(node, inputs=inputs)


def _push_join(node: Join, keys: KeySet, on: tuple[int, ...]) -> tuple[Node, bool]:
    """Every input that holds a key column, or one equal to it, is restricted by it."""
    classes = Classes(equal_pairs(node.conditions, node.columns))
    whole = False
    inputs = []
    for child in node.inputs:
        own = {column.id for column in child.columns}
        equal = {classes.of(id): id for id in sorted(own)}
        found = [id if id in own else equal.get(classes.of(id)) for id in on]
        positions = tuple(position for position, id in enumerate(found) if id is not None)
        whole = whole or len(positions) == len(on)
        if positions:
            below = tuple(id for id in found if id is not None)
            child = restrict(child, keys.part(positions), below)
        inputs.append(child)
    return replace(node, inputs=tuple(inputs)), whole


def _push_left(
    node: OuterJoin | SemiJoin | AntiJoin, keys: KeySet, on: tuple[int, ...]
) -> tuple[Node, bool]:
    """Restrict the side that is kept, and the other one along equalities.

    Never the other side by its own columns: a partner removed there would look like none at all.
    """
    own = {column.id for column in node.left.columns}
    positions = tuple(position for position, id in enumerate(on) if id in own)
    if not positions:
        return node, False
    left = restrict(node.left, keys.part(positions), tuple(on[p] for p in positions))
    pairs = equal_pairs(node.conditions, node.left.columns + node.right.columns)
    partner = dict(across(pairs, node.left.columns, node.right.columns))
    matched = tuple(position for position in positions if on[position] in partner)
    right = node.right
    if matched:
        right = restrict(right, keys.part(matched), tuple(partner[on[p]] for p in matched))
    return replace(node, left=left, right=right), len(positions) == len(on)
