"""Equalities between columns that a join states: along them, a restriction goes to the other side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from spark_trickle.ir.aggregates import BIGINT, INTEGERS
from spark_trickle.ir.nodes import Distinct, Node, Project, UnionAll
from spark_trickle.ir.scalars import column_id, ref
from spark_trickle.ir.trees import duplicate
from spark_trickle.ir.types import Column, Schema
from spark_trickle.ir.walk import ColumnIds


def equal_pairs(
    conditions: Iterable[exp.Expression], columns: Schema, *, null_safe: bool = True
) -> list[tuple[int, int]]:
    """Pairs of columns that a conjunct equates, so that both are equal to the same third values.

    Across types Spark compares after a cast, and equality need not carry over, except among
    integers, where the cast loses nothing.
    """
    types = {column.id: column.type for column in columns}
    kinds = (exp.EQ, exp.NullSafeEQ) if null_safe else (exp.EQ,)
    pairs = []
    for condition in conditions:
        if isinstance(condition, kinds):
            left, right = condition.this, condition.expression
            if isinstance(left, exp.Column) and isinstance(right, exp.Column):
                a, b = column_id(left), column_id(right)
                if a in types and b in types and _same_values(types[a], types[b]):
                    pairs.append((a, b))
    return pairs


def null_safe_equal(left: Column, right: Column) -> exp.Expression:
    """``left <=> right``; plain ``=`` where neither side can be NULL."""
    if not left.nullable and not right.nullable:
        return exp.EQ(this=ref(left), expression=ref(right))
    return exp.NullSafeEQ(this=ref(left), expression=ref(right))


def _same_values(a: exp.DataType, b: exp.DataType) -> bool:
    return a == b or (a.this in INTEGERS and b.this in INTEGERS)


def keys_together(parts: Sequence[tuple[Node, Schema]], names: Schema, ids: ColumnIds) -> Node:
    """One row for each key in any of the parts, whose key columns are given by position."""
    wide = [
        ids.column(name.name, _widest([columns[i].type for _, columns in parts]))
        for i, name in enumerate(names)
    ]
    projected = tuple(
        Project(
            plan,
            tuple(
                (ids.column(c.name, w.type, c.nullable), _as(c, w.type))
                for c, w in zip(columns, wide, strict=True)
            ),
        )
        for plan, columns in parts
    )
    if len(projected) == 1:
        return Distinct(projected[0])
    return Distinct(UnionAll(projected, tuple(wide)))


def same_column(expression: exp.Expression) -> int | None:
    """The id of the column whose values an expression has, if it is one; a wider integer is."""
    if isinstance(expression, exp.Cast) and expression.to == BIGINT:
        inner = expression.this
        if isinstance(inner, exp.Column) and inner.type and inner.type.this in INTEGERS:
            return column_id(inner)
    return column_id(expression) if isinstance(expression, exp.Column) else None


def _widest(types: Sequence[exp.DataType]) -> exp.DataType:
    return types[0] if all(type == types[0] for type in types) else BIGINT


def _as(column: Column, type: exp.DataType) -> exp.Expression:
    return ref(column) if column.type == type else exp.cast(ref(column), duplicate(type))


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
