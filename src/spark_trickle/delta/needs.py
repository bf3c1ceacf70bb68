"""What a delta plan needs of each source: columns, and only rows whose keys occur in some delta.

Whoever reads the sources can prune files and rows by it: a scan that is joined or restricted by
``x = d`` with d a column of a delta needs only rows whose x is a value of d there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from sqlglot import exp

from spark_trickle.delta.equalities import Classes, equal_pairs, same_column
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
from spark_trickle.ir.types import Schema, Version

Origins = frozenset[tuple[str, str]]
"""Columns of deltas, each as (source, column)."""

Bounds = Mapping[int, Origins]
"""Columns each of whose values occurs at one of the origins, NULL included."""


@dataclass(frozen=True)
class Need:
    """What is needed of a source at a version."""

    source: str
    version: Version
    columns: frozenset[str]
    keys: tuple[Mapping[str, Origins], ...] | None
    """Rows are needed if, for one entry, each column's value occurs at one of its origins.

    None: all rows are needed.
    """


def needs(plan: Node) -> tuple[Need, ...]:
    """The needs of a delta plan, one per source and version."""
    found: list[tuple[Scan, Mapping[str, Origins]]] = []
    _collect(plan, {}, found)
    merged: dict[tuple[str, Version], Need] = {}
    for scan, keys in found:
        place = (scan.source, scan.version)
        known = merged.get(place, Need(scan.source, scan.version, frozenset(), ()))
        all_rows = known.keys is None or not keys
        choices = None if all_rows else _with(known.keys or (), keys)
        columns = known.columns | {column.name for column in scan.columns}
        merged[place] = Need(scan.source, scan.version, columns, choices)
    return tuple(merged[place] for place in sorted(merged, key=lambda p: (p[0], p[1].value)))


def _with(
    known: tuple[Mapping[str, Origins], ...], keys: Mapping[str, Origins]
) -> tuple[Mapping[str, Origins], ...]:
    return known if keys in known else (*known, keys)


def _collect(  # noqa: C901  one case per operator
    node: Node, bounds: Bounds, found: list[tuple[Scan, Mapping[str, Origins]]]
) -> None:
    """Carry bounds down to the scans; only what an operator lets through goes on."""
    match node:
        case Scan():
            if node.version is Version.DELTA:
                found.append((node, {}))
            else:
                keys = {c.name: bounds[c.id] for c in node.columns if c.id in bounds}
                found.append((node, keys))
        case Values():
            return
        case Filter() | Distinct() | Negate():
            _collect(node.input, bounds, found)
        case Project():
            passed = [(c.id, column_id(e)) for c, e in node.outputs if isinstance(e, exp.Column)]
            _collect(node.input, {b: bounds[a] for a, b in passed if a in bounds}, found)
        case Aggregate():
            _collect(node.input, _only(bounds, node.keys), found)
        case Window() | TopK():
            _collect(node.input, _only(bounds, node.partition_by), found)
        case Generate():
            _collect(node.input, _only(bounds, node.input.columns), found)
        case Expand():
            _collect(node.input, {}, found)
        case UnionAll():
            for child in node.inputs:
                pairs = zip(node.columns, child.columns, strict=True)
                _collect(child, {b.id: bounds[a.id] for a, b in pairs if a.id in bounds}, found)
        case Join():
            shared = _spread(node.conditions, node.columns, bounds, node.inputs)
            for child in node.inputs:
                _collect(child, _only(shared, child.columns), found)
        case OuterJoin() | SemiJoin() | AntiJoin():
            _collect_pair(node, bounds, found)
        case _:
            assert_never(node)


def _collect_pair(
    node: OuterJoin | SemiJoin | AntiJoin,
    bounds: Bounds,
    found: list[tuple[Scan, Mapping[str, Origins]]],
) -> None:
    columns = node.left.columns + node.right.columns
    if isinstance(node, OuterJoin) and node.kind is OuterKind.FULL:
        left: Bounds = {}
        right: Bounds = {}
    else:
        own = _only(bounds, node.left.columns)
        both = (node.left, node.right) if isinstance(node, SemiJoin) else (node.left,)
        left = _spread(node.conditions, columns, own, both) if len(both) == 2 else own
        right = _spread(node.conditions, columns, left, (node.left,))
    _collect(node.left, _only(left, node.left.columns), found)
    _collect(node.right, _only(right, node.right.columns), found)


def _spread(
    conditions: Iterable[exp.Expression], columns: Schema, bounds: Bounds, inputs: Iterable[Node]
) -> dict[int, Origins]:
    """Bounds and the origins of inputs, carried along the equalities of a join."""
    known = dict(bounds)
    for child in inputs:
        known |= _origins(child)
    classes = Classes(equal_pairs(conditions, columns))
    by_class = {classes.of(id): origin for id, origin in known.items()}
    spread = {c.id: by_class[classes.of(c.id)] for c in columns if classes.of(c.id) in by_class}
    return spread | known


def _only(bounds: Bounds, columns: Schema) -> dict[int, Origins]:
    return {column.id: bounds[column.id] for column in columns if column.id in bounds}


def _origins(node: Node) -> dict[int, Origins]:
    """The columns of a plan whose values all come from a delta."""
    match node:
        case Scan():
            if node.version is not Version.DELTA:
                return {}
            return {c.id: frozenset({(node.source, c.name)}) for c in node.columns}
        case Project():
            below = _origins(node.input)
            passed = [(c.id, same_column(e)) for c, e in node.outputs]
            return {a: below[b] for a, b in passed if b is not None and b in below}
        case Filter() | Distinct() | Negate() | Generate() | Window() | TopK():
            return _origins(node.input)
        case Aggregate():
            return _only(_origins(node.input), node.keys)
        case Join():
            return _spread(node.conditions, node.columns, {}, node.inputs)
        case SemiJoin():
            columns = node.left.columns + node.right.columns
            spread = _spread(node.conditions, columns, {}, (node.left, node.right))
            return _only(spread, node.left.columns)
        case OuterJoin() if node.kind is OuterKind.FULL:
            return {}
        case OuterJoin() | AntiJoin():
            return _origins(node.left)
        case UnionAll():
            return _common(node)
        case Values() | Expand():
            return {}
        case _:
            assert_never(node)


def _common(node: UnionAll) -> dict[int, Origins]:
    """The columns that have an origin in every input."""
    below = [_origins(child) for child in node.inputs]
    found: dict[int, Origins] = {}
    for position, column in enumerate(node.columns):
        ids = [child.columns[position].id for child in node.inputs]
        if all(id in origins for id, origins in zip(ids, below, strict=True)):
            parts = (origins[id] for id, origins in zip(ids, below, strict=True))
            found[column.id] = frozenset[tuple[str, str]]().union(*parts)
    return found
