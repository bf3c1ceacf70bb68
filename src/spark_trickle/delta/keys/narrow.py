"""Where the touched keys can be read off: the smallest part of a delta that holds them all.

A set of touched keys may be too large, never too small. So whatever only filters or extends the
rows of a delta is left out, as long as what is left is bounded by a delta and has the key columns.
A partner in a join that is filtered itself stays: it may let few of the keys through.
"""

from __future__ import annotations

from typing import assert_never

from sqlglot import exp

from spark_trickle.delta.keys.equalities import Classes, across, equal_pairs, null_safe_equal
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
from spark_trickle.ir.scalars import column_id, column_ids
from spark_trickle.ir.types import Side
from spark_trickle.ir.walk import children, nodes, scans

Keys = tuple[int, ...]
KeyedPlan = tuple[Node, Keys]
"""A plan and the ids of its columns that hold the keys."""


def key_sources(rows: Node, keys: Keys) -> list[KeyedPlan]:
    """Plans whose rows together hold every key that occurs in ``rows``."""
    match rows:
        case UnionAll():
            found: dict[tuple[int, Keys], KeyedPlan] = {}
            places = {column.id: position for position, column in enumerate(rows.columns)}
            for child in rows.inputs:
                own = tuple(child.columns[places[id]].id for id in keys)
                for plan, ids in key_sources(child, own):
                    found.setdefault((id(plan), ids), (plan, ids))
            return list(found.values())
        case Negate():
            return key_sources(rows.input, keys)
        case Filter():
            return _filtered(rows, keys)
        case Project():
            passed = {c.id: column_id(e) for c, e in rows.outputs if isinstance(e, exp.Column)}
            if all(id in passed for id in keys):
                return key_sources(rows.input, tuple(passed[id] for id in keys))
            return [(rows, keys)]
        case Aggregate() | Distinct() | Window() | TopK() | Generate():
            below = {column.id for column in rows.input.columns}
            return key_sources(rows.input, keys) if below.issuperset(keys) else [(rows, keys)]
        case Join() | OuterJoin() | SemiJoin() | AntiJoin():
            smaller = _side(rows, keys)
            if smaller is None:
                return [(rows, keys)]
            partner = _sieve(rows, smaller[0])
            return key_sources(*smaller) if partner is None else _meeting(smaller, *partner)
        case Scan() | Values() | Expand():
            return [(rows, keys)]
        case _:
            assert_never(rows)


def _filtered(rows: Filter, keys: Keys) -> list[KeyedPlan]:
    """A filter stays where its columns do."""
    found: list[KeyedPlan] = []
    for plan, ids in key_sources(rows.input, keys):
        if plan is rows.input:
            return [(rows, keys)]
        offered = {column.id for column in plan.columns}
        kept = offered >= column_ids(rows.predicate) and not isinstance(plan, UnionAll)
        found.append((Filter(plan, rows.predicate) if kept else plan, ids))
    return found


def _side(rows: Join | OuterJoin | SemiJoin | AntiJoin, keys: Keys) -> KeyedPlan | None:
    """One input that is bounded by a delta and has all keys, or columns equal to them."""
    match rows:
        case Join():
            classes = Classes(equal_pairs(rows.conditions, rows.columns))
            for child in rows.inputs:
                own = {column.id for column in child.columns}
                equal = {classes.of(id): id for id in sorted(own)}
                ids = [id if id in own else equal.get(classes.of(id)) for id in keys]
                if bounded(child) and None not in ids:
                    return child, tuple(id for id in ids if id is not None)
            return None
        case OuterJoin() | AntiJoin() | SemiJoin():
            if isinstance(rows, OuterJoin) and rows.kind is OuterKind.FULL:
                return None
            own = {column.id for column in rows.left.columns}
            if own.issuperset(keys) and bounded(rows.left):
                return rows.left, keys
            return _restriction(rows, keys) if isinstance(rows, SemiJoin) else None


Pairs = list[tuple[int, int]]


def _sieve(rows: Join | OuterJoin | SemiJoin | AntiJoin, side: Node) -> tuple[Node, Pairs] | None:
    """An input that keeps few of its rows, and the columns that tie the side to it, the side's first."""
    if not isinstance(rows, Join | SemiJoin):
        return None
    inputs = children(rows)
    pairs = equal_pairs(rows.conditions, tuple(c for input in inputs for c in input.columns))
    for other in inputs:
        ties = across(pairs, side.columns, other.columns)
        if other is not side and ties and _filtered_sources(other) - _changed(side):
            return other, ties
    return None


_CHEAP = Scan | Filter | Project | SemiJoin | Join | Distinct | UnionAll


def _filtered_sources(node: Node) -> set[str]:
    """What a plan reads and filters; nothing if it does what is dear for each row."""
    below = list(nodes(node))
    if not all(isinstance(found, _CHEAP) for found in below):
        return set()
    read = [scan for found in below if isinstance(found, Filter) for scan in scans(found)]
    return {scan.source for scan in read if scan.side is not Side.DELTA}


def _changed(node: Node) -> set[str]:
    """The sources whose deltas bound a plan: these have passed their filters."""
    return {scan.source for scan in scans(node) if scan.side is Side.DELTA}


def _meeting(side: KeyedPlan, partner: Node, ties: Pairs) -> list[KeyedPlan]:
    """The keys of the rows that meet a row of the partner."""
    rows, keys = side
    offered = {column.id: column for column in partner.columns}
    found: list[KeyedPlan] = []
    for plan, ids in key_sources(rows, (*keys, *(own for own, _ in ties))):
        columns = {column.id: column for column in plan.columns}
        conditions = tuple(
            null_safe_equal(columns[id], offered[theirs])
            for id, (_, theirs) in zip(ids[len(keys) :], ties, strict=True)
        )
        found.append((SemiJoin(plan, partner, conditions), ids[: len(keys)]))
    return found


def _restriction(rows: SemiJoin, keys: Keys) -> KeyedPlan | None:
    """The right side of a semi join that is equal to the keys."""
    columns = rows.left.columns + rows.right.columns
    pairs = equal_pairs(rows.conditions, columns)
    partner = dict(across(pairs, rows.left.columns, rows.right.columns))
    if bounded(rows.right) and all(id in partner for id in keys):
        return rows.right, tuple(partner[id] for id in keys)
    return None


def bounded(node: Node) -> bool:
    """Whether every row of a plan goes back to a row of a delta, directly or by its key."""
    match node:
        case Scan():
            return node.side is Side.DELTA
        case Values():
            return True
        case Project() | Filter() | Negate() | Distinct() | Window() | TopK():
            return bounded(node.input)
        case Generate() | Expand() | Aggregate():
            return bounded(node.input)
        case UnionAll():
            return all(bounded(child) for child in node.inputs)
        case Join():
            return any(bounded(child) for child in node.inputs)
        case OuterJoin():
            full = node.kind is OuterKind.FULL
            return bounded(node.left) and (not full or bounded(node.right))
        case SemiJoin():
            return bounded(node.left) or bounded(node.right)
        case AntiJoin():
            return bounded(node.left)
        case _:
            assert_never(node)
