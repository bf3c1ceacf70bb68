"""D(f(x)) = f(after restricted to K) - f(before restricted to K), K = the keys in D(x).

Holds for every f that treats each key by itself: rows of other keys come out the same on both
sides. K may hold more keys than changed, never fewer. Without a key, K is everything.
"""

from __future__ import annotations

from collections.abc import Callable

from spark_trickle.delta.keys.restrict import key_set, restrict
from spark_trickle.delta.laws.change import Change, difference
from spark_trickle.ir.nodes import Aggregate, Distinct, Node, TopK, Window
from spark_trickle.ir.types import Schema
from spark_trickle.ir.walk import ColumnIds, with_children

Keyed = Aggregate | Distinct | Window | TopK


def keys_of(node: Keyed) -> Schema:
    """The columns by which an operator treats its rows; they are columns of input and output."""
    match node:
        case Aggregate():
            return node.keys
        case Distinct():
            return node.columns
        case Window() | TopK():
            return node.partition_by


def delta_keyed(node: Keyed, input: Change, ids: ColumnIds) -> Node | None:
    """Recompute the touched keys on both versions."""
    if input.delta is None:
        return None

    def apply(rows: Node) -> Node:
        return with_children(node, (rows,))

    return touched(input, keys_of(node), apply, ids)


def touched(input: Change, keys: Schema, apply: Callable[[Node], Node], ids: ColumnIds) -> Node:
    """``apply`` on the rows of the touched keys, after minus before."""
    assert input.delta is not None
    if not keys:
        return difference(apply(input.after), apply(input.before))
    found = key_set(input.delta, keys, ids)
    on = tuple(key.id for key in keys)
    return difference(
        apply(restrict(input.after, found, on)), apply(restrict(input.before, found, on))
    )
