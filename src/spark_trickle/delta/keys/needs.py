"""What a delta plan needs of each source: only rows that an equality ties to a delta.

Law: in a join, a row of one input matters only if its value of an equated column occurs in the
other; likewise on both sides of a semi join, and on the right of a left or anti join. So each scan
of the plan can be cut down to the values found in a delta, or in another scan already cut down, in
any order, and the plan gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, assert_never

from sqlglot import exp

from spark_trickle.delta.keys.equalities import Classes, equal_pairs, same_column
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
from spark_trickle.ir.scalars import column_id, column_ids, conjuncts, substitute
from spark_trickle.ir.types import Schema, Side
from spark_trickle.ir.walk import children

T = TypeVar("T")

Origins = frozenset[tuple[int, str]]
"""Columns of needs, each as (number of the need, column): a value occurs at one of them."""

ColumnBounds = Mapping[int, frozenset[Origins]]
"""By column: a row matters only if its value, NULL included, occurs in each of these."""

KeyBounds = Mapping[str, frozenset[Origins]]


@dataclass(frozen=True)
class Need:
    """What one scan of the plan needs of its source."""

    source: str
    side: Side
    columns: frozenset[str]
    keys: KeyBounds
    """Rows matter only if each column's value occurs in each of its origins; none: all rows do, as
    of a delta, which is there before anything is looked for."""
    tests: tuple[exp.Expression, ...] = ()
    """Rows matter only if they pass; columns are written by their names."""
    ties: KeyBounds = field(default_factory=dict)
    """Of a delta: what ``keys`` would be; rows that meet nothing of what was found do not matter."""


def needs(plan: Node) -> tuple[Need, ...]:
    """The needs of the scans of a delta plan; their numbers are their positions."""
    found: list[Need] = []
    _push(_place(plan, found), {}, (), found)
    return tuple(found)


def by_deltas(found: Sequence[Need]) -> dict[tuple[str, Side], list[KeyBounds] | None]:
    """The keys by source and side that deltas alone give; None: some scan needs all rows."""
    merged: dict[tuple[str, Side], list[KeyBounds] | None] = {}
    for need in found:
        keys = {}
        for column, bounds in need.keys.items():
            direct = frozenset(b for b in bounds if all(_is_delta(found[n]) for n, _ in b))
            if direct:
                keys[column] = direct
        known = merged.setdefault((need.source, need.side), [])
        if not keys:
            merged[need.source, need.side] = None
        elif known is not None and keys not in known:
            known.append(keys)
    return merged


def _is_delta(need: Need) -> bool:
    return need.side is Side.DELTA


@dataclass
class _Place:
    """A node where it stands in the plan; a node that is shared stands in several places."""

    node: Node
    inputs: list[_Place]
    number: int = -1
    """Of the need, if the node is a scan."""
    origins: dict[int, Origins] = field(default_factory=dict)
    """The columns whose values all occur at the columns of needs."""


def _place(node: Node, found: list[Need]) -> _Place:
    place = _Place(node, [_place(child, found) for child in children(node)])
    if isinstance(node, Scan):
        place.number = len(found)
        columns = frozenset(column.name for column in node.columns)
        found.append(Need(node.source, node.side, columns, {}))
    place.origins = _origins(place)
    return place


def _origins(place: _Place) -> dict[int, Origins]:
    node, below = place.node, [child.origins for child in place.inputs]
    match node:
        case Scan():
            return {c.id: frozenset({(place.number, c.name)}) for c in node.columns}
        case Project():
            passed = [(c.id, same_column(e)) for c, e in node.outputs]
            return {a: below[0][b] for a, b in passed if b is not None and b in below[0]}
        case Filter() | Distinct() | Negate() | Generate() | Window() | TopK():
            return below[0]
        case Aggregate():
            return _only(below[0], node.keys)
        case Join():
            return {id: origins for each in below for id, origins in each.items()}
        case SemiJoin() | AntiJoin():
            return below[0]
        case OuterJoin():
            return {} if node.kind is OuterKind.FULL else below[0]
        case UnionAll():
            return _common(node, below)
        case Values() | Expand():
            return {}
        case _:
            assert_never(node)


def _common(node: UnionAll, below: list[dict[int, Origins]]) -> dict[int, Origins]:
    """The columns that have origins in every input."""
    found: dict[int, Origins] = {}
    for position, column in enumerate(node.columns):
        ids = [child.columns[position].id for child in node.inputs]
        if all(id in origins for id, origins in zip(ids, below, strict=True)):
            parts = (origins[id] for id, origins in zip(ids, below, strict=True))
            found[column.id] = Origins().union(*parts)
    return found


Tests = tuple[exp.Expression, ...]


def _push(place: _Place, bounds: ColumnBounds, tests: Tests, found: list[Need]) -> None:
    """Carry bounds and tests down to the scans; only what an operator lets through goes on."""
    below = _bounds_below(place, bounds)
    for child, own, passed in zip(place.inputs, below, _tests_below(place, tests), strict=True):
        _push(child, own, passed, found)
    node = place.node
    if isinstance(node, Scan):
        names: dict[int, exp.Expression] = {c.id: exp.column(c.name) for c in node.columns}
        told = tuple(substitute(test, names) for test in tests)
        keys = {c.name: bounds[c.id] for c in node.columns if c.id in bounds}
        need, is_delta = replace(found[place.number], tests=told), node.side is Side.DELTA
        found[place.number] = replace(need, ties=keys) if is_delta else replace(need, keys=keys)


def _tests_below(place: _Place, tests: Tests) -> list[Tests]:
    node = place.node
    if isinstance(node, Filter):
        tests = (*tests, *conjuncts(node.predicate))
    full = isinstance(node, OuterJoin) and node.kind is OuterKind.FULL
    if not isinstance(node, Filter | Negate | Distinct | Join | SemiJoin | AntiJoin | OuterJoin):
        return [() for _ in place.inputs]
    passed = []
    for position, child in enumerate(place.inputs):
        own = {column.id for column in child.node.columns}
        kept = full or (position > 0 and not isinstance(node, Join))
        passed.append(() if kept else tuple(t for t in tests if column_ids(t) <= own))
    return passed


def _bounds_below(  # noqa: C901  one case per operator
    place: _Place, bounds: ColumnBounds
) -> list[ColumnBounds]:
    node = place.node
    match node:
        case Scan() | Values():
            return []
        case Filter() | Distinct() | Negate():
            return [bounds]
        case Project():
            passed = [(c.id, column_id(e)) for c, e in node.outputs if isinstance(e, exp.Column)]
            return [{b: bounds[a] for a, b in passed if a in bounds}]
        case Aggregate():
            return [_only(bounds, node.keys)]
        case Window() | TopK():
            return [_only(bounds, node.partition_by)]
        case Generate():
            return [_only(bounds, node.input.columns)]
        case Expand():
            return [{}]
        case UnionAll():
            pairs = [zip(node.columns, child.columns, strict=True) for child in node.inputs]
            return [{b.id: bounds[a.id] for a, b in each if a.id in bounds} for each in pairs]
        case Join():
            return _joined(place, node.conditions, bounds, range(len(place.inputs)))
        case SemiJoin():
            return _joined(place, node.conditions, bounds, (0, 1))
        case AntiJoin() | OuterJoin():
            if isinstance(node, OuterJoin) and node.kind is OuterKind.FULL:
                return [{}, {}]
            own = _only(bounds, node.left.columns)
            return [own, _joined(place, node.conditions, own, (0,))[1]]
        case _:
            assert_never(node)


def _joined(
    place: _Place, conditions: Iterable[exp.Expression], bounds: ColumnBounds, givers: Iterable[int]
) -> list[ColumnBounds]:
    """For each input: the bounds, and the origins of the givers but itself, along equalities."""
    schemas = [child.node.columns for child in place.inputs]
    classes = Classes(equal_pairs(conditions, tuple(c for schema in schemas for c in schema)))
    outer: dict[int, frozenset[Origins]] = {}
    for id, choices in bounds.items():
        outer[classes.of(id)] = outer.get(classes.of(id), frozenset()) | choices
    given = set(givers)
    below: list[ColumnBounds] = []
    for taker, schema in enumerate(schemas):
        known = dict(outer)
        for giver in given - {taker}:
            for id, origins in place.inputs[giver].origins.items():
                group = classes.of(id)
                known[group] = known.get(group, frozenset()) | {origins}
        below.append({c.id: known[classes.of(c.id)] for c in schema if classes.of(c.id) in known})
    return below


def _only(bounds: Mapping[int, T], columns: Schema) -> dict[int, T]:
    return {column.id: bounds[column.id] for column in columns if column.id in bounds}
