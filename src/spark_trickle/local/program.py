"""Exact plans (``ir/exact_plan.py``) as Python functions over few rows.

What is read is few rows, but a join may make many of them: past ``MOST_PAIRS`` pairs it gives up.

Law: for every plan that ``prove/plans.py`` lets through and every input, the weighted rows are
Spark's, or an ExecutionError says that Spark must answer: a sum is checked by the sum of its
magnitudes, since Spark may add in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, assert_never

from spark_trickle.errors import ExecutionError
from spark_trickle.ir.exact import Exact, Input
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
from spark_trickle.local.evaluate import checker, function_of
from spark_trickle.local.values import number

Row = tuple[Any, ...]
WeightedRows = list[tuple[Row, int]]
"""Rows with their weights."""
ReadRows = Callable[[Read], WeightedRows]
MOST_PAIRS = 200_000
"""So many pairs of rows are looked at in one run; more are for Spark."""
ProgramStep = Callable[["_Context"], WeightedRows]


class _Context:
    """What one run reads and has computed."""

    def __init__(self, reader: ReadRows) -> None:
        self.reader = reader
        self.done: dict[int, WeightedRows] = {}
        self._pairs = 0

    def pair(self, count: int) -> None:
        """Count pairs before they are looked at."""
        self._pairs += count
        if self._pairs > MOST_PAIRS:
            raise ExecutionError("[TOO_MANY_PAIRS] a join pairs too many rows for this process")


class Program:
    """A plan as a function."""

    def __init__(self, plan: ExactPlan) -> None:
        self.plan = plan
        self._steps: dict[int, ProgramStep] = {}
        self._first = self._step(plan)

    def run(self, reader: ReadRows) -> Mapping[Row, int]:
        """The net rows: each once, with a weight that is not zero."""
        net: dict[Row, int] = {}
        for row, weight in self._first(_Context(reader)):
            net[row] = net.get(row, 0) + weight
        return {row: weight for row, weight in net.items() if weight}

    def _step(self, plan: ExactPlan) -> ProgramStep:
        """A step computes once in a run, however often it is read."""
        known = self._steps.get(id(plan))
        if known is not None:
            return known
        compute = self._made(plan)

        def step(context: _Context) -> WeightedRows:
            found = context.done.get(id(plan))
            if found is None:
                found = context.done[id(plan)] = compute(context)
            return found

        self._steps[id(plan)] = step
        return step

    def _made(self, plan: ExactPlan) -> ProgramStep:
        match plan:
            case Read():
                return lambda context: context.reader(plan)
            case Constants():
                rows = [_row(row) for row in plan.rows]
                return lambda _: [(row(()), 1) for row in rows]
            case Map():
                return _map(self._step(plan.input), plan)
            case Keep():
                return _keep(self._step(plan.input), function_of(plan.test))
            case Paired():
                return _paired(self._step(plan.left), self._step(plan.right), plan)
            case Grouped():
                return _grouped(self._step(plan.input), plan)
            case Once():
                below = self._step(plan.input)
                return lambda context: [
                    (row, 1) for row in dict.fromkeys(map(itemgetter(0), below(context)))
                ]
            case All():
                inputs = [self._step(child) for child in plan.inputs]
                return lambda context: [*chain.from_iterable(child(context) for child in inputs)]
            case Less():
                positive = self._step(plan.input)
                return lambda context: [(row, -weight) for row, weight in positive(context)]
            case First():
                return _first(self._step(plan.input), plan)
            case _:
                assert_never(plan)


def _row(values: Sequence[Exact]) -> Callable[[Row], Row]:
    """A row of values computed of a row."""
    if len(values) > 1 and all(isinstance(value, Input) for value in values):
        return itemgetter(*(value.index for value in values if isinstance(value, Input)))
    functions = [function_of(value) for value in values]
    return lambda row: tuple([function(row) for function in functions])


def _map(below: ProgramStep, plan: Map) -> ProgramStep:
    rows = [_row(values) for values in plan.projections]
    if len(rows) == 1:
        (only,) = rows
        return lambda context: [(only(row), weight) for row, weight in below(context)]
    return lambda context: [(make(row), weight) for row, weight in below(context) for make in rows]


def _keep(below: ProgramStep, test: Callable[[Row], Any]) -> ProgramStep:
    return lambda context: [pair for pair in below(context) if test(pair[0]) is True]


# Joins


def _paired(left: ProgramStep, right: ProgramStep, plan: Paired) -> ProgramStep:
    partners = _partners(plan)
    kind = plan.kind
    padding = (None,) * len(plan.right.columns)
    empty = (None,) * len(plan.left.columns)

    def filtered(context: _Context) -> WeightedRows:
        mine, theirs = left(context), right(context)
        found = partners(context, mine, theirs)
        wanted = kind is Match.SEMI
        return [pair for pair, places in zip(mine, found, strict=True) if bool(places) is wanted]

    def joined(context: _Context) -> WeightedRows:
        mine, theirs = left(context), right(context)
        met: set[int] = set()
        result: WeightedRows = []
        for (row, weight), places in zip(mine, partners(context, mine, theirs), strict=True):
            for place in places:
                other, times = theirs[place]
                result.append((row + other, weight * times))
            met.update(places)
            if not places and kind is not Match.INNER:
                result.append((row + padding, weight))
        if kind is Match.FULL:
            result += [(empty + row, w) for p, (row, w) in enumerate(theirs) if p not in met]
        return result

    return filtered if kind in (Match.SEMI, Match.ANTI) else joined


def _partners(
    plan: Paired,
) -> Callable[[_Context, WeightedRows, WeightedRows], Iterator[Sequence[int]]]:
    """For each row of the left side, the places of its partners."""
    key = _row([each.left for each in plan.equal])
    other_key = _row([each.right for each in plan.equal])
    strict = [i for i, each in enumerate(plan.equal) if not each.same]
    rest = None if plan.rest is None else function_of(plan.rest)

    def lacking(value: Row) -> bool:
        return any(value[i] is None for i in strict)

    def partners(
        context: _Context, mine: WeightedRows, theirs: WeightedRows
    ) -> Iterator[Sequence[int]]:
        known: dict[Row, list[int]] = {}
        if mine:
            for place, (row, _) in enumerate(theirs):
                known.setdefault(other_key(row), []).append(place)
        for row, _ in mine:
            value = key(row)
            places: Sequence[int] = () if lacking(value) else known.get(value, ())
            context.pair(len(places))
            if rest is not None:
                places = [p for p in places if rest(row + theirs[p][0]) is True]
            yield places

    return partners


# Aggregates


class _Sum:
    """A sum with the sum of its magnitudes; NULL of no values."""

    def __init__(self, call: Aggregated) -> None:
        self._fits = checker(call.type)
        self._call = call
        self.total: int | None = None
        self._magnitude = 0

    def add(self, value: Any, weight: int) -> None:
        if value is not None:
            added = value * weight
            self.total = added if self.total is None else self.total + added
            self._magnitude += abs(added)

    @property
    def value(self) -> int | None:
        if not self._fits(self._magnitude):
            raise ExecutionError(f"[ARITHMETIC_OVERFLOW] a sum may not fit {self._call.type}")
        return self.total


class _FloatSum:
    """Doubles added in the order of the rows, beginning with 0, as Spark adds those of a partition."""

    def __init__(self, call: Aggregated) -> None:
        self._mean = call.function is ExactAggregate.FLOAT_AVG
        self._total, self._count = 0.0, 0

    def add(self, value: Any, weight: int) -> None:
        if value is None:
            return
        if not 0 < weight <= MOST_TIMES:
            raise ExecutionError("[MANY_TIMES] a sum of doubles is that of rows, one by one")
        self._count += weight
        for _ in range(weight):
            self._total += value

    @property
    def value(self) -> float | None:
        if not self._count:
            return None
        return number(self._total / self._count if self._mean else self._total)


MOST_TIMES = 1_000
"""So often a row may come."""


class _Count:
    def __init__(self, _: Aggregated) -> None:
        self.value = 0

    def add(self, value: Any, weight: int) -> None:
        if value is not None:
            self.value += weight


class _Least:
    def __init__(self, _: Aggregated) -> None:
        self.value: Any = None

    def add(self, value: Any, _: int) -> None:
        if value is not None and (self.value is None or value < self.value):
            self.value = value


class _Greatest(_Least):
    def add(self, value: Any, _: int) -> None:
        if value is not None and (self.value is None or value > self.value):
            self.value = value


_State = _Sum | _FloatSum | _Count | _Least
_AGGREGATES: dict[ExactAggregate, Callable[[Aggregated], _State]] = {
    ExactAggregate.COUNT_ROWS: _Count,
    ExactAggregate.COUNT: _Count,
    ExactAggregate.SUM: _Sum,
    ExactAggregate.FLOAT_SUM: _FloatSum,
    ExactAggregate.FLOAT_AVG: _FloatSum,
    ExactAggregate.MIN: _Least,
    ExactAggregate.MAX: _Greatest,
}


def _grouped(below: ProgramStep, plan: Grouped) -> ProgramStep:
    key, output = _row(plan.keys), _row(plan.outputs)
    values = [
        (lambda _: True) if call.value is None else function_of(call.value)
        for call in plan.aggregates
    ]

    def fresh() -> list[_State]:
        return [_AGGREGATES[call.function](call) for call in plan.aggregates]

    def step(context: _Context) -> WeightedRows:
        groups: dict[Row, list[_State]] = {} if plan.keys else {(): fresh()}
        for row, weight in below(context):
            value = key(row)
            states = groups.get(value)
            if states is None:
                states = groups[value] = fresh()
            for state, function in zip(states, values, strict=True):
                state.add(function(row), weight)
        return [
            (output((*value, *(state.value for state in states))), 1)
            for value, states in groups.items()
        ]

    return step


def _first(below: ProgramStep, plan: First) -> ProgramStep:
    def ordered(rows: list[Row]) -> list[Row]:
        for each in reversed(plan.order):
            # NULL never meets a value in a comparison; it comes first just when this says so.
            early = each.nulls_first is not each.descending

            def place(row: Row, index: int = each.index, early: bool = early) -> tuple[bool, Any]:
                value = row[index]
                return (not early, 0) if value is None else (early, value)

            rows = sorted(rows, key=place, reverse=each.descending)
        return rows

    def step(context: _Context) -> WeightedRows:
        parts: dict[Row, list[Row]] = {}
        for row, _ in below(context):
            parts.setdefault(tuple([row[i] for i in plan.partition]), []).append(row)
        end = plan.offset + plan.limit
        return [(row, 1) for rows in parts.values() for row in ordered(rows)[plan.offset : end]]

    return step


def rows_of(columns: Sequence[list[Any]], weights: Sequence[int]) -> WeightedRows:
    """Columns as rows with weights."""
    rows: Iterable[Row] = zip(*columns, strict=True) if columns else [()] * len(weights)
    return list(zip(rows, weights, strict=True))
