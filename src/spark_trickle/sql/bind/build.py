"""Small pieces of plan the binder needs everywhere: projections, nullability, free columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from spark_trickle.ir.aggregates import function_name
from spark_trickle.ir.check import made
from spark_trickle.ir.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    OuterJoin,
    OuterKind,
    Project,
    TopK,
    Values,
    Window,
)
from spark_trickle.ir.scalars import column_id, ref
from spark_trickle.ir.types import Column, Schema
from spark_trickle.ir.walk import ColumnIds, nodes, reads
from spark_trickle.sql.types import coercion as c
from spark_trickle.sql.types.functions import EMPTY_COUNTS, WINDOW_ONLY, unwrapped
from spark_trickle.sql.types.infer import type_of

_NEVER_NULL = (exp.Literal, exp.Boolean, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Exists)
_NULL_IF_ANY_PART_IS = (
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Neg,
    exp.Paren,
    exp.Not,
    exp.And,
    exp.Or,
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.Like,
    exp.Between,
    exp.In,
    exp.Extract,
    exp.Substring,
    exp.Trim,
    exp.DPipe,
)
_RANKS = WINDOW_ONLY - {"lag", "lead", "nth_value"}


def nullable(expression: exp.Expr, offered: Mapping[int, Column]) -> bool:
    """Whether a value can be NULL; in doubt it can."""
    if isinstance(expression, exp.Column):
        column = offered.get(column_id(expression))
        return column is None or column.nullable
    if isinstance(expression, _NEVER_NULL):
        return False
    if isinstance(expression, exp.TryCast):
        return True
    if isinstance(expression, (exp.Cast, *_NULL_IF_ANY_PART_IS)):
        return any(nullable(part, offered) for part in _values(expression))
    if isinstance(expression, exp.Coalesce):
        return all(nullable(part, offered) for part in _values(expression))
    if isinstance(expression, exp.Case):
        values = [branch.args["true"] for branch in expression.args["ifs"]]
        default = expression.args.get("default")
        return default is None or any(nullable(v, offered) for v in [*values, default])
    if isinstance(expression, exp.Window):
        return function_name(unwrapped(expression.this)) not in _RANKS | EMPTY_COUNTS
    if isinstance(expression, exp.Func | exp.Filter | exp.WithinGroup):
        name = function_name(unwrapped(expression))
        return name not in EMPTY_COUNTS | {"named_struct", "array", "grouping", "grouping_id"}
    return True


def _values(expression: exp.Expr) -> list[exp.Expr]:
    skipped = (exp.DataType, exp.Var)
    return [part for part in expression.iter_expressions() if not isinstance(part, skipped)]


def by_id(columns: Iterable[Column]) -> dict[int, Column]:
    """Columns by their id."""
    return {column.id: column for column in columns}


def column_for(
    name: str, expression: exp.Expression, input: Node, ids: ColumnIds, taken: set[int]
) -> Column:
    """The column an expression is projected to; a plain column of the same name keeps its id."""
    offered = by_id(input.columns)
    if isinstance(expression, exp.Column):
        column = offered.get(column_id(expression))
        if column is not None and column.name == name and column.id not in taken:
            return column
    type = type_of(expression)
    return ids.column(name, type, nullable(expression, offered))


def project(input: Node, outputs: Iterable[tuple[str, exp.Expression]], ids: ColumnIds) -> Project:
    """A projection with a column per name and expression."""
    taken: set[int] = set()
    pairs = []
    for name, expression in outputs:
        column = column_for(name, expression, input, ids, taken)
        taken.add(column.id)
        pairs.append((column, expression))
    return Project(input, tuple(pairs))


def passing(columns: Iterable[Column]) -> tuple[tuple[Column, exp.Expression], ...]:
    """Outputs that let columns through as they are."""
    return tuple((column, ref(column)) for column in columns)


def extended(
    input: Node, additions: Iterable[tuple[str, exp.Expression]], ids: ColumnIds
) -> tuple[Node, list[Column]]:
    """The input with columns for the expressions; plain columns are used as they are."""
    offered = by_id(input.columns)
    columns: list[Column] = []
    made: list[tuple[Column, exp.Expression]] = []
    for name, expression in additions:
        known = offered.get(column_id(expression)) if isinstance(expression, exp.Column) else None
        same = next((column for column, e in made if e == expression), None)
        column = known or same
        if column is None:
            column = ids.column(name, type_of(expression), nullable(expression, offered))
            made.append((column, expression))
        columns.append(column)
    if not made:
        return input, columns
    return Project(input, passing(input.columns) + tuple(made)), columns


def constant_row() -> Values:
    """The one row without columns that a SELECT without FROM reads."""
    return Values((), ((),))


def typed(expression: exp.Expression, type: exp.DataType) -> exp.Expression:
    """The expression, marked with its type."""
    expression.type = type
    return expression


def boolean(expression: exp.Expression) -> exp.Expression:
    """A condition the compiler writes itself."""
    return typed(expression, c.BOOLEAN)


def same(left: exp.Expression, right: exp.Expression) -> exp.Expression:
    """Equality under which NULL matches NULL."""
    return boolean(exp.NullSafeEQ(this=left, expression=right))


def left_join(left: Node, right: Node, conditions: tuple[exp.Expression, ...]) -> OuterJoin:
    """A left outer join; the right side's columns become nullable."""
    return outer_join(left, right, OuterKind.LEFT, conditions)


def outer_join(
    left: Node, right: Node, kind: OuterKind, conditions: tuple[exp.Expression, ...]
) -> OuterJoin:
    """An outer join whose padded columns are nullable."""
    kept = left.columns if kind is OuterKind.LEFT else as_nullable(left.columns)
    return OuterJoin(left, right, kind, conditions, kept + as_nullable(right.columns))


def as_nullable(columns: Schema) -> Schema:
    """The same columns, each of which may be NULL."""
    return tuple(Column(col.id, col.name, col.type, nullable=True) for col in columns)


def free(node: Node) -> frozenset[int]:
    """Ids a plan reads but nothing in it offers: columns of the queries around it."""
    read: set[int] = set()
    offered: set[int] = set()
    for found in nodes(node):
        read |= reads(found)
        offered |= {column.id for column in made(found)}
    return frozenset(read - offered)


def one_row(node: Node) -> bool:
    """Whether a plan yields exactly one row, whatever the data."""
    match node:
        case Values():
            return len(node.rows) == 1
        case Aggregate():
            return not node.keys
        case Project():
            return one_row(node.input)
        case Join():
            return not node.conditions and all(map(one_row, node.inputs))
        case _:
            return False


def at_most_one_row(node: Node) -> bool:
    """Whether a plan yields one row or none, whatever the data."""
    if one_row(node):
        return True
    match node:
        case Values():
            return len(node.rows) <= 1
        case TopK():
            return (node.limit <= 1 and not node.partition_by) or at_most_one_row(node.input)
        case Join():
            return all(map(at_most_one_row, node.inputs))
        case Project() | Filter() | Distinct() | Window() | Aggregate():
            return at_most_one_row(node.input)
        case _:
            return False
