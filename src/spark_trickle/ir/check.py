"""What must hold of every plan; run after bind and after every pass, so that a broken rewrite
fails where it happens and not in the data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from sqlglot import exp

from spark_trickle.errors import InternalError
from spark_trickle.ir.explain import explain, headline
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
    OuterJoin,
    OuterKind,
    Project,
    Scan,
    SemiJoin,
    TopK,
    UnionAll,
    Values,
    Window,
)
from spark_trickle.ir.scalars import column_id
from spark_trickle.ir.trees import holds
from spark_trickle.ir.types import Column, Schema
from spark_trickle.ir.walk import children, expressions, kept, nodes, reads

UNKNOWN = exp.DataType.Type.UNKNOWN


def check(plan: Node, *, stage: str = "plan", shared: bool = False) -> Node:
    """Return the plan if it is sound, else raise InternalError with its text.

    ``shared``: the same sub-plan may stand in several places, as in a delta; then ids need to be
    unique only where two inputs meet.
    """
    faults = [fault for node in nodes(plan) for fault in _faults(node)]
    if not shared:
        faults += _made_twice(plan)
    if faults:
        raise InternalError(f"{stage} is not sound: {'; '.join(faults)}\n{explain(plan)}")
    return plan


@kept
def _faults(node: Node) -> tuple[str, ...]:
    return tuple(_found(node))


def _found(node: Node) -> Iterable[str]:
    visible = {c.id for child in children(node) for c in child.columns}
    for id in sorted(reads(node) - visible):
        yield f"column {id} is not offered by the inputs of: {headline(node)}"
    for column in _twice(node.columns):
        yield f"column {column} occurs twice in: {headline(node)}"
    for expression in expressions(node):
        if holds(expression, exp.Query):
            yield f"a subquery was left in: {headline(node)}"
    yield from _shape(node)


def _shape(node: Node) -> Iterable[str]:  # noqa: C901  one case per operator
    match node:
        case Scan() | Distinct() | Negate() | Project() | Generate():
            return
        case Values():
            if any(len(row) != len(node.columns) for row in node.rows):
                yield f"a row has the wrong number of values: {headline(node)}"
        case Filter():
            yield from _boolean(node, (node.predicate,))
        case Join() | SemiJoin() | AntiJoin():
            if len(children(node)) < 2:
                yield f"a join of one input: {headline(node)}"
            yield from _disjoint(node)
            yield from _boolean(node, node.conditions)
        case OuterJoin():
            yield from _disjoint(node)
            yield from _boolean(node, node.conditions)
            yield from _padded(node)
        case Aggregate():
            yield from _same_types(node, node.keys, node.input.columns)
        case UnionAll():
            for child in node.inputs:
                if len(child.columns) != len(node.columns):
                    yield f"an input has the wrong number of columns: {headline(node)}"
                else:
                    yield from _aligned(node, node.columns, child.columns)
        case Window():
            for _, call in node.calls:
                if not isinstance(call, exp.Window):
                    yield f"not a window call: {headline(node)}"
        case TopK():
            if node.limit < 0 or node.offset < 0:
                yield f"a negative limit or offset: {headline(node)}"
        case Expand():
            if any(len(row) != len(node.columns) for row in node.projections):
                yield f"a projection has the wrong number of values: {headline(node)}"
        case _:
            assert_never(node)


def _boolean(node: Node, conditions: tuple[exp.Expression, ...]) -> Iterable[str]:
    for condition in conditions:
        if condition.type is not None and not condition.is_type(
            exp.DataType.Type.BOOLEAN, UNKNOWN, exp.DataType.Type.NULL
        ):
            yield f"a condition of type {condition.type} in: {headline(node)}"


def _disjoint(node: Node) -> Iterable[str]:
    seen: set[int] = set()
    for child in children(node):
        ids = {column.id for column in child.columns}
        for id in sorted(ids & seen):
            yield f"column {id} comes from two inputs of: {headline(node)}"
        seen |= ids


def _padded(node: OuterJoin) -> Iterable[str]:
    offered = node.left.columns + node.right.columns
    if [c.id for c in node.columns] != [c.id for c in offered]:
        yield f"the columns are not those of the inputs: {headline(node)}"
        return
    padded = node.right.columns + (node.left.columns if node.kind is OuterKind.FULL else ())
    must_be_nullable = {column.id for column in padded}
    for column in node.columns:
        if column.id in must_be_nullable and not column.nullable:
            yield f"padded column {column} is not nullable: {headline(node)}"


def _aligned(node: Node, columns: Schema, offered: Schema) -> Iterable[str]:
    for column, given in zip(columns, offered, strict=True):
        if not _compatible(column, given):
            yield f"{given} is {given.type}, not {column.type} as {column}: {headline(node)}"
        if given.nullable and not column.nullable:
            yield f"{given} is nullable and {column} is not: {headline(node)}"


def _same_types(node: Node, columns: Schema, offered: Schema) -> Iterable[str]:
    types = {column.id: column for column in offered}
    for column in columns:
        given = types.get(column.id)
        if given is not None and not _compatible(column, given):
            yield f"{column} is {column.type} here and {given.type} below: {headline(node)}"


def _compatible(a: Column, b: Column) -> bool:
    return a.type == b.type or a.type.this == UNKNOWN or b.type.this == UNKNOWN


def _twice(columns: Schema) -> list[Column]:
    seen: set[int] = set()
    result = []
    for column in columns:
        if column.id in seen:
            result.append(column)
        seen.add(column.id)
    return result


def _made_twice(plan: Node) -> list[str]:
    seen: set[int] = set()
    faults = []
    for node in nodes(plan):
        for column in made(node):
            if column.id in seen:
                faults.append(f"column {column} is made twice, here: {headline(node)}")
            seen.add(column.id)
    return faults


@kept
def made(node: Node) -> Schema:
    """The columns that exist from this node on; what passes through keeps its id."""
    match node:
        case Scan() | Values() | UnionAll():
            return node.columns
        case Project():
            return tuple(column for column, e in node.outputs if not _passes(column, e))
        case Aggregate() | Window():
            return tuple(column for column, _ in node.calls)
        case Generate():
            return node.generated
        case Expand():
            rows = node.projections
            return tuple(
                column
                for position, column in enumerate(node.columns)
                if not all(_passes(column, row[position]) for row in rows)
            )
        case (
            Filter()
            | Join()
            | OuterJoin()
            | SemiJoin()
            | AntiJoin()
            | Distinct()
            | Negate()
            | TopK()
        ):
            return ()
        case _:
            assert_never(node)


def _passes(column: Column, expression: exp.Expression) -> bool:
    return isinstance(expression, exp.Column) and column_id(expression) == column.id
