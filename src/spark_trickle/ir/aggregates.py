"""How each aggregate can be maintained; one row per function in ``RULES``.

Additive law: state = sum over rows of weight * term, so the state of after is the state of before
plus the state of the delta, and the value is a function of the states alone. It holds exactly only
where sums are exact: integers and decimals, never floats. The variance family is left out on
purpose: Spark merges float moments, and a sum of squares would differ in the last digits.

A state is never narrower than any sum of a delta: what a batch adds and takes away may pass the
ends of BIGINT where the sum of the group does not. Only the value is cut to Spark's own type, where
Spark's cast raises in ANSI mode and keeps the low 64 bits without it, as Spark's own sum does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.ir import averages
from spark_trickle.ir.decimals import LONG, decimal_parameters, decimal_type
from spark_trickle.ir.scalars import conjunction
from spark_trickle.ir.trees import duplicate, holds

Type = exp.DataType.Type
BIGINT = exp.DataType(this=Type.BIGINT)
INTEGERS = frozenset({Type.TINYINT, Type.SMALLINT, Type.INT, Type.BIGINT})


@dataclass(frozen=True)
class Term:
    """One hidden state column: the value one row adds to it, never NULL, and its type."""

    name: str
    value: exp.Expression
    type: exp.DataType
    counts: bool = False
    """Whether the value is 0 or 1, so that the sum lies between 0 and the number of rows."""


@dataclass(frozen=True)
class Additive:
    """State columns to be summed with weights; ``finalise`` makes the value out of them."""

    terms: tuple[Term, ...]
    formula: Callable[[list[exp.Expression]], exp.Expression]

    def finalise(self, states: list[exp.Expression]) -> exp.Expression:
        """The aggregate's value from expressions for its states, in the order of ``terms``."""
        return self.formula([duplicate(state) for state in states])


@dataclass(frozen=True)
class Extremum:
    """MIN or MAX: an insert can only improve it; a deleted extremum needs its group again."""

    argument: exp.Expression
    largest: bool


@dataclass(frozen=True)
class Other:
    """Anything else: recomputed for the groups that were touched."""


Maintenance = Additive | Extremum | Other


def classify(call: exp.Expression) -> Maintenance:
    """How to maintain an aggregate call, with its DISTINCT and FILTER."""
    condition: exp.Expression | None = None
    if isinstance(call, exp.Filter):
        condition = call.expression.this
        call = call.this
    if holds(call, exp.Distinct, exp.Order):
        return Other()
    rule = RULES.get(function_name(call))
    if rule is None:
        return Other()
    return rule(arguments(call), condition)


def function_name(call: exp.Expr) -> str:
    """The lower-case Spark name of a function call."""
    if isinstance(call, exp.Anonymous):
        return str(call.name).lower()
    if isinstance(call, exp.Func):
        return str(_NAMES.get(type(call)) or type(call).sql_names()[0]).lower()
    return ""


def arguments(call: exp.Expression) -> list[exp.Expression]:
    """The arguments of a call in order; ``count(*)`` has the star as its argument."""
    return [argument for argument in call.iter_expressions() if isinstance(argument, exp.Expr)]


_NAMES: dict[type[exp.Expr], str] = {
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.CountIf: "count_if",
}

MaintenanceRule = Callable[[list[exp.Expression], exp.Expression | None], Maintenance]


def _count(arguments: list[exp.Expression], condition: exp.Expression | None) -> Maintenance:
    present = [_present(a) for a in arguments if not isinstance(a, (exp.Star, exp.Literal))]
    return Additive((_counting("count", present, condition),), lambda states: states[0])


def _count_if(arguments: list[exp.Expression], condition: exp.Expression | None) -> Maintenance:
    return Additive((_counting("count", arguments[:1], condition),), lambda states: states[0])


def _sum(arguments: list[exp.Expression], condition: exp.Expression | None) -> Maintenance:
    argument = arguments[0]
    total = _sum_type(argument)
    if total is None:
        return Other()
    result = BIGINT if _is_bigint(argument) else total

    def formula(states: list[exp.Expression]) -> exp.Expression:
        return _when(_positive(states[1]), exp.cast(states[0], result))

    value = exp.cast(duplicate(argument), LONG) if _is_bigint(argument) else argument
    return Additive(_sum_and_count(argument, value, total, condition), formula)


def _average(arguments: list[exp.Expression], condition: exp.Expression | None) -> Maintenance:
    """Spark divides as doubles for integers, and as decimals with four more digits for decimals."""
    argument = arguments[0]
    total = _sum_type(argument)
    if total is None:
        return Other()
    decimal = decimal_parameters(argument.type)
    if decimal is not None and not averages.is_exact(*decimal):
        return Other()

    def formula(states: list[exp.Expression]) -> exp.Expression:
        total, count = states
        if decimal is None:
            quotient = averages.of_integers(total, count)
        else:
            quotient = averages.of_decimals(total, count, *decimal)
        return _when(_positive(count), quotient)

    value = averages.as_double(argument) if _is_bigint(argument) else argument
    return Additive(_sum_and_count(argument, value, total, condition), formula)


def _bool_and(arguments: list[exp.Expression], condition: exp.Expression | None) -> Maintenance:
    def formula(states: list[exp.Expression]) -> exp.Expression:
        decided = exp.Case(ifs=[_if(_positive(states[1]), exp.false())])
        decided.append("ifs", _if(_positive(states[0]), exp.true()))
        return decided

    return Additive(_trues_and_falses(arguments[0], condition), formula)


def _bool_or(arguments: list[exp.Expression], condition: exp.Expression | None) -> Maintenance:
    def formula(states: list[exp.Expression]) -> exp.Expression:
        decided = exp.Case(ifs=[_if(_positive(states[0]), exp.true())])
        decided.append("ifs", _if(_positive(states[1]), exp.false()))
        return decided

    return Additive(_trues_and_falses(arguments[0], condition), formula)


def _min(arguments: list[exp.Expression], condition: exp.Expression | None) -> Maintenance:
    return Extremum(_only_where(arguments[0], condition), largest=False)


def _max(arguments: list[exp.Expression], condition: exp.Expression | None) -> Maintenance:
    return Extremum(_only_where(arguments[0], condition), largest=True)


RULES: dict[str, MaintenanceRule] = {
    "avg": _average,
    "bool_and": _bool_and,
    "bool_or": _bool_or,
    "count": _count,
    "count_if": _count_if,
    "max": _max,
    "min": _min,
    "sum": _sum,
}
RULES |= {
    "any": _bool_or,
    "every": _bool_and,
    "mean": _average,
    "regr_count": _count,
    "some": _bool_or,
}


def _sum_type(argument: exp.Expression) -> exp.DataType | None:
    """A type that holds the sum of 10^10 rows, or None where sums are not exact.

    Of decimals of more than 28 digits it holds as much as Spark's own sum, and no more.
    """
    if argument.type is None:
        return None
    if _is_bigint(argument):
        return decimal_type(29, 0)
    if argument.type.this in INTEGERS:
        return BIGINT
    decimal = decimal_parameters(argument.type)
    if decimal is None:
        return None
    return decimal_type(min(38, decimal[0] + 10), decimal[1])


def _is_bigint(argument: exp.Expression) -> bool:
    return argument.type is not None and argument.type.this == Type.BIGINT


def _sum_and_count(
    argument: exp.Expression,
    value: exp.Expression,
    total: exp.DataType,
    condition: exp.Expression | None,
) -> tuple[Term, ...]:
    """The sum of ``value``, which is NULL where ``argument`` is, and how many there are."""
    zero = exp.cast(
        exp.Literal.number(0), LONG if _is_bigint(argument) else argument.type or BIGINT
    )
    value = exp.Coalesce(this=duplicate(value), expressions=[zero])
    if condition is not None:
        value = _when(condition, value, duplicate(zero))
    return Term("sum", value, total), _counting("count", [_present(argument)], condition)


def _trues_and_falses(
    argument: exp.Expression, condition: exp.Expression | None
) -> tuple[Term, ...]:
    falses = exp.Not(this=exp.paren(duplicate(argument)))
    return (
        _counting("trues", [argument], condition),
        _counting("falses", [falses], condition),
    )


def _counting(name: str, tests: list[exp.Expression], condition: exp.Expression | None) -> Term:
    one: exp.Expression = exp.Literal.number(1)
    if tests:
        one = _when(conjunction(tests), one, exp.Literal.number(0))
    if condition is not None:  # before the argument, which may fail on rows that do not count
        one = _when(condition, one, exp.Literal.number(0))
    return Term(name, one, BIGINT, counts=True)


def _only_where(argument: exp.Expression, condition: exp.Expression | None) -> exp.Expression:
    return duplicate(argument) if condition is None else _when(condition, duplicate(argument))


def _present(argument: exp.Expression) -> exp.Expression:
    return exp.Not(this=exp.Is(this=_wrapped(argument), expression=exp.null()))


def _wrapped(argument: exp.Expression) -> exp.Expression:
    plain = isinstance(argument, (exp.Column, exp.Literal, exp.Func, exp.Paren))
    return duplicate(argument) if plain else exp.paren(duplicate(argument))


def _positive(count: exp.Expression) -> exp.Expression:
    return exp.GT(this=duplicate(count), expression=exp.Literal.number(0))


def _if(condition: exp.Expression, value: exp.Expression) -> exp.If:
    return exp.If(this=condition, true=value)


def _when(
    condition: exp.Expression, value: exp.Expression, otherwise: exp.Expression | None = None
) -> exp.Expression:
    return exp.Case(ifs=[_if(duplicate(condition), value)], default=otherwise)
