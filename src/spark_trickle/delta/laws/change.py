"""What a rule is told about an input: its rows before, its rows after, and after - before."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.ir.nodes import AntiJoin, Negate, Node, Scan, SemiJoin, UnionAll
from spark_trickle.ir.types import Side
from spark_trickle.ir.walk import children


@dataclass(frozen=True)
class Change:
    """``after = before + delta`` as multisets with weights; ``delta`` None means no change."""

    before: Node
    after: Node
    delta: Node | None


def difference(after: Node, before: Node) -> Node:
    """``after - before``"""
    return UnionAll((after, Negate(before)), after.columns)


def total(terms: list[Node]) -> Node | None:
    """The sum of terms with the same columns; None of none."""
    if len(terms) < 2:
        return terms[0] if terms else None
    return UnionAll(tuple(terms), terms[0].columns)


def only_inserts(delta: Node, insert_only: frozenset[str]) -> bool:
    """Whether no row of a delta can have a negative weight."""
    match delta:
        case Scan():
            return delta.side is not Side.DELTA or delta.source in insert_only
        case SemiJoin() | AntiJoin():
            return only_inserts(delta.left, insert_only)
        case Negate():
            return False
        case _:
            return all(only_inserts(child, insert_only) for child in children(delta))
