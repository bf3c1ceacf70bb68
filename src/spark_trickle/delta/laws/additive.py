"""D(state) = (state + sums over D(x) per group, where rows remain) - state, of the groups in D(x).

Reads the delta and the stored state of its groups; never the input itself. A state without keys
is one row that stays when no rows remain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from spark_trickle.delta.keys.equalities import null_safe_equal
from spark_trickle.delta.laws.change import difference
from spark_trickle.delta.state import ROWS
from spark_trickle.ir.nodes import (
    Aggregate,
    Filter,
    Join,
    Node,
    OuterJoin,
    OuterKind,
    Project,
    Scan,
)
from spark_trickle.ir.scalars import disjunction, ref
from spark_trickle.ir.trees import duplicate
from spark_trickle.ir.types import Column, Schema, Side
from spark_trickle.ir.walk import ColumnIds


@dataclass(frozen=True)
class TouchedGroups:
    """The groups in a delta, each beside its stored state, which is NULL for a new group."""

    plan: Node
    keys: Schema
    """As the delta has them."""
    stored: dict[int, Column]
    """For each column of the state, its stored value in ``plan``."""
    before: Scan
    """The stored state itself."""


@dataclass(frozen=True)
class StoredState:
    """A state and the table that holds it; ``columns`` are the table's, by position."""

    state: Aggregate
    name: str
    columns: Schema


def delta_state(stored: StoredState, delta: Node, ids: ColumnIds) -> Node:
    """The change of a stored state."""
    state = stored.state
    sums = beside_stored(replace(state, input=delta), ids)
    moved = [changed(column) for column in sums.columns[len(state.keys) :]]
    groups = touched_groups(stored, sums, moved, ids)
    added = dict(zip((c.id for c in state.columns), sums.columns, strict=True))
    outputs: list[tuple[Column, exp.Expression]]
    outputs = [(key, ref(added[key.id])) for key in state.keys]
    outputs += [(c, plus(groups.stored[c.id], added[c.id])) for c, _ in state.calls]
    merged = Project(groups.plan, tuple(outputs))
    return replaced(state, groups, merged, tuple(column for column, _ in state.calls))


def beside_stored(sums: Node, ids: ColumnIds) -> Node:
    """The sums of the delta under ids of their own, to stand beside the stored ones."""
    return Project(sums, tuple((ids.copy(column), ref(column)) for column in sums.columns))


def changed(sum: Column) -> exp.Expression:
    """Whether the delta adds to a sum."""
    return exp.NEQ(this=ref(sum), expression=exp.Literal.number(0))


def touched_groups(
    stored: StoredState, sums: Node, moved: list[exp.Expression], ids: ColumnIds
) -> TouchedGroups:
    """Each group of ``sums``, whose keys come first, with what is stored for it.

    A delta may hold a row with +1 and again with -1, so only groups where something ``moved``
    need be looked up.
    """
    state = stored.state
    columns = tuple(ids.copy(column) for column in stored.columns)
    before = Scan(stored.name, columns, Side.BEFORE)
    own = dict(zip((c.id for c in state.columns), before.columns, strict=True))
    keys = sums.columns[: len(state.keys)]
    if not keys:
        return TouchedGroups(Join((sums, before)), keys, own, before)
    sums = Filter(sums, has_moved(moved))
    conditions = tuple(
        null_safe_equal(key, own[column.id]) for key, column in zip(keys, state.keys, strict=True)
    )
    padded = tuple(replace(column, nullable=True) for column in before.columns)
    plan = OuterJoin(sums, before, OuterKind.LEFT, conditions, sums.columns + padded)
    return TouchedGroups(plan, keys, own, before)


def has_moved(tests: list[exp.Expression]) -> exp.Expression:
    """Whether a delta changes anything of a group."""
    return disjunction(tests)


def plus(stored: Column, added: Column) -> exp.Expression:
    """The stored sum, 0 for a new group, plus the delta's."""
    zero = exp.cast(exp.Literal.number(0), duplicate(added.type))
    known = exp.Coalesce(this=ref(stored), expressions=[zero])
    return exp.cast(exp.Add(this=known, expression=ref(added)), duplicate(added.type))


def replaced(state: Aggregate, groups: TouchedGroups, merged: Node, sums: Schema) -> Node:
    """The merged states in place of the stored ones; ``sums`` are all but the extrema."""
    if not state.keys:
        return difference(merged, groups.before)
    return difference(alive(sums, merged), stored_rows(state, groups))


def alive(sums: Schema, merged: Node) -> Node:
    """Without the groups of which nothing is left.

    A group with fewer than no rows, or with a sum of no rows, cannot be: the stored state was wrong.
    It stays in the delta for whoever applies it to refuse.
    """
    zero = exp.Literal.number(0)
    left = [exp.NEQ(this=ref(column), expression=duplicate(zero)) for column in sums]
    return Filter(merged, disjunction(left))


def stored_rows(state: Aggregate, groups: TouchedGroups) -> Node:
    """What is stored for the groups."""
    known = exp.Is(this=ref(groups.stored[row_count(state).id]), expression=exp.null())
    outputs = tuple((column, ref(groups.stored[column.id])) for column in state.columns)
    return Project(Filter(groups.plan, exp.Not(this=known)), outputs)


def row_count(state: Aggregate) -> Column:
    """The state column that counts the rows of a group."""
    return next(column for column, _ in state.calls if column.name == ROWS)
