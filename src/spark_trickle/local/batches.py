"""Exact plans (``ir/exact_plan.py``) over whole columns, for more rows than ``program.py`` is good for.

Law: the weighted rows are those of ``program.py``, or an ExecutionError says that Spark must answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

import numpy as np
import pyarrow as pa

from spark_trickle.errors import ExecutionError
from spark_trickle.ir.exact import Exact, ExactType
from spark_trickle.ir.exact_plan import (
    Aggregated,
    All,
    Constants,
    ExactAggregate,
    ExactPlan,
    First,
    Grouped,
    Keep,
    Less,
    Map,
    Match,
    Once,
    Paired,
    Read,
)
from spark_trickle.ir.types import WEIGHT
from spark_trickle.local.columns import Columns
from spark_trickle.local.evaluate import checker, function_of
from spark_trickle.local.program import MOST_TIMES
from spark_trickle.local.vectors import (
    LARGEST,
    Texts,
    Vector,
    arrow_array,
    bounded,
    dtype,
    from_arrow,
    from_values,
    numbered,
    ranks,
    stacked,
)

MOST_PAIRS = 5_000_000
"""So many pairs of rows are looked at in one run; more are for Spark."""
ReadTable = Callable[[Read], tuple[pa.Table, np.ndarray]]
"""The rows of a source in Arrow, and their weights."""


class Batch:
    """Rows with weights; a column is made when it is first asked for."""

    def __init__(self, weights: np.ndarray, make: Callable[[int], Vector]) -> None:
        self.weights = weights
        self._make = make
        self._made: dict[int, Vector] = {}

    @property
    def rows(self) -> int:
        return len(self.weights)

    def column(self, place: int) -> Vector:
        found = self._made.get(place)
        if found is None:
            found = self._made[place] = self._make(place)
        return found

    def take(self, places: np.ndarray) -> Batch:
        """Some of the rows, in another order or several times."""
        return Batch(self.weights[places], lambda place: self.column(place).take(places))


def of(columns: Sequence[Vector], weights: np.ndarray) -> Batch:
    return Batch(weights, columns.__getitem__)


def run(plan: ExactPlan, names: Sequence[str], read: ReadTable) -> pa.Table:
    """The net rows: each once, with a weight that is not zero."""
    return _Run(read).net(plan, names)


class _Run:
    def __init__(self, read: ReadTable) -> None:
        self._read = read
        self._texts = Texts()
        self._done: dict[int, Batch] = {}
        self._pairs = 0

    def net(self, plan: ExactPlan, names: Sequence[str]) -> pa.Table:
        batch = self.batch(plan)
        columns = [_no_negative_zero(batch.column(i)) for i in range(len(plan.columns))]
        codes = numbered(columns, batch.rows)
        firsts = first_rows(codes)
        weights = _added(batch.weights, codes, len(firsts))
        left = np.flatnonzero(weights)
        arrays = [
            arrow_array(column.take(firsts[left]), type, self._texts)
            for column, type in zip(columns, plan.columns, strict=True)
        ]
        return pa.table([*arrays, pa.array(weights[left], pa.int64())], names=[*names, WEIGHT])

    def batch(self, plan: ExactPlan) -> Batch:
        """The rows of a plan; computed once, however often they are read."""
        found = self._done.get(id(plan))
        if found is None:
            found = self._done[id(plan)] = self._computed(plan)
        return found

    def _computed(self, plan: ExactPlan) -> Batch:
        match plan:
            case Read():
                return self._source(plan)
            case Constants():
                return self._constants(plan)
            case Map():
                return self._map(plan)
            case Keep():
                below = self.batch(plan.input)
                test = Columns(below, self._texts).computed(plan.test)
                return below.take(np.flatnonzero(test.true))
            case Paired():
                return self._paired(plan)
            case Grouped():
                return self._grouped(plan)
            case Once():
                return self._once(self.batch(plan.input), len(plan.columns))
            case All():
                return self._all([self.batch(child) for child in plan.inputs])
            case Less():
                positive = self.batch(plan.input)
                return Batch(-positive.weights, positive.column)
            case First():
                return self._first(plan)
            case _:
                assert_never(plan)

    def _source(self, plan: Read) -> Batch:
        table, weights = self._read(plan)

        def column(place: int) -> Vector:
            wanted = plan.inputs[place]
            return from_arrow(table.column(wanted.name), wanted.type, self._texts)

        return Batch(weights, column)

    def _constants(self, plan: Constants) -> Batch:
        rows = [[function_of(value)(()) for value in row] for row in plan.rows]
        columns = [
            from_values([row[i] for row in rows], type, self._texts)
            for i, type in enumerate(plan.columns)
        ]
        return of(columns, np.ones(len(rows), np.int64))

    def _map(self, plan: Map) -> Batch:
        below = self.batch(plan.input)
        return self._all([self._projected(below, values) for values in plan.projections])

    def _projected(self, below: Batch, values: Sequence[Exact]) -> Batch:
        columns = Columns(below, self._texts)
        return of([columns.computed(value) for value in values], below.weights)

    def _all(self, batches: Sequence[Batch]) -> Batch:
        if len(batches) == 1:
            return batches[0]
        weights = np.concatenate([batch.weights for batch in batches])
        return Batch(weights, lambda place: stacked([batch.column(place) for batch in batches]))

    def _once(self, below: Batch, width: int) -> Batch:
        firsts = first_rows(numbered(map(below.column, range(width)), below.rows))
        return Batch(np.ones(len(firsts), np.int64), below.take(firsts).column)

    # Joins

    def _paired(self, plan: Paired) -> Batch:
        left, right = self.batch(plan.left), self.batch(plan.right)
        mine, theirs = self._partners(plan, left, right)
        if plan.rest is not None:
            both = _beside(left.take(mine), right.take(theirs), len(plan.left.columns))
            met = Columns(both, self._texts).computed(plan.rest).true
            mine, theirs = mine[met], theirs[met]
        if plan.kind in (Match.SEMI, Match.ANTI):
            has = np.zeros(left.rows, bool)
            has[mine] = True
            return left.take(np.flatnonzero(has if plan.kind is Match.SEMI else ~has))
        found = [_beside(left.take(mine), right.take(theirs), len(plan.left.columns))]
        if plan.kind is not Match.INNER:
            found.append(self._alone(plan, left, mine, on_left=True))
        if plan.kind is Match.FULL:
            found.append(self._alone(plan, right, theirs, on_left=False))
        return self._all(found)

    def _partners(self, plan: Paired, left: Batch, right: Batch) -> tuple[np.ndarray, np.ndarray]:
        """The places of rows on the left and of their partners on the right."""
        one, two = Columns(left, self._texts), Columns(right, self._texts)
        keys, lacking = [], np.zeros(left.rows, bool)
        for each in plan.equal:
            value = one.computed(each.left)
            keys.append(stacked([value, two.computed(each.right)]))
            if not each.same:
                lacking |= ~value.known
        codes = numbered(keys, left.rows + right.rows)
        mine, theirs = codes[: left.rows], codes[left.rows :]
        many = np.bincount(theirs, minlength=int(codes.max(initial=0)) + 1)
        counts = np.where(lacking, 0, many[mine])
        total = int(counts.sum())
        self._pairs += total
        if self._pairs > MOST_PAIRS:
            raise ExecutionError("[TOO_MANY_PAIRS] a join pairs too many rows for this process")
        order = np.argsort(theirs, kind="stable")
        starts = (np.cumsum(many) - many)[mine]
        places = np.repeat(np.arange(left.rows), counts)
        nth = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        return places, order[np.repeat(starts, counts) + nth]

    def _alone(self, plan: Paired, side: Batch, met: np.ndarray, *, on_left: bool) -> Batch:
        """The rows of one side without a partner; the columns of the other are NULL."""
        without = np.ones(side.rows, bool)
        without[met] = False
        rows = side.take(np.flatnonzero(without))
        width = len(plan.left.columns)

        def column(place: int) -> Vector:
            if (place < width) is on_left:
                return rows.column(place if on_left else place - width)
            return _nulls(rows.rows, plan.columns[place])

        return Batch(rows.weights, column)

    # Aggregates

    def _grouped(self, plan: Grouped) -> Batch:
        below = self.batch(plan.input)
        columns = Columns(below, self._texts)
        keys = [columns.computed(key) for key in plan.keys]
        codes = numbered(keys, below.rows)
        firsts = first_rows(codes)
        count = len(firsts) if plan.keys else 1
        found = [key.take(firsts) for key in keys]
        for call in plan.aggregates:
            value = None if call.value is None else columns.computed(call.value)
            found.append(self._aggregate(call, value, below.weights, codes, count))
        groups = of(found, np.ones(count, np.int64))
        return self._projected(groups, plan.outputs)

    def _aggregate(
        self,
        call: Aggregated,
        value: Vector | None,
        weights: np.ndarray,
        codes: np.ndarray,
        count: int,
    ) -> Vector:
        if value is None:
            return bounded(_added(weights, codes, count), np.ones(count, bool))
        there = np.flatnonzero(value.known)
        value, weights, codes = value.take(there), weights[there], codes[there]
        known = np.bincount(codes, minlength=count) > 0
        match call.function:
            case ExactAggregate.COUNT | ExactAggregate.COUNT_ROWS:
                return bounded(_added(weights, codes, count), np.ones(count, bool))
            case ExactAggregate.SUM:
                return _sum(call.type, value, weights, codes, known)
            case ExactAggregate.FLOAT_SUM | ExactAggregate.FLOAT_AVG:
                return _float_sum(call, value, weights, codes, known)
            case ExactAggregate.MIN | ExactAggregate.MAX:
                ranked = ranks(value, call.type, self._texts)
                sign = 1 if call.function is ExactAggregate.MIN else -1
                order = np.lexsort((sign * ranked, codes))
                found = np.zeros(count, np.int64)
                found[codes[order][::-1]] = order[::-1]  # the first of each group is written last
                best = value.take(found) if len(there) else _nulls(count, call.type)
                best.values[~known] = 0
                return Vector(best.values, known, best.most)

    def _first(self, plan: First) -> Batch:
        below = self.batch(plan.input)
        parts = numbered(map(below.column, plan.partition), below.rows)
        keys = []
        for each in plan.order:
            column = below.column(each.index)
            ranked = ranks(column, plan.columns[each.index], self._texts)
            ranked = np.where(column.known, ranked, 0)
            keys += [column.known == each.nulls_first, -ranked if each.descending else ranked]
        order = np.lexsort((*reversed(keys), parts))
        many = np.bincount(parts)
        nth = np.arange(below.rows) - np.repeat(np.cumsum(many) - many, many)
        kept = order[(nth >= plan.offset) & (nth < plan.offset + plan.limit)]
        return Batch(np.ones(len(kept), np.int64), below.take(kept).column)


def _beside(left: Batch, right: Batch, width: int) -> Batch:
    """Rows next to each other."""
    heaviest = [int(np.abs(side.weights).max(initial=0)) for side in (left, right)]
    if heaviest[0] * heaviest[1] >= LARGEST:
        raise ExecutionError("[MANY_TIMES] a row comes too often for this process")

    def column(place: int) -> Vector:
        return left.column(place) if place < width else right.column(place - width)

    return Batch(left.weights * right.weights, column)


def _nulls(rows: int, type: ExactType) -> Vector:
    return Vector(np.zeros(rows, dtype(type)), np.zeros(rows, bool), 0)


def _no_negative_zero(column: Vector) -> Vector:
    """Spark has none among keys, and all columns of a delta are keys."""
    if column.values.dtype != np.float64:
        return column
    return Vector(column.values + 0.0, column.known)


def first_rows(codes: np.ndarray) -> np.ndarray:
    """Of rows that have numbers without gaps: the first with each."""
    firsts = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    firsts[codes[::-1]] = np.arange(len(codes))[::-1]
    return firsts


def _added(values: np.ndarray, codes: np.ndarray, count: int) -> np.ndarray:
    """The sum of each group."""
    if values.dtype != object and int(np.abs(values).max(initial=0)) * len(values) >= LARGEST:
        values = values.astype(object)
    sums = np.zeros(count, values.dtype)
    np.add.at(sums, codes, values)
    return sums


def summed(value: Vector, weights: np.ndarray, codes: np.ndarray, count: int) -> np.ndarray:
    """The weighted sum of each group."""
    most = value.most * int(np.abs(weights).max(initial=0)) * len(weights)
    values = value.values if most < LARGEST else value.values.astype(object)
    return _added(values * weights, codes, count)


def _sum(
    type: ExactType, value: Vector, weights: np.ndarray, codes: np.ndarray, known: np.ndarray
) -> Vector:
    """Sums, checked by the sums of their magnitudes, since Spark may add in any order."""
    most, fits = value.most * int(np.abs(weights).max(initial=0)) * len(weights), checker(type)
    if not fits(most):
        size = Vector(np.abs(value.values), value.known, value.most)
        magnitudes = summed(size, np.abs(weights), codes, len(known))
        if not all(map(fits, magnitudes.tolist())):
            raise ExecutionError(f"[ARITHMETIC_OVERFLOW] a sum may not fit {type}")
    return bounded(summed(value, weights, codes, len(known)), known)


def _float_sum(
    call: Aggregated, value: Vector, weights: np.ndarray, codes: np.ndarray, known: np.ndarray
) -> Vector:
    """Doubles added one by one in the order of the rows, beginning with 0, as ``program.py`` does."""
    if not ((weights > 0) & (weights <= MOST_TIMES)).all():
        raise ExecutionError("[MANY_TIMES] a sum of doubles is that of rows, one by one")
    groups = np.repeat(codes, weights)
    sums: np.ndarray = np.bincount(groups, np.repeat(value.values, weights), minlength=len(known))
    if call.function is ExactAggregate.FLOAT_AVG:
        sums = sums / np.where(known, np.bincount(groups, minlength=len(known)), 1)
    if np.isnan(sums).any():
        raise ExecutionError("[NAN] what is not a number is left to Spark")
    return Vector(sums, known)
