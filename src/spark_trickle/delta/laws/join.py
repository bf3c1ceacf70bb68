"""D(x1 * … * xn) = sum over changed i of: x1..x(i-1) at before, D(xi), x(i+1)..xn at after.

The sum telescopes, so n changed inputs give n terms and no term holds two deltas.
"""

from __future__ import annotations

from collections import deque

from sqlglot import exp

from spark_trickle.delta.keys.equalities import across, equal_pairs
from spark_trickle.delta.keys.restrict import key_set, restrict, worth_restricting
from spark_trickle.delta.laws.change import Change, total
from spark_trickle.ir.nodes import Join, Node
from spark_trickle.ir.types import Schema
from spark_trickle.ir.walk import ColumnIds


def delta_join(node: Join, inputs: tuple[Change, ...], ids: ColumnIds) -> Node | None:
    """One term per changed input."""
    terms: list[Node] = []
    for position, change in enumerate(inputs):
        if change.delta is not None:
            sides = [
                *(other.before for other in inputs[:position]),
                change.delta,
                *(other.after for other in inputs[position + 1 :]),
            ]
            terms.append(_term(node, sides, position, ids))
    return total(terms)


def _term(node: Join, sides: list[Node], start: int, ids: ColumnIds) -> Node:
    """Costly inputs are restricted to the keys that the delta can reach through equalities."""
    pairs = equal_pairs(node.conditions, node.columns)
    plain = list(sides)
    for position, side in enumerate(plain):
        if position != start and worth_restricting(side):
            path = _path(plain, pairs, start, position)
            if path is not None:
                sides[position] = _restricted(node, plain, path, ids)
    return Join(tuple(sides), node.conditions)


def _path(
    sides: list[Node], pairs: list[tuple[int, int]], start: int, end: int
) -> list[int] | None:
    """The shortest chain of equalities from one input to another, over inputs cheap to join."""
    came_from: dict[int, int] = {start: start}
    waiting = deque([start])
    while waiting:
        here = waiting.popleft()
        for there, side in enumerate(sides):
            if there in came_from or not across(pairs, sides[here].columns, side.columns):
                continue
            came_from[there] = here
            if there == end:
                return _chain(came_from, start, end)
            if not worth_restricting(side):
                waiting.append(there)
    return None


def _chain(came_from: dict[int, int], start: int, end: int) -> list[int]:
    chain = [end]
    while chain[-1] != start:
        chain.append(came_from[chain[-1]])
    return chain[::-1]


def _restricted(node: Join, sides: list[Node], path: list[int], ids: ColumnIds) -> Node:
    """The input at the end of the path, restricted to the keys found along it."""
    *prefix, end = path
    reached: Node = sides[prefix[0]]
    if len(prefix) > 1:
        columns = {c.id for position in prefix for c in sides[position].columns}
        pairs = equal_pairs(node.conditions, node.columns)
        inside = [(a, b) for a, b in pairs if a in columns and b in columns]
        reached = Join(tuple(sides[p] for p in prefix), _conditions(node, inside))
    found = across(equal_pairs(node.conditions, node.columns), reached.columns, sides[end].columns)
    keys = _by_id(reached.columns, [a for a, _ in found])
    return restrict(sides[end], key_set(reached, keys, ids), tuple(b for _, b in found))


def _conditions(node: Join, pairs: list[tuple[int, int]]) -> tuple[exp.Expression, ...]:
    wanted = set(pairs)
    return tuple(
        condition
        for condition in node.conditions
        if wanted & set(equal_pairs((condition,), node.columns))
    )


def _by_id(columns: Schema, ids: list[int]) -> Schema:
    offered = {column.id: column for column in columns}
    return tuple(offered[id] for id in ids)
