"""Changed rows folded into stored groups: D(state) = sums over D(x) per group, added.

Law: state(after) = state(before) + sums of weight * term over the changed rows that pass the filter.
A group is born with its first row and dies with its last; without keys the one group stays. A state
that cannot be (rows below zero, sums left over in a dead group) is an InvariantError.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa

from spark_trickle.delta.fast_path import FastPlan
from spark_trickle.errors import ExecutionError, InvariantError
from spark_trickle.ir.exact import Input
from spark_trickle.ir.types import WEIGHT
from spark_trickle.local import vectors
from spark_trickle.local.batches import Batch, first_rows, summed
from spark_trickle.local.columns import Columns
from spark_trickle.local.evaluate import checker, function_of
from spark_trickle.local.values import from_arrow, to_arrow
from spark_trickle.local.vectors import Texts, Vector, numbered

MANY = 500
"""From so many rows on, columns are quicker than rows."""
GroupKey = tuple[Any, ...]
Sums = tuple[int, ...]
GroupSums = Mapping[GroupKey, Sums]


@dataclass(frozen=True)
class Fold:
    """What changed groups were and have become; a group that is in only one was born or died."""

    before: dict[GroupKey, Sums]
    after: dict[GroupKey, Sums]


@dataclass(frozen=True)
class Folded:
    """The net change of the stored state and of the result, with weights."""

    state: pa.Table
    result: pa.Table


class Folder:
    """The functions of one plan, made once."""

    def __init__(self, plan: FastPlan) -> None:
        self.plan = plan
        self._filter = None if plan.filter is None else function_of(plan.filter)
        self._keys = [function_of(key) for key in plan.keys]
        self._sums = [function_of(value) for value in plan.sums]
        self._having = None if plan.having is None else function_of(plan.having)
        self._outputs = [function_of(value) for _, value in plan.outputs]
        totals = plan.state[len(plan.keys) :]
        self._fits = [checker(column.type) for column in totals]

    def group_deltas(self, changes: pa.Table) -> dict[GroupKey, Sums]:
        """What changed rows, each with its weight, add to the sums of their groups."""
        if changes.num_rows >= MANY:
            return self._by_columns(changes)
        columns = [from_arrow(changes.column(c.name), c.type) for c in self.plan.reads]
        weights = changes.column(WEIGHT).to_pylist()
        rows: Iterable[Sequence[Any]] = (
            zip(*columns, strict=True) if columns else [()] * len(weights)
        )
        found: dict[GroupKey, list[int]] = {}
        keys, sums, filter = self._keys, self._sums, self._filter
        for row, weight in zip(rows, weights, strict=True):
            if filter is not None and filter(row) is not True:
                continue
            key = tuple([k(row) for k in keys])
            group = found.get(key)
            if group is None:
                found[key] = [weight * s(row) for s in sums]
            else:
                for place, value in enumerate(sums):
                    group[place] += weight * value(row)
        return {key: tuple(group) for key, group in found.items() if any(group)}

    def _by_columns(self, changes: pa.Table) -> dict[GroupKey, Sums]:
        """The same, of many rows at once."""
        texts, plan = Texts(), self.plan

        def column(place: int) -> Vector:
            read = plan.reads[place]
            return vectors.from_arrow(changes.column(read.name), read.type, texts)

        rows = Batch(changes.column(WEIGHT).to_numpy(), column)
        if plan.filter is not None:
            rows = rows.take(np.flatnonzero(Columns(rows, texts).computed(plan.filter).true))
        columns = Columns(rows, texts)
        keys = [columns.computed(key) for key in plan.keys]
        codes = numbered(keys, rows.rows)
        firsts = first_rows(codes)
        sums = [
            summed(columns.computed(value), rows.weights, codes, len(firsts)).tolist()
            for value in plan.sums
        ]
        found = [
            vectors.to_values(key.take(firsts), each.type, texts)
            for key, each in zip(keys, plan.keys, strict=True)
        ]
        groups = zip(*found, strict=True) if found else [()] * len(firsts)
        return {k: g for k, g in zip(groups, zip(*sums, strict=True), strict=True) if any(g)}

    def stored(self, rows: pa.Table) -> dict[GroupKey, Sums]:
        """Groups by key, from rows of the table that stores them."""
        width = len(self.plan.keys)
        found = {row[:width]: row[width:] for row in _rows(rows, self.plan.state)}
        if len(found) != rows.num_rows:
            raise _breach("two rows are stored for one group")
        return found

    def fold(self, stored: GroupSums, deltas: GroupSums) -> Fold:
        """The groups that the deltas change, before and after."""
        before: dict[GroupKey, Sums] = {}
        after: dict[GroupKey, Sums] = {}
        scalar = not self.plan.keys
        for key, added in deltas.items():
            known = stored.get(key)
            if known is None and scalar:
                raise _breach("the one row of an aggregate without keys is not there")
            if known is not None:
                before[key] = known
            total = added if known is None else tuple(map(add, known, added))
            rows = total[self.plan.rows]
            if rows < 0 or (rows == 0 and any(total)):
                raise _breach(f"a group has {rows} rows after rows were taken away")
            if rows or scalar:
                self._check(total)
                after[key] = total
        return Fold(before, after)

    def _check(self, total: Sums) -> None:
        for value, fits, column in zip(
            total, self._fits, self.plan.state[len(self.plan.keys) :], strict=True
        ):
            if not fits(value):
                raise ExecutionError(
                    f"[ARITHMETIC_OVERFLOW] a sum does not fit {column.type}",
                    hint="no row was changed; cast the argument of sum to a wider type",
                )

    def folded(self, fold: Fold) -> Folded:
        """A fold as rows of the tables that store state and result."""
        states = [(-1, (*k, *s)) for k, s in fold.before.items()]
        states += [(1, (*k, *s)) for k, s in fold.after.items()]
        shown = self.shown(fold)
        outputs = [Input(i, name, e.type) for i, (name, e) in enumerate(self.plan.outputs)]
        return Folded(
            _table(states, self.plan.state), _table([(w, r) for r, w in shown.items()], outputs)
        )

    def shown(self, fold: Fold) -> Counter[GroupKey]:
        """The net change of the result: how often each row comes (or, below zero, goes)."""
        change: Counter[GroupKey] = Counter()
        for weight, groups in ((-1, fold.before), (1, fold.after)):
            for key, sums in groups.items():
                row = (*key, *sums)
                if self._having is None or self._having(row) is True:
                    change[tuple([value(row) for value in self._outputs])] += weight
        return Counter({row: weight for row, weight in change.items() if weight})


def _rows(table: pa.Table, columns: Sequence[Input]) -> Iterable[tuple[Any, ...]]:
    if not columns:
        return [()] * table.num_rows
    return zip(*(from_arrow(table.column(c.name), c.type) for c in columns), strict=True)


def _table(rows: Sequence[tuple[int, tuple[Any, ...]]], columns: Sequence[Input]) -> pa.Table:
    """Rows with weights as Arrow."""
    arrays = [to_arrow([row[i] for _, row in rows], c.type) for i, c in enumerate(columns)]
    arrays.append(pa.array([weight for weight, _ in rows], pa.int64()))
    return pa.table(arrays, names=[*(c.name for c in columns), WEIGHT])


def _breach(message: str) -> InvariantError:
    return InvariantError(
        message, hint="the contents are not what the frontier says: run repair_stream_table"
    )
