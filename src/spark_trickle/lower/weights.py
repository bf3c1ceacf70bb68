"""Weights made visible: sums over weighted rows, and the net form of a delta.

sum over a multiset with weights: SUM(v) = sum of v * weight, COUNT(*) = sum of weight.
A delta is net when no two rows are equal and no weight is zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from spark_trickle.errors import InternalError
from spark_trickle.ir.decimals import decimal_type
from spark_trickle.ir.trees import duplicate, parts
from spark_trickle.ir.types import WEIGHT
from spark_trickle.lower.block import aliased, big, identifier

WEIGHT_DIGITS = 9
"""A weight times a decimal is a decimal with this many more digits, which Spark keeps exact."""


def weighted_call(call: exp.Expression, weight: exp.Expression) -> exp.Expression:
    """An aggregate call over unweighted rows, rewritten for rows that carry a weight."""

    def rewrite(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Count):
            if not isinstance(node.this, exp.Star):
                raise InternalError(f"{node.sql()} has no weighted form")
            total = exp.cast(exp.Sum(this=duplicate(weight)), exp.DType.BIGINT)
            return exp.Coalesce(this=total, expressions=[big(0)])
        if isinstance(node, exp.Sum):
            return exp.Sum(this=_times(node.this, weight, node.parent))
        if isinstance(node, exp.AggFunc):
            raise InternalError(f"{node.sql()} has no weighted form")
        return node

    return duplicate(call).transform(rewrite)


def _times(
    value: exp.Expression, weight: exp.Expression, parent: exp.Expr | None
) -> exp.Expression:
    if value.is_number and value.name == "1":
        return duplicate(weight)
    factor = duplicate(weight)
    if isinstance(parent, exp.Cast) and parent.to.this == exp.DataType.Type.DECIMAL:
        factor = exp.cast(factor, decimal_type(WEIGHT_DIGITS, 0))
    return exp.Mul(this=exp.paren(duplicate(value)), expression=factor)


def consolidated(
    query: exp.Query, columns: Sequence[tuple[str, str, exp.DataType]], alias: str
) -> exp.Select:
    """The net form of a weighted query; ``columns`` are (name inside, name outside, type).

    Of equal values that stand for a group any is returned. The JSON text stands for a VARIANT, which
    cannot be grouped, and an array of one for what holds a map: in the code that Spark generates to
    sort the entries of a map by itself, NULL becomes 0; inside an array it generates none.
    """
    selected: list[exp.Expression] = []
    groups: list[exp.Expression] = []
    for inside, outside, type in columns:
        column = exp.Column(this=identifier(inside), table=identifier(alias))
        stands_in = _stand_in(type)
        if stands_in is None:
            groups.append(duplicate(column))
            selected.append(aliased(column, outside))
        else:
            groups.append(exp.Anonymous(this=stands_in, expressions=[duplicate(column)]))
            selected.append(aliased(exp.AnyValue(this=column), outside))
    weight = exp.Column(this=identifier(WEIGHT), table=identifier(alias))
    total = exp.Sum(this=weight)
    selected.append(aliased(exp.cast(total, exp.DType.BIGINT), WEIGHT))
    result = exp.Select(expressions=selected)
    source = exp.Subquery(this=query, alias=exp.TableAlias(this=identifier(alias)))
    result.set("from_", exp.From(this=source))
    if groups:
        result.set("group", exp.Group(expressions=groups))
    nonzero = exp.NEQ(this=duplicate(total), expression=big(0))
    result.set("having", exp.Having(this=nonzero))
    return result


def _stand_in(type: exp.DataType) -> str | None:
    """The function of a value that is grouped by in its place; what is not known may be a map."""
    if type.this == exp.DataType.Type.VARIANT:
        return "to_json"
    may_be_map = (exp.DataType.Type.MAP, exp.DataType.Type.UNKNOWN)
    kinds = {inner.this for inner in parts(type) if isinstance(inner, exp.DataType)}
    return None if kinds.isdisjoint(may_be_map) else "array"
