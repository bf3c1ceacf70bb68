"""Texts that Spark takes for moments of the clock: 'now', 'today', 'yesterday', 'tomorrow'.

Spark puts the moment in wherever it casts a constant text to a date or timestamp: a typed literal,
a CAST, an argument of a date function, or the other side of a comparison with a date.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from spark_trickle.ir.aggregates import function_name
from spark_trickle.ir.trees import holds
from spark_trickle.sql.types import coercion as c
from spark_trickle.sql.types.infer import type_of

_WORDS = re.compile(r"\s*(now|today|yesterday|tomorrow)(\s+\S.*)?\s*", re.IGNORECASE)
_OF_TIME = re.compile(
    r"date|day|month|year|week|quarter|hour|minute|second|time|trunc|utc|window|extract"
)
"""In the names of functions whose text arguments Spark may cast to moments."""
_COMMON = frozenset(
    (
        "array",
        "coalesce",
        "equal_null",
        "greatest",
        "if",
        "ifnull",
        "least",
        "nullif",
        "nvl",
        "nvl2",
    )
)
"""Functions that bring their arguments to one type."""
_COMPARING = (exp.Binary, exp.Between, exp.In, exp.Case)


def reads_clock(node: exp.Expr) -> bool:
    """Whether a bound, typed node turns a constant text of its own into a moment of the clock."""
    if isinstance(node, exp.Cast):
        return _is_moment(node.args.get("to")) and _may_name_moment(node.this)
    operands = list(_operands(node))
    if not any(map(names_moment, operands)):
        return False
    if isinstance(node, exp.Add | exp.Sub):
        return True
    name = function_name(node)
    if isinstance(node, _COMPARING) or name in _COMMON:
        return any(_is_moment(type_of(operand)) for operand in operands)
    return bool(name and _OF_TIME.search(name))


def names_moment(node: exp.Expr) -> bool:
    """Whether a node is a text that Spark may take for a moment of the clock."""
    return isinstance(node, exp.Literal) and bool(node.is_string and _WORDS.fullmatch(node.name))


def _operands(node: exp.Expr) -> Iterator[exp.Expr]:
    for child in node.iter_expressions():
        inner = child.unnest()
        if isinstance(inner, exp.If) and isinstance(node, exp.Case):
            yield inner.args["true"].unnest()
        elif isinstance(inner, exp.Expr):
            yield inner


def _may_name_moment(node: exp.Expr) -> bool:
    inner = node.unnest()
    if isinstance(inner, exp.Literal):
        return names_moment(inner)
    # A text made of constants alone is a constant to Spark too.
    text = type_of(inner)
    return (c.is_unknown(text) or text.is_type("text")) and not holds(inner, exp.Column)


def _is_moment(type: object) -> bool:
    return isinstance(type, exp.DataType) and type.this in exp.DataType.TEMPORAL_TYPES
