"""Negative control: rules broken on purpose are each caught by the examples of the delta law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlglot import exp

from spark_trickle.delta import differentiate, parts
from spark_trickle.delta.keys import narrow
from spark_trickle.delta.keys import restrict as restriction
from spark_trickle.delta.laws import additive, extremum, full_join, preserving
from spark_trickle.delta.laws import join as join_law
from spark_trickle.delta.laws import touched as touched_law
from spark_trickle.delta.laws.change import Change, difference
from spark_trickle.ir.nodes import (
    Aggregate,
    AntiJoin,
    Filter,
    Join,
    Node,
    OuterJoin,
    Scan,
    UnionAll,
)
from spark_trickle.ir.scalars import ref
from spark_trickle.ir.types import Column, Schema, Side
from spark_trickle.ir.walk import ColumnIds
from spark_trickle.lower import joins as lowered_joins
from spark_trickle.lower import query as lowered_query
from support.delta_law import Laboratory
from support.examples import SOURCES, example, failure_of
from support.scenarios import all_scenarios, breaks

Patch = pytest.MonkeyPatch
LIMIT = 400
"""A mutant that survives all scenarios and this many examples has escaped."""


def all_others_before(patch: Patch) -> None:
    """The right side of a join term at before: delta with delta is lost."""
    patch.setattr(differentiate, "delta_join", _join_with("before", "before"))


def all_others_after(patch: Patch) -> None:
    """The left side of a join term at after: delta with delta counts twice."""
    patch.setattr(differentiate, "delta_join", _join_with("after", "after"))


def _join_with(
    left: str, right: str
) -> Callable[[Join, tuple[Change, ...], ColumnIds], Node | None]:
    def delta_join(node: Join, inputs: tuple[Change, ...], ids: ColumnIds) -> Node | None:
        terms: list[Node] = []
        for i, change in enumerate(inputs):
            if change.delta is not None:
                sides = [getattr(c, left if j < i else right) for j, c in enumerate(inputs)]
                sides[i] = change.delta
                terms.append(join_law._term(node, sides, i, ids))
        return join_law.total(terms)

    return delta_join


def plain_equality_of_keys(patch: Patch) -> None:
    """Keys match by =, so NULL keys are never touched."""

    def equal(left: Column, right: Column) -> exp.Expression:
        return exp.EQ(this=ref(left), expression=ref(right))

    for module in (restriction, additive, narrow, parts):
        patch.setattr(module, "null_safe_equal", equal)


def multiplicity_lost_in_counts(patch: Patch) -> None:
    """A delta row counts once, whatever its weight."""
    original = lowered_query.weighted_call

    def weighted_call(call: exp.Expression, weight: exp.Expression) -> exp.Expression:
        sign = exp.Anonymous(this="sign", expressions=[weight.copy()])
        return original(call, exp.cast(sign, "BIGINT"))

    patch.setattr(lowered_query, "weighted_call", weighted_call)


def sign_lost_in_counts(patch: Patch) -> None:
    """Deleted rows are counted as if they had been inserted."""
    original = lowered_query.weighted_call

    def weighted_call(call: exp.Expression, weight: exp.Expression) -> exp.Expression:
        return original(call, exp.Abs(this=weight.copy()))

    patch.setattr(lowered_query, "weighted_call", weighted_call)


def groups_never_die(patch: Patch) -> None:
    """A group without rows stays."""
    patch.setattr(additive, "alive", lambda _, merged: merged)
    patch.setattr(extremum, "alive", lambda _, merged: merged)


def scalar_row_dies(patch: Patch) -> None:
    """A scalar aggregate loses its one row when its input is empty."""

    def replaced(
        state: Aggregate, groups: additive.TouchedGroups, merged: Node, sums: Schema
    ) -> Node:
        rows = additive.stored_rows(state, groups) if state.keys else groups.before
        return difference(additive.alive(sums, merged), rows)

    patch.setattr(additive, "replaced", replaced)


def padding_never_flips(patch: Patch) -> None:
    """Changes of the right side of an outer, semi or anti join are forgotten."""
    original = preserving.delta_preserving

    def delta(
        node: preserving.Preserving, left: Change, right: Change, ids: ColumnIds
    ) -> Node | None:
        return original(node, left, replace(right, delta=None), ids)

    patch.setattr(differentiate, "delta_preserving", delta)


def left_rows_look_at_before(patch: Patch) -> None:
    """New left rows look for partners in the right side at before."""
    original = preserving._reachable

    def delta(
        node: preserving.Preserving, left: Change, right: Change, ids: ColumnIds
    ) -> Node | None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(
                preserving, "_reachable", lambda n, rows, _, i: original(n, rows, right.before, i)
            )
            return preserving.delta_preserving(node, left, right, ids)

    patch.setattr(differentiate, "delta_preserving", delta)


def touched_left_at_after(patch: Patch) -> None:
    """The left rows whose partners changed are taken at after, where new ones count twice."""
    original = preserving.delta_preserving

    def delta(
        node: preserving.Preserving, left: Change, right: Change, ids: ColumnIds
    ) -> Node | None:
        return original(node, replace(left, before=left.after), right, ids)

    patch.setattr(differentiate, "delta_preserving", delta)


def partners_restricted_by_their_own_columns(patch: Patch) -> None:
    """A key set is pushed into the padded side of an outer join."""
    original = restriction._push_left

    def push(
        node: preserving.Preserving, keys: restriction.KeySet, on: tuple[int, ...]
    ) -> tuple[Node, bool]:
        own = {column.id for column in node.right.columns}
        if isinstance(node, OuterJoin) and set(on) <= own:
            return replace(node, right=restriction.restrict(node.right, keys, on)), False
        return original(node, keys, on)

    patch.setattr(restriction, "_push_left", push)


def keys_of_one_side_of_a_full_join(patch: Patch) -> None:
    """Only the left deltas of a FULL join touch keys."""
    original = full_join._keys

    def keys(left: Change, right: Change, *rest: object) -> restriction.KeySet:
        kept = replace(right, delta=None) if left.delta is not None else right
        return original(left, kept, *rest)  # type: ignore[arg-type]

    patch.setattr(full_join, "_keys", keys)


def extremum_never_lost(patch: Patch) -> None:
    """A deleted MIN or MAX stays."""
    patch.setattr(extremum, "only_inserts", lambda *_: True)


def branch_of_a_union_forgotten(patch: Patch) -> None:
    """Only the first changed input of a UNION ALL counts."""

    def delta(node: UnionAll, inputs: tuple[Change, ...]) -> Node | None:
        changed = [change.delta for change in inputs if change.delta is not None]
        return UnionAll((changed[0],), node.columns) if changed else None

    patch.setattr(differentiate, "delta_union", delta)


def stored_rows_not_replaced(patch: Patch) -> None:
    """Recomputed keys are added to what is stored for them."""

    def nothing(part: parts.Part, before: Scan, found: restriction.KeySet) -> Node:
        return Filter(before, exp.false())

    patch.setattr(parts, "_stored_rows", nothing)


def state_read_at_after(patch: Patch) -> None:
    """The delta is added to a state that already holds it."""
    original = additive.touched_groups

    def groups(
        stored: additive.StoredState, sums: Node, moved: list[exp.Expression], ids: ColumnIds
    ) -> additive.TouchedGroups:
        found = original(stored, sums, moved, ids)
        plan = found.plan
        late = replace(found.before, side=Side.AFTER)
        if isinstance(plan, OuterJoin):
            return replace(found, plan=replace(plan, right=late), before=late)
        assert isinstance(plan, Join)
        return replace(found, plan=replace(plan, inputs=(plan.inputs[0], late)), before=late)

    patch.setattr(additive, "touched_groups", groups)


def touched_keys_without_nulls(patch: Patch) -> None:
    """NULL keys are left out of the touched keys."""
    original = restriction.key_set

    def key_set(rows: Node, keys: tuple[Column, ...], ids: ColumnIds) -> restriction.KeySet:
        tests = [exp.Not(this=exp.Is(this=ref(key), expression=exp.null())) for key in keys]
        return original(Filter(rows, exp.and_(*tests)), keys, ids)  # type: ignore[arg-type]

    for module in (touched_law, parts):
        patch.setattr(module, "key_set", key_set)


def touched_keys_that_meet_nothing(patch: Patch) -> None:
    """Of the rows of a delta, those without a partner that passes its filter are taken for touched."""
    original = narrow._meeting

    def meeting(*arguments: Any) -> list[narrow.KeyedPlan]:
        found = original(*arguments)
        return [(AntiJoin(p.left, p.right, p.conditions), k) for p, k in found]  # type: ignore[union-attr]

    patch.setattr(narrow, "_meeting", meeting)


def weights_of_one_input_only(patch: Patch) -> None:
    """A join keeps the weight of its first input and writes 1 for the delta."""
    patch.setattr(lowered_joins, "_product", lambda *_: None)


MUTANTS = [
    all_others_before,
    all_others_after,
    plain_equality_of_keys,
    multiplicity_lost_in_counts,
    sign_lost_in_counts,
    groups_never_die,
    scalar_row_dies,
    padding_never_flips,
    left_rows_look_at_before,
    touched_left_at_after,
    partners_restricted_by_their_own_columns,
    keys_of_one_side_of_a_full_join,
    extremum_never_lost,
    branch_of_a_union_forgotten,
    stored_rows_not_replaced,
    state_read_at_after,
    touched_keys_without_nulls,
    touched_keys_that_meet_nothing,
    weights_of_one_input_only,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mutant_is_caught(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    if any(breaks(scenario) for scenario in all_scenarios()):
        return
    laboratory = Laboratory(SOURCES)
    try:
        assert any(failure_of(example(n), laboratory) is not None for n in range(LIMIT)), (
            f"survived {LIMIT} examples: {mutant.__doc__}"
        )
    finally:
        laboratory.close()
