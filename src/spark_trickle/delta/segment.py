"""Which sub-plans keep private state, and the parts a query falls into: segments, then the result.

The rule. An operator with a key (aggregate, distinct, window, top-k) is cut out and stored when
1. it is an aggregate or distinct whose state a delta extends (``additive``, ``extremum``), or
2. something above it would need its rows at before or after, recomputed from whole tables
   (``touched``: only the touched keys are recomputed; what they replace is read from the state).
It is not cut when
3. it is what the result itself stores, key included: the result is its own state; or
4. it is below another operator, recomputes the same value every time, and its key leads the order
   in which its one source is stored, so that a restriction reads few files (TPC-H q18).
What is joined with a single value, the row of an aggregate without keys, is stored too, if it is
5. more than one filtered scan and not joined by an equality, which few rows would meet: whenever
   the value moves, all of it is read (TPC-H q22).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from sqlglot import exp

from spark_trickle.delta.laws.touched import Keyed, keys_of
from spark_trickle.delta.layout import clustered, likely_key
from spark_trickle.delta.state import AggregateState, finalised, state_of
from spark_trickle.ir.aggregates import Extremum, Other, classify
from spark_trickle.ir.explain import explain
from spark_trickle.ir.nodes import (
    Aggregate,
    AntiJoin,
    Distinct,
    Filter,
    Join,
    Node,
    Project,
    Scan,
    SemiJoin,
    TopK,
    Window,
)
from spark_trickle.ir.scalars import column_id, column_ids, conjunction, ref
from spark_trickle.ir.types import Column, Schema, TableSchema
from spark_trickle.ir.walk import (
    ColumnIds,
    children,
    fresh_copy,
    fresh_ids,
    kept,
    nodes,
    scans,
    with_children,
)

RESULT = "__result"
"""The name under which the result's own stored rows are scanned."""


class Strategy(Enum):
    """How the delta of a part is found."""

    ALGEBRA = "algebra"
    """By the laws of its operators, from the deltas of its inputs."""
    ADDITIVE = "additive"
    """Sums over the delta are added to the stored state."""
    EXTREMUM = "extremum"
    """As additive, with MIN and MAX: a group is recomputed only when its extremum was deleted."""
    TOUCHED = "touched"
    """The touched keys are recomputed at after; what is stored for them is replaced."""


@dataclass(frozen=True)
class Part:
    """A table to be stored: a segment, or the result."""

    name: str
    plan: Node
    columns: Schema
    """Those of ``plan`` by position and id, under the names they are stored with."""
    keys: Schema
    """The columns by which stored rows are found and replaced: good to cluster by."""
    strategy: Strategy
    extrema: tuple[tuple[Column, Extremum], ...] = ()
    """The stored columns that are MIN or MAX, under ``EXTREMUM``."""
    counts: Schema = ()
    """The stored columns that count rows of a group, beside ``__rows``."""


def cut(
    plan: Node, sources: Mapping[str, TableSchema], outputs: tuple[str, ...] | None = None
) -> tuple[Part, ...]:
    """The segments of a query in the order in which they are computed, then its result."""
    sources = {source.name: source for source in sources.values()}
    cutter = _Cutter(sources, fresh_ids(plan))
    names = outputs or tuple(column.name for column in plan.columns)
    columns = tuple(replace(c, name=n) for c, n in zip(plan.columns, names, strict=True))
    stored = core(plan)
    if isinstance(stored, Keyed) and scans(stored) and state_for(stored, ColumnIds(0)) is None:
        shown = {column.id: column for column in columns}
        own = [shown.get(id) for id in _passed(plan, stored, keys_of(stored))]
        keys = tuple(column for column in own if column is not None)
        if len(keys) == len(own):
            below = cutter.rewrite(stored.input, top=False)
            whole = _rebuilt(plan, stored, with_children(stored, (below,)))
            result = Part(RESULT, whole, columns, keys, Strategy.TOUCHED)
            return (*cutter.parts, result)
    rewritten = cutter.rewrite(plan, top=True)
    shown = {column.id: column for column in columns}
    key = likely_key(rewritten, sources, {part.name: part.keys for part in cutter.parts})
    keys = tuple(shown[column.id] for column in key)
    result = Part(RESULT, rewritten, columns, keys, Strategy.ALGEBRA)
    return (*cutter.parts, result)


class _Cutter:
    def __init__(self, sources: Mapping[str, TableSchema], ids: ColumnIds) -> None:
        self.parts: list[Part] = []
        self._sources = sources
        self._ids = ids
        self._known: dict[tuple[object, ...], list[Part]] = {}

    def rewrite(self, node: Node, *, top: bool) -> Node:
        """The plan with scans of segments in place of what was cut out."""
        still_top = top and isinstance(node, Project | Filter)
        inputs = tuple(self.rewrite(child, top=still_top) for child in children(node))
        node = self._beside_value(with_children(node, inputs))
        if not isinstance(node, Keyed) or not scans(node) or not node.columns:
            return node
        if not top and _repeatable(node) and clustered(node, self._sources):
            return node
        state = state_for(node, self._ids)
        if state is None:
            stored = self._store(Part("", node, (), keys_of(node), Strategy.TOUCHED))
            pairs = zip(node.columns, stored.columns, strict=True)
            return Project(stored, tuple((column, ref(own)) for column, own in pairs))
        strategy = Strategy.EXTREMUM if state.extrema else Strategy.ADDITIVE
        aggregate = state.aggregate
        part = Part("", aggregate, (), aggregate.keys, strategy, state.extrema, state.counts)
        stored = self._store(part)
        return finalised(state, stored)

    def _beside_value(self, node: Node) -> Node:
        """A join with a single value, with all that the value is joined with stored."""
        node = filtered_first(node, self._is_value)
        if not isinstance(node, Join):
            return node
        values = tuple(child for child in node.inputs if self._is_value(child))
        others = tuple(child for child in node.inputs if not self._is_value(child))
        if not values or not others or (len(others) == 1 and isinstance(core(others[0]), Scan)):
            return node
        known = {column.id for child in others for column in child.columns}
        if not known or not any(map(scans, others)):
            return node  # no column to store, or rows that never change: SELECT without FROM
        inside = tuple(c for c in node.conditions if column_ids(c) <= known)
        rest = tuple(c for c in node.conditions if c not in inside)
        if any(isinstance(condition, exp.EQ | exp.NullSafeEQ) for condition in rest):
            return node
        whole: Node = Join(others, inside) if len(others) > 1 else others[0]
        if len(others) == 1 and inside:
            whole = Filter(whole, conjunction(inside))
        keys = likely_key(whole, self._sources, {part.name: part.keys for part in self.parts})
        stored = self._store(Part("", whole, (), keys, Strategy.ALGEBRA))
        named = zip(whole.columns, stored.columns, strict=True)
        same = Project(stored, tuple((column, ref(own)) for column, own in named))
        order = {column.id: place for place, column in enumerate(node.columns)}
        joined = Join((same, *values), rest)
        if [order[column.id] for column in joined.columns] == sorted(order.values()):
            return joined
        return Project(joined, tuple((column, ref(column)) for column in node.columns))

    def _is_value(self, node: Node) -> bool:
        """Whether a plan is the single row of a segment without keys."""
        bottom = core(node)
        parts = [p for p in self.parts if isinstance(bottom, Scan) and p.name == bottom.source]
        return any(isinstance(p.plan, Aggregate) and not p.keys for p in parts)

    def _store(self, unnamed: Part) -> Scan:
        """A scan of the segment that holds the part; equal plans share one."""
        shape = _shape(unnamed.plan)
        # Few plans are alike, and only those are worth to be written out.
        alike = self._known.setdefault(shape, [])
        signature = _signature(unnamed.plan) if alike else ""
        part = next((each for each in alike if _signature(each.plan) == signature), None)
        if part is None:
            columns = _stored_names(unnamed.plan.columns)
            offered = {column.id: column for column in columns}
            keys = tuple(offered[key.id] for key in unnamed.keys)
            name = f"__segment_{len(self.parts) + 1}"
            part = replace(unnamed, name=name, columns=columns, keys=keys)
            self.parts.append(part)
            alike.append(part)
        return Scan(part.name, tuple(self._ids.copy(column) for column in part.columns))


def filtered_first(node: Node, is_value: Callable[[Node], bool]) -> Node:
    """Semi and anti joins below a join with a single value, whose columns they do not test.

    They keep or drop rows by the columns of the other inputs, so the order does not matter.
    """
    if not isinstance(node, SemiJoin | AntiJoin) or not isinstance(node.left, Join):
        return node
    join = node.left
    tested = {id for condition in node.conditions for id in column_ids(condition)}
    for place, child in enumerate(join.inputs):
        own = {column.id for column in child.columns}
        others = {column.id for column in join.columns} - own
        if any(map(is_value, join.inputs)) and not is_value(child) and not tested & others:
            filtered = replace(node, left=child)
            inputs = (*join.inputs[:place], filtered, *join.inputs[place + 1 :])
            return replace(join, inputs=inputs)
    return node


def state_for(node: Keyed, ids: ColumnIds) -> AggregateState | None:
    """The additive state of a keyed operator, None where it has none."""
    match node:
        case Aggregate() | Distinct():
            return state_of(node, ids)
        case Window() | TopK():
            return None


def core(plan: Node) -> Node:
    """What is below the projections and filters at the top."""
    while isinstance(plan, Project | Filter):
        plan = plan.input
    return plan


def _rebuilt(plan: Node, core: Node, other: Node) -> Node:
    """The plan with ``other`` in place of its core."""
    if plan is core:
        return other
    assert isinstance(plan, Project | Filter)
    return replace(plan, input=_rebuilt(plan.input, core, other))


def _passed(plan: Node, core: Node, keys: Schema) -> list[int]:
    """The ids under which the keys of the core leave the plan; -1 for one that does not."""
    if plan is core:
        return [key.id for key in keys]
    assert isinstance(plan, Project | Filter)
    below = _passed(plan.input, core, keys)
    if isinstance(plan, Filter):
        return below
    passes = {column_id(e): c.id for c, e in plan.outputs if isinstance(e, exp.Column)}
    return [passes.get(id, -1) for id in below]


def _repeatable(node: Keyed) -> bool:
    """Whether the same rows always give the same values, in whatever order they come."""
    match node:
        case Aggregate():
            return not any(isinstance(classify(call), Other) for _, call in node.calls)
        case Distinct() | TopK():
            return True
        case Window():
            return False


def _stored_names(columns: Schema) -> tuple[Column, ...]:
    """Columns under plain names that differ even without regard to case."""
    taken: set[str] = set()
    named = []
    for column in columns:
        plain = re.sub(r"\W+", "_", column.name).strip("_") if column.name[:2] != "__" else ""
        plain = plain or column.name
        name, number = plain, 1
        while name.lower() in taken:
            number += 1
            name = f"{plain}_{number}"
        taken.add(name.lower())
        named.append(replace(column, name=name))
    return tuple(named)


def _shape(plan: Node) -> tuple[object, ...]:
    """What plans with one signature have in common, and nearly always they alone."""
    return tuple(
        (type(node), len(node.columns), node.source if isinstance(node, Scan) else None)
        for node in nodes(plan)
    )


@kept
def _signature(plan: Node) -> str:
    copy = fresh_copy(plan, ColumnIds(0))
    types = " ".join(column.type.sql() for column in copy.columns)
    return f"{explain(copy)}{types}"
