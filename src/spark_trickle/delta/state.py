"""The state of an aggregate: what its values follow from, and what a delta can extend.

value(group) = finalise(states). A sum of terms that never are NULL extends by addition:
sum(after) = sum(before) + sum(delta). ``__rows`` is such a sum too: a group dies at 0.
An extremum extends by comparison as long as it was not deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from spark_trickle.ir.aggregates import (
    BIGINT,
    Additive,
    Extremum,
    Maintenance,
    Other,
    Term,
    classify,
)
from spark_trickle.ir.decimals import decimal_parameters
from spark_trickle.ir.nodes import Aggregate, Distinct, Node, Project
from spark_trickle.ir.scalars import column_id, ref, substitute
from spark_trickle.ir.trees import duplicate
from spark_trickle.ir.types import Column
from spark_trickle.ir.walk import ColumnIds

ROWS = "__rows"
"""The number of rows of a group."""

SAFE_SCALE = 6
"""Spark keeps this many digits of a decimal that would need more than 38 digits."""


@dataclass(frozen=True)
class AggregateState:
    """``aggregate`` computes keys, row count and states; ``values`` reads the results off them."""

    aggregate: Aggregate
    values: tuple[tuple[Column, exp.Expression], ...]
    """The original outputs over the columns of ``aggregate``."""
    extrema: tuple[tuple[Column, Extremum], ...] = ()
    """The state columns that are MIN or MAX; all others are sums."""
    counts: tuple[Column, ...] = ()
    """The sums that count rows of the group: from 0 to ``__rows``."""


def state_of(node: Aggregate | Distinct, ids: ColumnIds) -> AggregateState | None:
    """The state that maintains an aggregate, or None if one of its calls has none."""
    if isinstance(node, Distinct):
        node = Aggregate(node.input, node.columns, ())
    present = frozenset(column.id for column in node.input.columns if not column.nullable)
    kinds = [(column, call, _certain(classify(call), present)) for column, call in node.calls]
    if any(isinstance(kind, Other) for _, _, kind in kinds):
        return None
    terms = [term for _, _, kind in kinds if isinstance(kind, Additive) for term in kind.terms]
    if not all(map(_exact, terms)):
        return None
    states = _States(ids, scalar=not node.keys)
    values: list[tuple[Column, exp.Expression]] = [(key, ref(key)) for key in node.keys]
    for column, call, kind in kinds:
        match kind:
            case Additive():
                own = [ref(states.sum(term, column)) for term in kind.terms]
                values.append((column, kind.finalise(list(own))))
            case Extremum():
                values.append((column, ref(states.extremum(kind, call, column))))
            case Other():
                raise AssertionError("refused above")
    aggregate = Aggregate(node.input, node.keys, tuple(states.calls))
    return AggregateState(aggregate, tuple(values), tuple(states.extrema), tuple(states.counts))


class _States:
    """The state columns so far; equal states are kept once."""

    def __init__(self, ids: ColumnIds, *, scalar: bool) -> None:
        rows = ids.column(ROWS, BIGINT, nullable=False)
        self.calls: list[tuple[Column, exp.Expression]] = [(rows, exp.Count(this=exp.Star()))]
        self.extrema: list[tuple[Column, Extremum]] = []
        self.counts: list[Column] = []
        self._ids = ids
        self._scalar = scalar
        self._known: dict[str, Column] = {_key(_ONE): rows}

    def sum(self, term: Term, column: Column) -> Column:
        """The state that sums a term."""
        if _key(term) not in self._known:
            name = f"__{column.name}_{term.name}"
            self._known[_key(term)] = self._ids.column(name, term.type, nullable=False)
            self.calls.append((self._known[_key(term)], _call(term, scalar=self._scalar)))
            if term.counts:
                self.counts.append(self._known[_key(term)])
        return self._known[_key(term)]

    def extremum(self, kind: Extremum, call: exp.Expression, column: Column) -> Column:
        """The state that is a MIN or MAX."""
        key = call.sql()
        if key not in self._known:
            self._known[key] = self._ids.column(f"__{column.name}", column.type)
            self.calls.append((self._known[key], call))
            self.extrema.append((self._known[key], kind))
        return self._known[key]


def _certain(kind: Maintenance, present: frozenset[int]) -> Maintenance:
    """Without the tests for NULL of columns that never are: their count is the row count."""
    if not isinstance(kind, Additive):
        return kind
    terms = tuple(replace(term, value=_simplified(term.value, present)) for term in kind.terms)
    return replace(kind, terms=terms)


def _simplified(value: exp.Expression, present: frozenset[int]) -> exp.Expression:
    if isinstance(value, exp.Coalesce) and _is_present(value.this, present):
        argument: exp.Expression = value.this
        return argument
    if isinstance(value, exp.Case) and len(value.args["ifs"]) == 1:
        (only,) = value.args["ifs"]
        test = only.this
        if isinstance(test, exp.Not) and isinstance(test.this, exp.Is):
            counted: exp.Expression = only.args["true"]
            return counted if _is_present(test.this.this, present) else value
    return value


def _is_present(value: exp.Expression, present: frozenset[int]) -> bool:
    return isinstance(value, exp.Column) and column_id(value) in present


_ONE = Term("rows", exp.Literal.number(1), BIGINT)


def _call(term: Term, *, scalar: bool) -> exp.Expression:
    """SUM in the type Spark gives it; without keys there may be no row at all, and the sum is 0."""
    total = exp.cast(exp.Sum(this=duplicate(term.value)), duplicate(term.type))
    if not scalar:
        return total
    zero = exp.cast(exp.Literal.number(0), duplicate(term.type))
    return exp.Coalesce(this=total, expressions=[zero])


def _exact(term: Term) -> bool:
    """Adding two such sums, and multiplying by a weight, loses no digit in Spark."""
    decimal = decimal_parameters(term.type)
    return decimal is None or decimal[0] < 38 or decimal[1] <= SAFE_SCALE


def _key(term: Term) -> str:
    return f"{term.value.sql()} {term.type.sql()}"


def finalised(state: AggregateState, rows: Node) -> Node:
    """The outputs of the aggregate over stored states; columns of ``rows`` match by position."""
    pairs = zip(state.aggregate.columns, rows.columns, strict=True)
    stored: dict[int, exp.Expression] = {own.id: ref(column) for own, column in pairs}
    return Project(rows, tuple((column, substitute(e, stored)) for column, e in state.values))
