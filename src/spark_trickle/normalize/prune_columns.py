"""Columns nobody reads are not read: a change to such a column is no change of the result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

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
from spark_trickle.ir.scalars import ref
from spark_trickle.ir.types import Column, Schema
from spark_trickle.ir.walk import reads

Wanted = frozenset[int]


def prune_columns(plan: Node) -> Node:
    """The plan with the same columns, reading as few columns below as it can."""
    return _exactly(_pruned(plan, _ids(plan.columns)), plan.columns)


def _ids(columns: Iterable[Column]) -> Wanted:
    return frozenset(column.id for column in columns)


def _exactly(node: Node, columns: Schema) -> Node:
    """The node with exactly these columns, where position or number of columns matters."""
    if [c.id for c in node.columns] == [c.id for c in columns]:
        return node
    offered = {column.id: column for column in node.columns}
    return Project(node, tuple((offered[c.id], ref(offered[c.id])) for c in columns))


def _pruned(node: Node, wanted: Wanted) -> Node:  # noqa: C901  one case per operator
    """The node with at least the wanted columns it has; some others may stay."""
    below = wanted | reads(node)
    match node:
        case Scan():
            return replace(node, columns=_some(node.columns, wanted))
        case Values():
            return _values(node, wanted)
        case Project():
            outputs = tuple(pair for pair in node.outputs if pair[0].id in wanted)
            outputs = outputs or node.outputs[:1]
            kept = Project(node.input, outputs)
            return Project(_pruned(node.input, reads(kept)), outputs)
        case Filter() | TopK() | Negate():
            return replace(node, input=_pruned(node.input, below))
        case Join():
            return replace(node, inputs=tuple(_pruned(child, below) for child in node.inputs))
        case OuterJoin():
            return _outer(node, below)
        case SemiJoin() | AntiJoin():
            right = _pruned(node.right, reads(node))
            return replace(node, left=_pruned(node.left, below), right=right)
        case Aggregate():
            calls = tuple(pair for pair in node.calls if pair[0].id in wanted)
            kept_calls = replace(node, calls=calls)
            return replace(kept_calls, input=_pruned(node.input, reads(kept_calls)))
        case Distinct():
            input = _pruned(node.input, _ids(node.input.columns))
            return Distinct(_exactly(input, node.input.columns))
        case UnionAll():
            return _union(node, wanted)
        case Window():
            return _window(node, wanted)
        case Generate():
            return replace(node, input=_pruned(node.input, below))
        case Expand():
            return _expand(node, wanted)
        case _:
            assert_never(node)


def _some(columns: Schema, wanted: Wanted) -> Schema:
    """The wanted columns; one that is never NULL if none is, since rows must still be counted."""
    kept = tuple(column for column in columns if column.id in wanted)
    if kept or not columns:
        return kept
    return (min(columns, key=lambda column: column.nullable),)


def _values(node: Values, wanted: Wanted) -> Node:
    kept = [i for i, column in enumerate(node.columns) if column.id in wanted]
    columns = tuple(node.columns[i] for i in kept)
    return Values(columns, tuple(tuple(row[i] for i in kept) for row in node.rows))


def _outer(node: OuterJoin, below: Wanted) -> Node:
    left, right = _pruned(node.left, below), _pruned(node.right, below)
    mine = {column.id: column for column in node.columns}
    columns = tuple(mine[column.id] for column in left.columns + right.columns)
    return replace(node, left=left, right=right, columns=columns)


def _union(node: UnionAll, wanted: Wanted) -> Node:
    kept = [i for i, column in enumerate(node.columns) if column.id in wanted]
    kept = kept or [0][: len(node.columns)]
    inputs = []
    for child in node.inputs:
        columns = tuple(child.columns[i] for i in kept)
        inputs.append(_exactly(_pruned(child, _ids(columns)), columns))
    return UnionAll(tuple(inputs), tuple(node.columns[i] for i in kept))


def _window(node: Window, wanted: Wanted) -> Node:
    """Rows that differ only in what nobody reads must be equal, or numbering them is a choice."""
    calls = tuple(pair for pair in node.calls if pair[0].id in wanted)
    if not calls:
        return _pruned(node.input, wanted)
    kept = replace(node, calls=calls)
    below = wanted | reads(kept)
    input = _pruned(node.input, below)
    read = tuple(column for column in input.columns if column.id in below)
    return replace(kept, input=_exactly(input, read) if read else input)


def _expand(node: Expand, wanted: Wanted) -> Node:
    kept = [i for i, column in enumerate(node.columns) if column.id in wanted]
    rows = tuple(tuple(row[i] for i in kept) for row in node.projections)
    smaller = Expand(node.input, tuple(node.columns[i] for i in kept), rows)
    return replace(smaller, input=_pruned(node.input, reads(smaller)))
