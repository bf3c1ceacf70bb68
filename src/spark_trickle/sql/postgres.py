"""PostgreSQL's SQL as Spark's: what sqlglot translates, and what it would translate wrongly.

The way is through text, because each dialect has node classes of its own for the same call.
Positions travel inside the quoted identifiers. Whatever has no translation is refused.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import ErrorLevel, exp
from sqlglot.errors import UnsupportedError
from sqlglot.generators.spark import SparkGenerator

from spark_trickle.errors import ParseError
from spark_trickle.ir.decimals import decimal_type
from spark_trickle.sql.dialects import TrickleSpark, TrickleSparkGenerator

DIVISION = "typed_division__"
"""``/`` of PostgreSQL: whether it keeps a fraction depends on types, which only bind knows."""

_MARK = "\x1f"
_ELEMENT = "element__"


class _Generator(TrickleSparkGenerator):
    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        kind: rule for kind, rule in SparkGenerator.TRANSFORMS.items() if kind is not exp.Select
    }


class _Translated(TrickleSpark):
    Generator = _Generator


def translate(tree: exp.Expr, *, runnable: bool = False) -> exp.Expr:
    """A tree of PostgreSQL's dialect as a tree of ours; identifiers keep their positions.

    ``runnable``: the result goes to Spark as it is, so it may only call what Spark has.
    """
    try:
        prepared = tree.transform(_prepared)
        if not runnable:
            prepared = prepared.transform(_divided)
        prepared = prepared.transform(_marked)
        text = prepared.sql(_Translated, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError as error:
        raise ParseError(
            f"this has no translation to Spark SQL: {str(error).splitlines()[0]}",
            hint="write it in Spark SQL",
        ) from None
    result = TrickleSpark().parse(text)[0]
    assert result is not None
    for node in result.walk():
        node.meta.clear()
        if isinstance(node, exp.Identifier) and _MARK in node.name:
            name, start, end = node.name.split(_MARK)
            node.set("this", name)
            node.meta.update(start=int(start), end=int(end))
    return result


def _marked(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Identifier) and "start" in node.meta:
        name = f"{node.name}{_MARK}{node.meta['start']}{_MARK}{node.meta['end']}"
        return exp.Identifier(this=name, quoted=True)
    return node


def _prepared(node: exp.Expr) -> exp.Expr:
    """Constructs whose meaning sqlglot would lose on the way."""
    if isinstance(node, exp.DataType) and node.this == exp.DType.DECIMAL and not node.expressions:
        return decimal_type(38, 18)
    if isinstance(node, exp.Fetch):
        _refuse_ties(node)
    if isinstance(node, exp.ArrayAgg | exp.GroupConcat) and isinstance(node.this, exp.Order):
        raise UnsupportedError("ORDER BY inside an aggregate")
    if isinstance(node, exp.Binary) and isinstance(node, exp.Predicate):
        return _compared_with_array(node)
    if isinstance(node, exp.Unnest | exp.Lateral | exp.Table):
        return _exploded(node)
    return node


def _divided(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Div) and node.args.get("typed"):
        # transform() goes on into what it returns only if it is the same node.
        parts = (_operand(node.this), _operand(node.expression))
        return exp.Anonymous(this=DIVISION, expressions=[p.transform(_divided) for p in parts])
    return node


def _operand(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node.copy()


def _refuse_ties(node: exp.Fetch) -> None:
    options = node.args.get("limit_options")
    if options is not None and (options.args.get("with_ties") or options.args.get("percent")):
        raise UnsupportedError("FETCH … WITH TIES or PERCENT")


def _compared_with_array(node: exp.Expr) -> exp.Expr:
    """``x = ANY (array)``: there is an element that compares TRUE."""
    right = node.args.get("expression")
    if isinstance(right, exp.Anonymous) and str(right.this).upper() == "ALL":
        raise UnsupportedError("ALL of an array")
    if not isinstance(right, exp.Any) or isinstance(_operand(right.this), exp.Query):
        return node
    array = _operand(right.this)
    if isinstance(node, exp.EQ):
        return exp.Anonymous(this="array_contains", expressions=[array, node.this.copy()])
    element = exp.to_identifier(_ELEMENT)
    test = type(node)(this=node.this.copy(), expression=element.copy())
    condition = exp.Lambda(this=test, expressions=[element])
    return exp.Anonymous(this="exists", expressions=[array, condition])


def _exploded(node: exp.Expr) -> exp.Expr:
    """``unnest`` and ``generate_series`` in FROM make rows: a lateral explode."""
    call = node.this if isinstance(node, exp.Lateral | exp.Table) else node
    if isinstance(call, exp.ExplodingGenerateSeries):
        ends = [call.args["start"], call.args["end"], call.args.get("step")]
        bounds = [end.copy() for end in ends if end is not None]
        array: exp.Expr = exp.Anonymous(this="sequence", expressions=bounds)
    elif isinstance(call, exp.Unnest):
        if len(call.expressions) != 1 or call.args.get("offset"):
            raise UnsupportedError("unnest of several arrays or WITH ORDINALITY")
        array = call.expressions[0].copy()
    else:
        return node
    alias = node.args.get("alias")
    name = alias.this.copy() if alias is not None and alias.this else exp.to_identifier("unnest")
    columns = [c.copy() for c in (alias.args.get("columns") or [])] if alias is not None else []
    table = exp.TableAlias(this=name, columns=columns or [name.copy()])
    return exp.Lateral(this=exp.Explode(this=array), alias=table, view=False, outer=False)
