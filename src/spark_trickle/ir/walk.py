"""Ways to go through an operator tree: children, expressions, rewriting, renaming, sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import wraps
from typing import TypeVar, assert_never

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
    OuterJoin,
    Project,
    Scan,
    SemiJoin,
    TopK,
    UnionAll,
    Values,
    Window,
)
from spark_trickle.ir.scalars import column_ids, ref, substitute
from spark_trickle.ir.types import Column, Schema, Side

Found = TypeVar("Found")


def kept(about: Callable[[Node], Found]) -> Callable[[Node], Found]:
    """What is found out about a node is kept with it: neither it nor what is below it changes."""
    name = f"{about.__module__}.{about.__qualname__}"

    @wraps(about)
    def known(node: Node) -> Found:
        facts: dict[str, Found] = node.__dict__
        if name not in facts:
            facts[name] = about(node)
        return facts[name]

    return known


class ColumnIds:
    """Hands out column ids that no other column of the plan has."""

    def __init__(self, used: int = 0) -> None:
        self._last = used

    def column(self, name: str, type: exp.DataType, nullable: bool = True) -> Column:
        """A new column."""
        self._last += 1
        return Column(self._last, name, type, nullable)

    def copy(self, column: Column) -> Column:
        """The same name, type and nullability under a new id."""
        return self.column(column.name, column.type, column.nullable)


def fresh_ids(*nodes: Node) -> ColumnIds:
    """Ids above every id that occurs in the given plans."""
    return ColumnIds(max((max_id(node) for node in nodes), default=0))


def children(node: Node) -> tuple[Node, ...]:
    """The inputs of a node, left to right."""
    match node:
        case Scan() | Values():
            return ()
        case Join() | UnionAll():
            return node.inputs
        case OuterJoin() | SemiJoin() | AntiJoin():
            return (node.left, node.right)
        case (
            Project()
            | Filter()
            | Aggregate()
            | Distinct()
            | Negate()
            | Window()
            | TopK()
            | Generate()
            | Expand()
        ):
            return (node.input,)
        case _:
            assert_never(node)


def with_children(node: Node, inputs: tuple[Node, ...]) -> Node:
    """The node over other inputs; the inputs must offer the columns the node reads."""
    if all(a is b for a, b in zip(children(node), inputs, strict=True)):
        return node
    match node:
        case Scan() | Values():
            return node
        case Join() | UnionAll():
            return replace(node, inputs=inputs)
        case OuterJoin() | SemiJoin() | AntiJoin():
            return replace(node, left=inputs[0], right=inputs[1])
        case (
            Project()
            | Filter()
            | Aggregate()
            | Distinct()
            | Negate()
            | Window()
            | TopK()
            | Generate()
            | Expand()
        ):
            return replace(node, input=inputs[0])
        case _:
            assert_never(node)


def transform_up(node: Node, rule: Callable[[Node], Node]) -> Node:
    """Rewrite bottom-up: ``rule`` sees a node whose inputs are already rewritten."""
    return rule(with_children(node, tuple(transform_up(child, rule) for child in children(node))))


def nodes(node: Node) -> Iterator[Node]:
    """The node and everything below it, parents first."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += reversed(children(found))


def scans(node: Node) -> tuple[Scan, ...]:
    """All scans of a plan, left to right."""
    return tuple(found for found in nodes(node) if isinstance(found, Scan))


def expressions(node: Node) -> tuple[exp.Expression, ...]:
    """The scalar expressions a node holds itself."""
    match node:
        case Scan() | Distinct() | UnionAll() | Negate() | TopK():
            return ()
        case Values():
            return tuple(value for row in node.rows for value in row)
        case Project():
            return tuple(expression for _, expression in node.outputs)
        case Filter():
            return (node.predicate,)
        case Join() | OuterJoin() | SemiJoin() | AntiJoin():
            return node.conditions
        case Aggregate() | Window():
            return tuple(call for _, call in node.calls)
        case Generate():
            return (node.generator,)
        case Expand():
            return tuple(value for projection in node.projections for value in projection)
        case _:
            assert_never(node)


def map_expressions(node: Node, change: Callable[[exp.Expression], exp.Expression]) -> Node:
    """The node with each of its own expressions changed."""
    match node:
        case Scan() | Distinct() | UnionAll() | Negate() | TopK():
            return node
        case Values():
            return replace(node, rows=tuple(tuple(map(change, row)) for row in node.rows))
        case Project():
            return replace(node, outputs=tuple((column, change(e)) for column, e in node.outputs))
        case Filter():
            return replace(node, predicate=change(node.predicate))
        case Join() | OuterJoin() | SemiJoin() | AntiJoin():
            return replace(node, conditions=tuple(map(change, node.conditions)))
        case Aggregate() | Window():
            return replace(node, calls=tuple((column, change(e)) for column, e in node.calls))
        case Generate():
            return replace(node, generator=change(node.generator))
        case Expand():
            projections = tuple(tuple(map(change, row)) for row in node.projections)
            return replace(node, projections=projections)
        case _:
            assert_never(node)


def own_columns(node: Node) -> Schema:
    """Every column a node writes down itself: outputs, keys, order. Not those of its inputs."""
    match node:
        case Scan() | Values() | OuterJoin() | UnionAll() | Expand():
            return node.columns
        case Project():
            return node.columns
        case Filter() | Join() | SemiJoin() | AntiJoin() | Distinct() | Negate():
            return ()
        case Aggregate():
            return node.columns
        case Window():
            return node.partition_by + tuple(column for column, _ in node.calls)
        case TopK():
            return tuple(order.column for order in node.order) + node.partition_by
        case Generate():
            return node.generated
        case _:
            assert_never(node)


def map_columns(node: Node, change: Callable[[Column], Column]) -> Node:
    """The node with each column that it writes down itself changed; expressions stay."""

    def schema(columns: Schema) -> Schema:
        return tuple(map(change, columns))

    match node:
        case Scan() | Values() | OuterJoin() | UnionAll() | Expand():
            return replace(node, columns=schema(node.columns))
        case Project():
            return replace(node, outputs=tuple((change(c), e) for c, e in node.outputs))
        case Filter() | Join() | SemiJoin() | AntiJoin() | Distinct() | Negate():
            return node
        case Aggregate():
            calls = tuple((change(column), call) for column, call in node.calls)
            return replace(node, keys=schema(node.keys), calls=calls)
        case Window():
            calls = tuple((change(column), call) for column, call in node.calls)
            return replace(node, partition_by=schema(node.partition_by), calls=calls)
        case TopK():
            order = tuple(replace(key, column=change(key.column)) for key in node.order)
            return replace(node, order=order, partition_by=schema(node.partition_by))
        case Generate():
            return replace(node, generated=schema(node.generated))
        case _:
            assert_never(node)


@kept
def max_id(node: Node) -> int:
    """The largest column id in a plan, 0 if it has no column."""
    below = (max_id(child) for child in children(node))
    return max((*below, *(column.id for column in own_columns(node))), default=0)


@kept
def reads(node: Node) -> frozenset[int]:
    """The ids a node reads by name from its inputs: in expressions, keys and order.

    Distinct and UnionAll read every column of their inputs by position; they are not listed.
    """
    ids = frozenset[int]().union(*map(column_ids, expressions(node)))
    match node:
        case Aggregate():
            return ids | {column.id for column in node.keys}
        case Window():
            return ids | {column.id for column in node.partition_by}
        case TopK():
            return ids | {column.id for column in own_columns(node)}
        case _:
            return ids


def rename(node: Node, mapping: Mapping[int, Column]) -> Node:
    """The plan with columns replaced by id, wherever they are written, made or read."""
    references: dict[int, exp.Expression] = {id: ref(column) for id, column in mapping.items()}

    def change(column: Column) -> Column:
        target = mapping.get(column.id)
        if target is None:
            return column
        return replace(target, nullable=column.nullable)

    def rule(found: Node) -> Node:
        renamed = map_columns(found, change)
        return map_expressions(renamed, lambda e: substitute(e, references))

    return transform_up(node, rule)


def fresh_copy(node: Node, ids: ColumnIds) -> Node:
    """The same plan with a new id for every column, so that it can stand beside the original.

    Outputs keep their positions: ``zip(node.columns, fresh_copy(node, ids).columns)`` pairs them.
    """
    mapping: dict[int, Column] = {}
    for found in nodes(node):
        for column in own_columns(found):
            if column.id not in mapping:
                mapping[column.id] = ids.copy(column)
    return rename(node, mapping)


def at(node: Node, side: Side) -> Node:
    """The plan with every scan reading ``side``."""

    def rule(found: Node) -> Node:
        return replace(found, side=side) if isinstance(found, Scan) else found

    return transform_up(node, rule)


def used_columns(plan: Node) -> frozenset[int]:
    """The columns of all nodes that the plan makes use of, those it gives included."""
    used = {column.id for column in plan.columns}
    for node in nodes(plan):
        used |= reads(node)
        if isinstance(node, Distinct | UnionAll):
            used |= {column.id for child in children(node) for column in child.columns}
    return frozenset(used)
