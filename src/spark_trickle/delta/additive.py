"""D(state) = (state + sums over D(x) per group, where rows remain) - state, of the groups in D(x).

Reads the delta and the stored state of its groups; never the input itself. A state without keys
is one row that stays when no rows remain.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.delta.change import difference
from spark_trickle.delta.restrict import null_safe_equal
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
from spark_trickle.ir.scalars import ref
from spark_trickle.ir.types import Column, Schema, Version
from spark_trickle.ir.walk import Ids


def delta_state(state: Aggregate, delta: Node, stored: str, columns: Schema, ids: Ids) -> Node:
    """The change of a stored state; ``columns`` are those of the table ``stored``, by position."""
    sums = _renamed(replace(state, input=delta), ids)
    before = Scan(stored, tuple(ids.copy(column) for column in columns), Version.BEFORE)
    groups = _joined(sums, before, len(state.keys))
    if not state.keys:
        return difference(_merged(state, groups, sums, before), before)
    after = Filter(
        _merged(state, groups, sums, before),
        exp.GT(this=ref(_rows(state.columns)), expression=exp.Literal.number(0)),
    )
    stored_rows = exp.Not(this=exp.Is(this=ref(_rows(before.columns)), expression=exp.null()))
    replaced = Project(
        Filter(groups, stored_rows),
        tuple(
            (column, ref(old)) for column, old in zip(state.columns, before.columns, strict=True)
        ),
    )
    return difference(after, replaced)


def _renamed(sums: Aggregate, ids: Ids) -> Node:
    """The sums of the delta under ids of their own, to stand beside the stored ones."""
    return Project(sums, tuple((ids.copy(column), ref(column)) for column in sums.columns))


def _joined(sums: Node, before: Scan, keys: int) -> Node:
    if not keys:
        return Join((sums, before))
    conditions = tuple(
        null_safe_equal(a, b)
        for a, b in zip(sums.columns[:keys], before.columns[:keys], strict=True)
    )
    padded = tuple(replace(column, nullable=True) for column in before.columns)
    return OuterJoin(sums, before, OuterKind.LEFT, conditions, sums.columns + padded)


def _merged(state: Aggregate, groups: Node, sums: Node, before: Scan) -> Node:
    """Keys as the delta has them, every state the stored one plus the delta's."""
    keys = len(state.keys)
    outputs: list[tuple[Column, exp.Expression]] = [
        (key, ref(own)) for key, own in zip(state.keys, sums.columns[:keys], strict=True)
    ]
    states = zip(state.columns[keys:], sums.columns[keys:], before.columns[keys:], strict=True)
    for column, added, old in states:
        zero = exp.cast(exp.Literal.number(0), column.type.copy())
        known: exp.Expression = ref(old)
        if keys:
            known = exp.Coalesce(this=known, expressions=[zero])
        sum = exp.Add(this=known, expression=ref(added))
        outputs.append((column, exp.cast(sum, column.type.copy())))
    return Project(groups, tuple(outputs))


def _rows(columns: Schema) -> Column:
    return next(column for column in columns if column.name == ROWS)
