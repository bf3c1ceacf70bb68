"""Equalities between columns that a join states: along them, a restriction goes to the other side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from spark_trickle.ir.scalars import column_id
from spark_trickle.ir.types import Schema


def equal_pairs(
    conditions: Iterable[exp.Expression], columns: Schema, *, null_safe: bool = True
) -> list[tuple[int, int]]:
    """Pairs of columns of the same type that a conjunct equates.

    Across types Spark compares after a cast, and equality with a third value need not carry over.
    """
    types = {column.id: column.type for column in columns}
    kinds = (exp.EQ, exp.NullSafeEQ) if null_safe else (exp.EQ,)
    pairs = []
    for condition in conditions:
        if isinstance(condition, kinds):
            left, right = condition.this, condition.expression
            if isinstance(left, exp.Column) and isinstance(right, exp.Column):
                a, b = column_id(left), column_id(right)
                if a in types and b in types and types[a] == types[b]:
                    pairs.append((a, b))
    return pairs


def across(pairs: Iterable[tuple[int, int]], left: Schema, right: Schema) -> list[tuple[int, int]]:
    """The pairs that lead from one side to the other, left column first."""
    lefts = {column.id for column in left}
    rights = {column.id for column in right}
    found = []
    for a, b in pairs:
        if a in lefts and b in rights:
            found.append((a, b))
        elif b in lefts and a in rights:
            found.append((b, a))
    return found


class Classes:
    """The classes of columns that a chain of equalities makes equal."""

    def __init__(self, pairs: Sequence[tuple[int, int]]) -> None:
        self._parent: dict[int, int] = {}
        for a, b in pairs:
            self._parent[self.of(a)] = self.of(b)

    def of(self, id: int) -> int:
        """The representative of a column's class."""
        while id in self._parent and self._parent[id] != id:
            id = self._parent[id]
        return id
