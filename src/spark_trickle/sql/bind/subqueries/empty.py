"""What aggregates are over no rows: the value a join finds no partner for."""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.ir.aggregates import function_name
from spark_trickle.sql.bind.build import typed
from spark_trickle.sql.types.coercion import BIGINT
from spark_trickle.sql.types.functions import EMPTY_ARRAYS, EMPTY_COUNTS, EMPTY_SKETCHES, unwrapped
from spark_trickle.sql.types.infer import type_of


def is_known_over_no_rows(call: exp.Expression) -> bool:
    """Whether we can write down what an aggregate is over no rows."""
    return function_name(unwrapped(call)) not in EMPTY_SKETCHES


def over_no_rows(call: exp.Expression, value: exp.Expression) -> exp.Expression:
    """``value`` of a left join's right side, or what the aggregate is over no rows.

    None of these aggregates is ever NULL over rows, so NULL means that there was no partner.
    """
    name = function_name(unwrapped(call))
    if name in EMPTY_COUNTS:
        zero = exp.Literal.number(0)
        return typed(exp.Coalesce(this=value, expressions=[zero]), BIGINT)
    if name in EMPTY_ARRAYS:
        empty = exp.Array(expressions=[])
        return typed(exp.Coalesce(this=value, expressions=[empty]), type_of(call))
    return value
