"""Joins: the order in which inputs are written, and how weights and conditions meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from spark_trickle.errors import InternalError
from spark_trickle.ir.scalars import column_ids, conjunction
from spark_trickle.ir.trees import duplicate
from spark_trickle.ir.types import Schema
from spark_trickle.lower.block import Block


def join(inputs: Sequence[Block], conditions: Sequence[exp.Expression], columns: Schema) -> Block:
    """An inner join, written from its weighted input outwards.

    Spark without statistics joins in the written order, so the small delta has to come first and
    every further input should be reached by an equality.
    """
    waiting = list(inputs)
    open_conditions = [(condition, column_ids(condition)) for condition in conditions]
    start = next((block for block in waiting if block.weight is not None), waiting[0])
    waiting.remove(start)
    joined = replace(start, derived=None)
    while waiting:
        following = _following(joined, waiting, open_conditions)
        waiting.remove(following)
        values = {**joined.values, **following.values}
        ready = [c for c, ids in open_conditions if ids <= values.keys()]
        open_conditions = [(c, ids) for c, ids in open_conditions if not ids <= values.keys()]
        joined = replace(joined, values=values, weight=_product(joined.weight, following.weight))
        on = [joined.expand(condition) for condition in ready]
        joined = replace(joined, joins=(*joined.joins, _join(following, on)))
    constant = [joined.expand(condition) for condition, _ in open_conditions]
    return replace(joined, columns=columns, where=(*joined.where, *constant))


def outer(left: Block, right: Block, conditions: Sequence[exp.Expression], side: str) -> Block:
    """LEFT or FULL join of two inputs; the weight is the left one's."""
    if right.weight is not None:
        raise InternalError(f"the right input of a {side} join carries weights")
    both = replace(left, values={**left.values, **right.values}, derived=None)
    on = conjunction([both.expand(condition) for condition in conditions])
    return replace(both, joins=(*left.joins, exp.Join(this=right.source, on=on, side=side)))


def filtering(left: Block, right: Block, conditions: Sequence[exp.Expression], kind: str) -> Block:
    """The left rows that have a partner (SEMI) or none (ANTI)."""
    both = replace(left, values={**left.values, **right.values})
    on = conjunction([both.expand(condition) for condition in conditions])
    item = exp.Join(this=right.source, on=on, side="LEFT", kind=kind)
    return replace(left, joins=(*left.joins, item), derived=None)


def _following(
    joined: Block,
    waiting: list[Block],
    conditions: list[tuple[exp.Expression, frozenset[int]]],
) -> Block:
    """The next input: one an equality reaches, else one any condition reaches, else the first."""

    def rank(block: Block) -> int:
        best = 2
        for condition, ids in conditions:
            reaches = bool(ids & block.values.keys()) and bool(ids & joined.values.keys())
            if reaches and ids <= block.values.keys() | joined.values.keys():
                best = min(best, 0 if isinstance(condition, (exp.EQ, exp.NullSafeEQ)) else 1)
        return best

    return min(waiting, key=rank)


def _join(block: Block, on: list[exp.Expression]) -> exp.Join:
    if on:
        return exp.Join(this=block.source, on=conjunction(on))
    return exp.Join(this=block.source, kind="CROSS")


def _product(first: exp.Expression | None, second: exp.Expression | None) -> exp.Expression | None:
    if first is None or second is None:
        return first if second is None else second
    return exp.Mul(this=duplicate(first), expression=duplicate(second))
