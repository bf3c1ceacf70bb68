"""A plan as indented text: what golden files hold and ``explain`` prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from sqlglot import exp

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
    Order,
    OuterJoin,
    Project,
    Scan,
    SemiJoin,
    TopK,
    UnionAll,
    Values,
    Window,
)
from spark_trickle.ir.scalars import column_id
from spark_trickle.ir.trees import exchanged
from spark_trickle.ir.types import Column, Schema, Side
from spark_trickle.ir.walk import children


def explain(node: Node) -> str:
    """The plan, one operator a line, inputs indented below it."""
    return "\n".join(_lines(node, 0)) + "\n"


def _lines(node: Node, depth: int) -> Iterable[str]:
    yield "  " * depth + headline(node)
    for child in children(node):
        yield from _lines(child, depth + 1)


def headline(node: Node) -> str:  # noqa: C901  one case per operator
    """One operator without its inputs."""
    match node:
        case Scan():
            return f"Scan {node.source}{_side(node)} [{_names(node.columns)}]"
        case Values():
            rows = ", ".join(f"({_list(row)})" for row in node.rows)
            return f"Values [{_names(node.columns)}] {rows or '(no rows)'}"
        case Project():
            return f"Project [{_outputs(node.outputs)}]"
        case Filter():
            return f"Filter {scalar(node.predicate)}"
        case Join():
            return "Join" + (_on(node.conditions) if node.conditions else " cross")
        case OuterJoin():
            return f"OuterJoin {node.kind.value}{_on(node.conditions)}"
        case SemiJoin():
            return f"SemiJoin{_on(node.conditions)}"
        case AntiJoin():
            return f"AntiJoin{_on(node.conditions)}"
        case Aggregate():
            return f"Aggregate keys=[{_names(node.keys)}] [{_outputs(node.calls)}]"
        case Distinct():
            return "Distinct"
        case UnionAll():
            return f"UnionAll [{_names(node.columns)}]"
        case Negate():
            return "Negate"
        case Window():
            return f"Window partition=[{_names(node.partition_by)}] [{_outputs(node.calls)}]"
        case TopK():
            return _top_k(node)
        case Generate():
            outer = " outer" if node.outer else ""
            return f"Generate{outer} [{_names(node.generated)}] = {scalar(node.generator)}"
        case Expand():
            rows = ", ".join(f"({_list(row)})" for row in node.projections)
            return f"Expand [{_names(node.columns)}] {rows}"
        case _:
            assert_never(node)


def _side(node: Scan) -> str:
    return "" if node.side is Side.AFTER else f"@{node.side.value}"


def scalar(expression: exp.Expression) -> str:
    """An expression as Spark SQL, with columns as ``name#id`` without quotes."""

    if isinstance(expression, exp.Column):
        return expression.name
    plain = exchanged(expression, lambda column: exp.Var(this=column.name))
    return plain.sql(dialect="spark", copy=False)


def _top_k(node: TopK) -> str:
    offset = f" offset {node.offset}" if node.offset else ""
    partition = f" partition=[{_names(node.partition_by)}]" if node.partition_by else ""
    order = ", ".join(map(_order, node.order))
    return f"TopK {node.limit}{offset}{partition} order=[{order}]"


def _order(key: Order) -> str:
    direction = " desc" if key.descending else ""
    # Spark's own default: NULLs are the smallest values.
    default = key.nulls_first is not key.descending
    nulls = "" if default else (" nulls first" if key.nulls_first else " nulls last")
    return f"{key.column}{direction}{nulls}"


def _names(columns: Schema) -> str:
    return ", ".join(map(str, columns))


def _list(values: Iterable[exp.Expression]) -> str:
    return ", ".join(map(scalar, values))


def _on(conditions: tuple[exp.Expression, ...]) -> str:
    return " on " + (" AND ".join(map(_conjunct, conditions)) or "true")


def _conjunct(condition: exp.Expression) -> str:
    text = scalar(condition)
    return f"({text})" if isinstance(condition, exp.Or) else text


def _outputs(outputs: tuple[tuple[Column, exp.Expression], ...]) -> str:
    return ", ".join(map(_output, outputs))


def _output(output: tuple[Column, exp.Expression]) -> str:
    column, expression = output
    if isinstance(expression, exp.Column) and column_id(expression) == column.id:
        return str(column)
    return f"{column} = {scalar(expression)}"
