"""Plans as exact ones (``ir/exact_plan.py``), or the reason why one is not proven.

A delta that this process computes must be Spark's: every operator has a rule here, every expression
one in ``scalars.py``, and all else is refused. Sub-plans that stand in a plan twice are run once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from sqlglot import exp

from spark_trickle.ir.exact import KEYS, Constant, Exact, ExactKind, ExactType, Input
from spark_trickle.ir.exact_plan import (
    Aggregated,
    All,
    Constants,
    Equal,
    ExactAggregate,
    ExactColumns,
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
    Sorting,
)
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
from spark_trickle.ir.scalars import column_ids, conjunction, conjuncts, ref
from spark_trickle.ir.shared import Shared
from spark_trickle.ir.trees import duplicate
from spark_trickle.ir.types import Column, Schema
from spark_trickle.prove.refusal import Unproven, readable
from spark_trickle.prove.scalars import Prover
from spark_trickle.prove.types import BIGINT, DOUBLE, exact_type

_SUMMED_DIGITS = 10
"""A sum of decimals has so many more digits."""


@dataclass(frozen=True)
class NotLocal:
    """Why a plan is left to Spark."""

    code: str
    reason: str


def local_plan(plan: Node, *, ansi: bool = True) -> ExactPlan | NotLocal:
    """The exact form of a plan, or why it has none."""
    try:
        found = _Translation(plan, ansi).relation(plan)
        _exact(found.columns, plan.columns, shown=True)
        return found
    except Unproven as error:
        return NotLocal(error.code, str(error))
    except RecursionError:
        return NotLocal("EXPRESSION", "an expression is nested too deeply")


def _exact(types: ExactColumns, columns: Schema, *, shown: bool = False) -> None:
    """Values that are compared as a whole must be equal just when Spark says so."""
    allowed = KEYS | {ExactKind.DOUBLE} if shown else KEYS
    for type, column in zip(types, columns, strict=True):
        if type.kind not in allowed:
            raise Unproven("TYPE", f"{column.name} is of type {column.type.sql('spark')}")


class _Translation:
    def __init__(self, plan: Node, ansi: bool) -> None:
        self._ansi = ansi
        self._shared = Shared(plan)
        self._done: dict[int, ExactPlan] = {}

    def relation(self, node: Node) -> ExactPlan:
        number = self._shared.number(node)
        if number not in self._done:
            self._done[number] = self._operator(node)
        return self._done[number]

    def _operator(self, node: Node) -> ExactPlan:  # noqa: C901  one case per operator
        match node:
            case Scan():
                types = [exact_type(column.type) for column in node.columns]
                inputs = tuple(Input(i, node.columns[i].name, t) for i, t in enumerate(types))
                return Read(node.source, node.side, inputs)
            case Values():
                return self._values(node)
            case Project():
                return self._project(node)
            case Filter():
                below = self.relation(node.input)
                prover = self._prover(node.input.columns, below.columns)
                return Keep(below, prover.condition(node.predicate))
            case Join():
                return self._join(node)
            case OuterJoin():
                kind = Match.FULL if node.kind is OuterKind.FULL else Match.LEFT
                return self._paired(kind, node.left, node.right, node.conditions)
            case SemiJoin():
                return self._paired(Match.SEMI, node.left, node.right, node.conditions)
            case AntiJoin():
                return self._paired(Match.ANTI, node.left, node.right, node.conditions)
            case Aggregate():
                return self._aggregate(node)
            case Distinct():
                below = self.relation(node.input)
                _exact(below.columns, node.columns)
                return Once(below)
            case UnionAll():
                return self._union(node)
            case Negate():
                return Less(self.relation(node.input))
            case TopK():
                return self._top(node)
            case Expand():
                return self._expand(node)
            case Window() | Generate():
                raise Unproven("OPERATOR", f"{type(node).__name__.lower()} is left to Spark")
            case _:
                assert_never(node)

    def _project(self, node: Project) -> ExactPlan:
        below = self.relation(node.input)
        prover = self._prover(node.input.columns, below.columns)
        outputs = tuple(_of_type(prover.prove(e), c) for c, e in node.outputs)
        return Map(below, (outputs,), _types(outputs))

    def _prover(self, columns: Schema, types: ExactColumns) -> Prover:
        return Prover(_inputs(columns, types), self._ansi)

    def _values(self, node: Values) -> ExactPlan:
        prover = Prover({}, self._ansi)
        rows = tuple(
            tuple(_of_type(prover.prove(e), c) for e, c in zip(row, node.columns, strict=True))
            for row in node.rows
        )
        return Constants(rows, tuple(exact_type(c.type) for c in node.columns))

    def _union(self, node: UnionAll) -> ExactPlan:
        inputs = tuple(self.relation(child) for child in node.inputs)
        types = tuple(exact_type(column.type) for column in node.columns)
        for found in inputs:
            if found.columns != types:
                raise Unproven("TYPE", "the inputs of a union have other types than the union")
        return All(inputs, types)

    def _expand(self, node: Expand) -> ExactPlan:
        below = self.relation(node.input)
        prover = self._prover(node.input.columns, below.columns)
        projections = tuple(
            tuple(_of_type(prover.prove(e), c) for e, c in zip(each, node.columns, strict=True))
            for each in node.projections
        )
        return Map(below, projections, tuple(exact_type(c.type) for c in node.columns))

    def _top(self, node: TopK) -> ExactPlan:
        below = self.relation(node.input)
        places = {column.id: i for i, column in enumerate(node.columns)}
        order = tuple(
            Sorting(places[key.column.id], key.descending, key.nulls_first) for key in node.order
        )
        partition = tuple(places[column.id] for column in node.partition_by)
        _exact(below.columns, node.columns)
        return First(below, partition, order, node.limit, node.offset)

    # Joins

    def _join(self, node: Join) -> ExactPlan:
        """Input by input, each next to one that an equality ties it to; each condition once."""
        waiting = list(node.inputs)
        conditions = [part for condition in node.conditions for part in conjuncts(condition)]
        first = waiting.pop(0)
        columns, found = first.columns, self.relation(first)
        while waiting:
            chosen = next((n for n in waiting if _ties(columns, n.columns, conditions)), waiting[0])
            waiting.remove(chosen)
            both = columns + chosen.columns
            known = {column.id for column in both}
            ready = [c for c in conditions if column_ids(c) <= known]
            conditions = [c for c in conditions if not column_ids(c) <= known]
            found = self._pair(Match.INNER, (columns, found), (chosen.columns, chosen), ready)
            columns = both
        if conditions:
            test = self._prover(columns, found.columns).condition(conjunction(conditions))
            found = Keep(found, test)
        return _reordered(found, columns, node.columns)

    def _paired(
        self, kind: Match, left: Node, right: Node, conditions: Sequence[exp.Expression]
    ) -> ExactPlan:
        parts = [part for condition in conditions for part in conjuncts(condition)]
        sides = (left.columns, self.relation(left)), (right.columns, right)
        return self._pair(kind, *sides, parts)

    def _pair(
        self,
        kind: Match,
        left: tuple[Schema, ExactPlan],
        right: tuple[Schema, Node],
        conditions: Sequence[exp.Expression],
    ) -> ExactPlan:
        (mine, below), (theirs, node) = left, right
        other = self.relation(node)
        equal, rest = [], []
        for condition in conditions:
            found = self._equal(condition, (mine, below), (theirs, other))
            if found is None:
                rest.append(condition)
            else:
                equal.append(found)
        test = None
        if rest:
            prover = self._prover(mine + theirs, below.columns + other.columns)
            test = prover.condition(conjunction(rest))
        return Paired(kind, below, other, tuple(equal), test)

    def _equal(
        self,
        condition: exp.Expression,
        left: tuple[Schema, ExactPlan],
        right: tuple[Schema, ExactPlan],
    ) -> Equal | None:
        """An equality between the two sides; None if the condition is something else."""
        if not _is_tie(left[0], right[0], condition):
            return None
        both = {**_inputs(left[0], left[1].columns), **_inputs(right[0], right[1].columns)}
        proven = Prover(both, self._ansi).prove(condition)
        assert not isinstance(proven, Input | Constant)
        one, two = proven.args
        if column_ids(condition.this) <= {column.id for column in right[0]}:
            one, two = two, one
        if one.type.kind not in KEYS:
            raise Unproven("KEY_TYPE", f"{readable(condition)}: {one.type} is not exact")
        return Equal(one, two, isinstance(condition, exp.NullSafeEQ))

    # Aggregates

    def _aggregate(self, node: Aggregate) -> ExactPlan:
        below = self.relation(node.input)
        inputs = _inputs(node.input.columns, below.columns)
        keys = tuple(inputs[key.id] for key in node.keys)
        _exact(_types(keys), node.keys)
        prover = Prover(inputs, self._ansi)
        aggregates: list[Aggregated] = []
        outputs: list[Exact] = [
            Input(i, str(k), e.type) for i, (k, e) in enumerate(zip(node.keys, keys, strict=True))
        ]
        for column, call in node.calls:
            outputs.append(self._call(prover, column, call, len(keys), aggregates))
        return Grouped(below, keys, tuple(aggregates), tuple(outputs), _types(outputs))

    def _call(
        self,
        prover: Prover,
        column: Column,
        call: exp.Expression,
        width: int,
        aggregates: list[Aggregated],
    ) -> Exact:
        """An expression over aggregates: each stands as a column of its own beside the keys."""
        inner: dict[int, Exact] = {}

        def stand_in(node: exp.Expression) -> exp.Expression:
            if not isinstance(node, exp.AggFunc):
                return node
            found = _aggregated(prover, node)
            made = Column(-1 - len(aggregates), "aggregate", exp.DataType.build("unknown"))
            inner[made.id] = Input(width + len(aggregates), readable(node), found.type)
            aggregates.append(found)
            return ref(made)

        outer = duplicate(call).transform(stand_in, copy=False)
        return _of_type(Prover(inner, self._ansi).prove(outer), column)


def _aggregated(prover: Prover, call: exp.Expression) -> Aggregated:
    kind = _FUNCTIONS.get(type(call))
    options = {name for name, value in call.args.items() if value and name != "this"}
    if kind is None or options - {"big_int"}:
        raise Unproven("AGGREGATE", f"{readable(call)} is not on the list of proven aggregates")
    if isinstance(call.this, exp.Star) or (
        kind is ExactAggregate.COUNT and isinstance(call.this, exp.Literal)
    ):
        return Aggregated(ExactAggregate.COUNT_ROWS, None, BIGINT)
    value = prover.prove(call.this)
    if kind is ExactAggregate.COUNT:
        return Aggregated(kind, value, BIGINT)
    if value.type == DOUBLE and kind in _OF_DOUBLES:
        return Aggregated(_OF_DOUBLES[kind], value, DOUBLE)
    if kind is ExactAggregate.SUM:
        return Aggregated(kind, value, _summed(prover, call, value.type))
    if value.type.kind not in KEYS or kind is ExactAggregate.FLOAT_AVG:
        raise Unproven("AGGREGATE", f"{readable(call)}: {value.type} is not exact")
    return Aggregated(kind, value, value.type)


_FUNCTIONS: dict[type[exp.Expr], ExactAggregate] = {
    exp.Count: ExactAggregate.COUNT,
    exp.Sum: ExactAggregate.SUM,
    exp.Min: ExactAggregate.MIN,
    exp.Max: ExactAggregate.MAX,
    exp.Avg: ExactAggregate.FLOAT_AVG,
}
_OF_DOUBLES = {
    ExactAggregate.SUM: ExactAggregate.FLOAT_SUM,
    ExactAggregate.FLOAT_AVG: ExactAggregate.FLOAT_AVG,
    ExactAggregate.MIN: ExactAggregate.MIN,
    ExactAggregate.MAX: ExactAggregate.MAX,
}


def _summed(prover: Prover, call: exp.Expression, type: ExactType) -> ExactType:
    prover.may_fail(call)
    if type.integral:
        return BIGINT
    if type.kind is not ExactKind.DECIMAL:
        raise Unproven("AGGREGATE", f"{readable(call)}: a sum of {type} is not exact")
    return ExactType(ExactKind.DECIMAL, min(type.precision + _SUMMED_DIGITS, 38), type.scale)


def _inputs(columns: Schema, types: ExactColumns) -> dict[int, Exact]:
    places = enumerate(zip(columns, types, strict=True))
    return {column.id: Input(i, column.name, type) for i, (column, type) in places}


def _types(outputs: Sequence[Exact]) -> ExactColumns:
    return tuple(output.type for output in outputs)


def _of_type(value: Exact, column: Column) -> Exact:
    known = exact_type(column.type)
    if isinstance(value, Constant) and value.value is None:
        return Constant(None, known)
    if known != value.type:
        raise Unproven("TYPE", f"{column.name} is {value.type} by one rule, {known} by another")
    return value


def _ties(mine: Schema, theirs: Schema, conditions: Sequence[exp.Expression]) -> bool:
    return any(_is_tie(mine, theirs, condition) for condition in conditions)


def _is_tie(mine: Schema, theirs: Schema, condition: exp.Expression) -> bool:
    """Whether a condition says that something of one side equals something of the other."""
    if type(condition) not in (exp.EQ, exp.NullSafeEQ):
        return False
    one, two = column_ids(condition.this), column_ids(condition.expression)
    left, right = ({column.id for column in side} for side in (mine, theirs))
    across = (one <= left and two <= right) or (one <= right and two <= left)
    return bool(one and two) and across


def _reordered(found: ExactPlan, columns: Schema, wanted: Schema) -> ExactPlan:
    """The columns in another order."""
    if columns == wanted:
        return found
    inputs = _inputs(columns, found.columns)
    outputs = tuple(inputs[column.id] for column in wanted)
    return Map(found, (outputs,), _types(outputs))
