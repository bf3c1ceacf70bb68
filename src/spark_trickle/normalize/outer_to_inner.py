"""An outer join whose padded rows a later condition drops anyway is a smaller join.

Law: if a predicate is not TRUE whenever the columns of one side are all NULL, the rows padded on
that side do not survive it, and the join need not make them.
"""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.ir.nodes import Filter, Join, Node, OuterJoin, OuterKind, Project, SemiJoin
from spark_trickle.ir.scalars import column_ids, conjunction, conjuncts, ref
from spark_trickle.ir.types import Column, Schema
from spark_trickle.ir.walk import transform_up

_STRICT = (
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.Mod,
    exp.Neg,
    exp.Paren,
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.Like,
    exp.Cast,
    exp.Substring,
    exp.Extract,
)


def outer_to_inner(plan: Node) -> Node:
    """The plan with outer joins reduced where padded rows cannot survive."""
    return transform_up(plan, _rule)


def _rule(node: Node) -> Node:
    match node:
        case Filter(input=OuterJoin() as join):
            rejected = rejects(node.predicate)
            reduced = _reduced(join, rejected)
            return node if reduced is join else Filter(reduced, node.predicate)
        case Join():
            rejected = rejects(conjunction(node.conditions))
            inputs = tuple(_reduced_input(child, rejected) for child in node.inputs)
            return Join(inputs, node.conditions)
        case SemiJoin():
            rejected = rejects(conjunction(node.conditions))
            return SemiJoin(_reduced_input(node.left, rejected), node.right, node.conditions)
        case _:
            return node


def _reduced_input(node: Node, rejected: frozenset[int]) -> Node:
    return _reduced(node, rejected) if isinstance(node, OuterJoin) else node


def _reduced(join: OuterJoin, rejected: frozenset[int]) -> Node:
    no_padded_right = bool(rejected & _ids(join.right.columns))
    no_padded_left = bool(rejected & _ids(join.left.columns)) and join.kind is OuterKind.FULL
    if join.kind is OuterKind.LEFT:
        return Join((join.left, join.right), join.conditions) if no_padded_right else join
    if no_padded_left and no_padded_right:
        return Join((join.left, join.right), join.conditions)
    if no_padded_left:
        return _left(join.left, join.right, join)
    if no_padded_right:
        turned = _left(join.right, join.left, join)
        # Above, columns may be matched by position: they keep the order they had.
        columns = {column.id: column for column in turned.columns}
        order = [columns[column.id] for column in join.columns]
        return Project(turned, tuple((column, ref(column)) for column in order))
    return join


def _left(kept: Node, padded: Node, join: OuterJoin) -> OuterJoin:
    nullable = tuple(Column(c.id, c.name, c.type) for c in padded.columns)
    return OuterJoin(kept, padded, OuterKind.LEFT, join.conditions, kept.columns + nullable)


def _ids(columns: Schema) -> frozenset[int]:
    return frozenset(column.id for column in columns)


def rejects(predicate: exp.Expression) -> frozenset[int]:
    """Columns that, if NULL, keep the predicate from being TRUE."""
    result: frozenset[int] = frozenset()
    for part in conjuncts(predicate):
        result |= _rejected(part)
    return result


def _rejected(part: exp.Expr) -> frozenset[int]:
    if isinstance(part, exp.Or):
        return _rejected_by_all([part.this, part.expression])
    if isinstance(part, exp.And):
        return _rejected(part.this) | _rejected(part.expression)
    if isinstance(part, exp.Paren):
        return _rejected(part.this)
    if isinstance(part, exp.Not):
        inner = part.this
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return _null_if_null(inner.this)
        return _null_if_null(inner)
    return _null_if_null(part)


def _rejected_by_all(parts: list[exp.Expr]) -> frozenset[int]:
    first, *rest = map(_rejected, parts)
    for other in rest:
        first &= other
    return first


def _null_if_null(node: exp.Expr) -> frozenset[int]:
    """Columns that make an expression NULL when they are NULL."""
    if isinstance(node, exp.Column):
        return column_ids(node)
    if isinstance(node, exp.In):
        return _null_if_null(node.this)
    if isinstance(node, exp.Between):
        return _null_if_null(node.this)
    if isinstance(node, _STRICT) and not isinstance(node, exp.TryCast):
        found: frozenset[int] = frozenset()
        for child in node.iter_expressions():
            if not isinstance(child, exp.DataType | exp.Var):
                found |= _null_if_null(child)
        return found
    return frozenset()
