"""What a rule is told about an input: its rows before, its rows after, and after - before."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.ir.nodes import Negate, Node, UnionAll


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
