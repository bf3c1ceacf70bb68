"""The state of an aggregate: sums from which its values follow, and which the sums of a delta extend.

value(group) = finalise(states), and states(after) = states(before) + states(delta), because every
state is the sum of a term that never is NULL. ``__rows`` is such a sum too: a group dies at 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.ir.aggregates import BIGINT, Additive, Term, classify, decimal_parameters
from spark_trickle.ir.nodes import Aggregate, Distinct, Node, Project
from spark_trickle.ir.scalars import ref, substitute
from spark_trickle.ir.types import Column
from spark_trickle.ir.walk import Ids

ROWS = "__rows"
"""The number of rows of a group."""

SAFE_SCALE = 6
"""Spark keeps this many digits of a decimal that would need more than 38 digits."""


@dataclass(frozen=True)
class State:
    """``aggregate`` computes keys, row count and states; ``values`` reads the results off them."""

    aggregate: Aggregate
    values: tuple[tuple[Column, exp.Expression], ...]
    """The original outputs over the columns of ``aggregate``."""


def state_of(node: Aggregate | Distinct, ids: Ids) -> State | None:
    """The state that maintains an aggregate, or None if one of its calls has none."""
    if isinstance(node, Distinct):
        node = Aggregate(node.input, node.columns, ())
    kinds = [classify(call) for _, call in node.calls]
    additive = [kind for kind in kinds if isinstance(kind, Additive)]
    terms = [term for kind in additive for term in kind.terms]
    if len(additive) < len(kinds) or not all(map(_exact, terms)):
        return None
    scalar = not node.keys
    rows = ids.column(ROWS, BIGINT, nullable=False)
    calls: list[tuple[Column, exp.Expression]] = [(rows, exp.Count(this=exp.Star()))]
    known: dict[str, Column] = {_key(_ONE): rows}
    values: list[tuple[Column, exp.Expression]] = [(key, ref(key)) for key in node.keys]
    for (column, _), kind in zip(node.calls, additive, strict=True):
        states: list[exp.Expression] = []
        for term in kind.terms:
            if _key(term) not in known:
                state = ids.column(f"__{column.name}_{term.name}", term.type, nullable=False)
                known[_key(term)] = state
                calls.append((state, _call(term, scalar=scalar)))
            states.append(ref(known[_key(term)]))
        values.append((column, kind.finalise(states)))
    return State(Aggregate(node.input, node.keys, tuple(calls)), tuple(values))


_ONE = Term("rows", exp.Literal.number(1), BIGINT)


def _call(term: Term, *, scalar: bool) -> exp.Expression:
    """SUM in the type Spark gives it; without keys there may be no row at all, and the sum is 0."""
    total = exp.cast(exp.Sum(this=term.value.copy()), term.type.copy())
    if not scalar:
        return total
    zero = exp.cast(exp.Literal.number(0), term.type.copy())
    return exp.Coalesce(this=total, expressions=[zero])


def _exact(term: Term) -> bool:
    """Adding two such sums, and multiplying by a weight, loses no digit in Spark."""
    decimal = decimal_parameters(term.type)
    return decimal is None or decimal[0] < 38 or decimal[1] <= SAFE_SCALE


def _key(term: Term) -> str:
    return f"{term.value.sql()} {term.type.sql()}"


def finalised(state: State, rows: Node) -> Node:
    """The outputs of the aggregate over stored states; columns of ``rows`` match by position."""
    pairs = zip(state.aggregate.columns, rows.columns, strict=True)
    stored: dict[int, exp.Expression] = {own.id: ref(column) for own, column in pairs}
    return Project(rows, tuple((column, substitute(e, stored)) for column, e in state.values))
