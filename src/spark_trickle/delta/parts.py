"""The delta of a stored part, by its strategy; a part may read what it stores itself, at before."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from spark_trickle.delta.differentiate import differentiate
from spark_trickle.delta.keys.equalities import null_safe_equal
from spark_trickle.delta.keys.restrict import KeySet, key_set, restrict
from spark_trickle.delta.laws.additive import StoredState, delta_state
from spark_trickle.delta.laws.change import Change, difference
from spark_trickle.delta.laws.extremum import delta_extremum
from spark_trickle.delta.laws.touched import Keyed, keys_of
from spark_trickle.delta.segment import Part, Strategy, core
from spark_trickle.ir.nodes import Aggregate, Filter, Node, Project, Scan, SemiJoin
from spark_trickle.ir.types import Schema, Side
from spark_trickle.ir.walk import ColumnIds, fresh_ids, scans, with_children


def delta_part(
    part: Part,
    changed: frozenset[str],
    insert_only: frozenset[str] = frozenset(),
    *,
    nearby: bool = False,
) -> Node | None:
    """The delta of what a part stores; None if none of its sources changed.

    ``insert_only``: the changed sources whose delta is known to hold no deleted row.
    ``nearby``: the plan will see of every source only the rows that the delta needs.
    """
    ids = fresh_ids(part.plan)
    match part.strategy:
        case Strategy.ALGEBRA:
            return _change(part.plan, changed, ids, nearby=nearby).delta
        case Strategy.ADDITIVE:
            assert isinstance(part.plan, Aggregate)
            delta = _change(part.plan.input, changed, ids, nearby=nearby).delta
            if delta is None:
                return None
            return delta_state(StoredState(part.plan, part.name, part.columns), delta, ids)
        case Strategy.EXTREMUM:
            assert isinstance(part.plan, Aggregate)
            change = _change(part.plan.input, changed, ids, nearby=nearby)
            if change.delta is None:
                return None
            stored = StoredState(part.plan, part.name, part.columns)
            return delta_extremum(stored, part.extrema, change, insert_only, ids)
        case Strategy.TOUCHED:
            return _delta_touched(part, part.plan, changed, ids)
        case _:
            assert_never(part.strategy)


def _change(plan: Node, changed: frozenset[str], ids: ColumnIds, *, nearby: bool) -> Change:
    """How a plan changes. Over few rows, after - before is as good, and often the smaller plan.

    D(x) = x(after) - x(before) whatever the tables hold, so also when they hold only what D(x)
    needs, where D(x) is the same as over the whole tables.
    """
    change = differentiate(plan, changed, ids)
    if change.delta is None or not nearby:
        return change
    subtracted = difference(change.after, change.before)
    shorter = len(scans(subtracted)) < len(scans(change.delta))
    return replace(change, delta=subtracted) if shorter else change


def _delta_touched(part: Part, plan: Node, changed: frozenset[str], ids: ColumnIds) -> Node | None:
    """Like the touched-keys law, but what is replaced is read from the stored part.

    That saves the recomputation at before, and it is exact even where a recomputation would not
    give the stored value again: sums of floats, collect_list, row_number among equals.
    """
    stored = core(plan)
    assert isinstance(stored, Keyed)
    change = differentiate(stored.input, changed, ids)
    if change.delta is None:
        return None
    before = Scan(part.name, tuple(ids.copy(column) for column in part.columns), Side.BEFORE)
    keys = keys_of(stored)
    if not keys:
        return difference(_over(plan, stored, change.after), before)
    found = key_set(change.delta, keys, ids)
    after = restrict(change.after, found, tuple(key.id for key in keys))
    return difference(_over(plan, stored, after), _stored_rows(part, before, found))


def _stored_rows(part: Part, before: Scan, found: KeySet) -> Node:
    places = {column.id: position for position, column in enumerate(part.columns)}
    own: Schema = tuple(before.columns[places[key.id]] for key in part.keys)
    conditions = tuple(
        null_safe_equal(column, key) for column, key in zip(own, found.plan.columns, strict=True)
    )
    return SemiJoin(before, found.plan, conditions)


def _over(plan: Node, stored: Keyed, rows: Node) -> Node:
    """The plan with its keyed operator applied to other rows."""
    if plan is stored:
        return with_children(stored, (rows,))
    assert isinstance(plan, Project | Filter)
    return with_children(plan, (_over(plan.input, stored, rows),))
