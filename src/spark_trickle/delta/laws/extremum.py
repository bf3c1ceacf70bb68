"""D(state) as additive, with min(after) = least(min(before), inserted) unless the minimum was deleted.

A group whose extremum was deleted, and not matched or beaten by an inserted value, is recomputed
from the input; all other groups read only the delta and their stored state. MAX likewise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from spark_trickle.delta.keys.restrict import KeySet, restrict
from spark_trickle.delta.laws.additive import (
    StoredState,
    TouchedGroups,
    alive,
    beside_stored,
    changed,
    plus,
    replaced,
    row_count,
    stored_rows,
    touched_groups,
)
from spark_trickle.delta.laws.change import Change, difference, only_inserts
from spark_trickle.ir.aggregates import Extremum
from spark_trickle.ir.nodes import Aggregate, Distinct, Filter, Node, Project, SemiJoin, UnionAll
from spark_trickle.ir.scalars import conjunction, disjunction, ref
from spark_trickle.ir.trees import duplicate
from spark_trickle.ir.types import Column
from spark_trickle.ir.walk import ColumnIds

Extrema = tuple[tuple[Column, Extremum], ...]


@dataclass(frozen=True)
class Extreme:
    """One extremum of the touched groups: stored, best of the inserted, best of the deleted."""

    largest: bool
    stored: Column
    inserted: Column
    deleted: Column


def delta_extremum(
    stored: StoredState,
    extrema: Extrema,
    input: Change,
    insert_only: frozenset[str],
    ids: ColumnIds,
) -> Node:
    """The change of a stored state with extrema."""
    assert input.delta is not None
    state = stored.state
    sums, best = _sums(state, extrema, input.delta, ids)
    values = sums.columns[len(state.keys) : len(sums.columns) - 2 * len(extrema)]
    moved = [changed(column) for column in values]
    moved += [_known(column) for pair in best.values() for column in pair]
    groups = touched_groups(stored, sums, moved, ids)
    extremes = {
        column.id: Extreme(kind.largest, groups.stored[column.id], *best[column.id])
        for column, kind in extrema
    }
    merged = _merged(state, groups, sums, extremes)
    added = tuple(column for column, _ in state.calls if column.id not in extremes)
    if only_inserts(input.delta, insert_only):
        return replaced(state, groups, merged, added)
    merged, lost = _checked(state, merged, list(extremes.values()))
    kept = Filter(merged.input, exp.Not(this=exp.paren(_sure(lost))))
    merged = replace(merged, input=kept)
    clean = alive(added, merged) if state.keys else merged
    again = _recomputed(state, Filter(groups.plan, _sure(lost)), groups, input.after, ids)
    rows = UnionAll((clean, again), state.columns)
    return difference(rows, stored_rows(state, groups) if state.keys else groups.before)


def _sums(
    state: Aggregate, extrema: Extrema, delta: Node, ids: ColumnIds
) -> tuple[Node, dict[int, tuple[Column, Column]]]:
    """Per group: the keys and sums of ``state``, then per extremum the best inserted and deleted.

    The delta may hold a row with +1 and again with -1: rows with equal arguments are added up
    first, so that what is left as inserted really is in the group.
    """
    arguments = {column.id: ids.copy(column) for column, _ in extrema}
    passed = tuple((column, ref(column)) for column in delta.columns)
    computed = tuple((arguments[column.id], kind.argument) for column, kind in extrema)
    sums = [(column, call) for column, call in state.calls if column.id not in arguments]
    net = Aggregate(
        Project(delta, passed + computed), state.keys + tuple(arguments.values()), tuple(sums)
    )
    count = row_count(state)
    calls = [(ids.copy(column), _summed(column, scalar=not state.keys)) for column, _ in sums]
    best: dict[int, tuple[Column, Column]] = {}
    for column, kind in extrema:
        pair = (ids.copy(column), ids.copy(column))
        best[column.id] = pair
        calls.append((pair[0], _best(kind, arguments[column.id], count, exp.GT)))
        calls.append((pair[1], _best(kind, arguments[column.id], count, exp.LT)))
    grouped = Aggregate(net, state.keys, tuple(calls))
    renamed = beside_stored(grouped, ids)
    now = dict(zip((c.id for c in grouped.columns), renamed.columns, strict=True))
    return renamed, {id: (now[a.id], now[b.id]) for id, (a, b) in best.items()}


def _summed(column: Column, *, scalar: bool) -> exp.Expression:
    total = exp.cast(exp.Sum(this=ref(column)), duplicate(column.type))
    if not scalar:
        return total
    zero = exp.cast(exp.Literal.number(0), duplicate(column.type))
    return exp.Coalesce(this=total, expressions=[zero])


def _best(
    kind: Extremum, argument: Column, count: Column, sign: type[exp.GT] | type[exp.LT]
) -> exp.Expression:
    test = sign(this=ref(count), expression=exp.Literal.number(0))
    value = exp.Case(ifs=[exp.If(this=test, true=ref(argument))])
    return exp.Max(this=value) if kind.largest else exp.Min(this=value)


def _merged(
    state: Aggregate, groups: TouchedGroups, sums: Node, extremes: dict[int, Extreme]
) -> Project:
    """Every state the stored one, extended by the delta's."""
    outputs: list[tuple[Column, exp.Expression]] = [
        (key, ref(own)) for key, own in zip(state.keys, groups.keys, strict=True)
    ]
    added = iter(sums.columns[len(state.keys) :])
    for column, _ in state.calls:
        if column.id in extremes:
            outputs.append((column, _better(extremes[column.id])))
        else:
            outputs.append((column, plus(groups.stored[column.id], next(added))))
    return Project(groups.plan, tuple(outputs))


def _better(extreme: Extreme) -> exp.Expression:
    """The better of stored and inserted; the other one where one is NULL."""
    missing = exp.Is(this=ref(extreme.inserted), expression=exp.null())
    unknown = exp.Is(this=ref(extreme.stored), expression=exp.null())
    better = _beats(extreme.largest)(this=ref(extreme.inserted), expression=ref(extreme.stored))
    return exp.Case(
        ifs=[
            exp.If(this=missing, true=ref(extreme.stored)),
            exp.If(this=exp.Or(this=unknown, expression=better), true=ref(extreme.inserted)),
        ],
        default=ref(extreme.stored),
    )


def _beats(largest: bool) -> type[exp.GT] | type[exp.LT]:
    return exp.GT if largest else exp.LT


def _lost(extreme: Extreme) -> exp.Expression:
    """The stored extremum was deleted, and nothing as good was inserted."""
    kind: type[exp.GTE] | type[exp.LTE] = exp.GTE if extreme.largest else exp.LTE
    deleted = kind(this=ref(extreme.deleted), expression=ref(extreme.stored))
    as_good = kind(this=ref(extreme.inserted), expression=ref(extreme.stored))
    return conjunction([_sure(deleted), exp.Not(this=_sure(as_good))])


def _checked(
    state: Aggregate, merged: Project, extremes: list[Extreme]
) -> tuple[Project, exp.Expression]:
    """The merged states, with -1 rows where the stored one cannot be; and which are to be recomputed.

    A group that lost more rows than it had, or a value beyond its extremum, is not healed by
    recomputing it: it stays in the delta for whoever applies it to refuse.
    """
    count = row_count(state)
    wrong = disjunction([_wrong(extreme) for extreme in extremes])
    zero = exp.Literal.number(0)
    outputs = []
    rows: exp.Expression = zero
    for column, value in merged.outputs:
        if column.id == count.id:
            rows = value
            breach = exp.cast(exp.Literal.number(-1), duplicate(column.type))
            value = exp.Case(
                ifs=[exp.If(this=duplicate(wrong), true=breach)], default=duplicate(value)
            )
        outputs.append((column, value))
    lost = disjunction([_lost(extreme) for extreme in extremes])
    there = exp.GTE(this=duplicate(rows), expression=duplicate(zero))
    lost = conjunction([lost, exp.Not(this=exp.paren(_sure(wrong))), there])
    return replace(merged, outputs=tuple(outputs)), lost


def _wrong(extreme: Extreme) -> exp.Expression:
    """A value was deleted that the stored extremum says was not there."""
    beyond = _beats(extreme.largest)(this=ref(extreme.deleted), expression=ref(extreme.stored))
    unknown = exp.Is(this=ref(extreme.stored), expression=exp.null())
    return conjunction([_known(extreme.deleted), disjunction([unknown, _sure(beyond)])])


def _known(column: Column) -> exp.Expression:
    return exp.Not(this=exp.Is(this=ref(column), expression=exp.null()))


def _sure(condition: exp.Expression) -> exp.Expression:
    """NULL counts as FALSE."""
    return exp.Coalesce(this=duplicate(condition), expressions=[exp.false()])


def _recomputed(
    state: Aggregate, lost: Node, groups: TouchedGroups, after: Node, ids: ColumnIds
) -> Node:
    if not state.keys:
        return SemiJoin(replace(state, input=after), lost, ())
    outputs = tuple((ids.copy(key), ref(key)) for key in groups.keys)
    keys = KeySet(Distinct(Project(lost, outputs)), ids)
    return replace(state, input=restrict(after, keys, tuple(key.id for key in state.keys)))
