"""Functions that turn one row into many: what columns they make."""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.ir.aggregates import function_name
from spark_trickle.ir.nodes import Generate, Node
from spark_trickle.ir.trees import duplicate
from spark_trickle.ir.types import Column
from spark_trickle.sql.bind.session import Environment
from spark_trickle.sql.types import coercion as c
from spark_trickle.sql.types.infer import type_of


def generate(
    node: Node, call: exp.Expression, names: list[str], outer: bool, environment: Environment
) -> tuple[Generate, tuple[Column, ...]]:
    """The plan with the generated columns, named as given or as Spark names them."""
    name = function_name(call)
    columns = _columns(name, call)
    if names and columns and len(names) != len(columns):
        raise environment.text.error(
            call,
            f"{name} makes {len(columns)} columns, but {len(names)} names are given",
            hint="name each of them",
        )
    if not columns:
        columns = [(label, c.UNKNOWN) for label in names or ["col"]]
    made = tuple(
        environment.ids.column(label, type)
        for label, (_, type) in zip(names or [n for n, _ in columns], columns, strict=True)
    )
    keeps_empty = outer or name.endswith("_outer")
    return Generate(node, _plain(call), made, keeps_empty), made


def _plain(call: exp.Expression) -> exp.Expression:
    """``explode_outer`` is ``explode`` in an outer Generate."""
    match function_name(call):
        case "explode" | "explode_outer":
            return exp.Explode(this=duplicate(_value(call)))
        case "posexplode" | "posexplode_outer":
            return exp.Posexplode(this=duplicate(_value(call)))
        case "inline" | "inline_outer":
            return exp.Inline(this=duplicate(_value(call)))
        case _:
            return call


def _value(call: exp.Expression) -> exp.Expression:
    """The first argument, also if it is written ``name => value``."""
    first = call.this if isinstance(call.this, exp.Expression) else call.expressions[0]
    value = first.expression if isinstance(first, exp.Kwarg) else first
    assert isinstance(value, exp.Expression)
    return value


def _columns(name: str, call: exp.Expression) -> list[tuple[str, exp.DataType]]:
    given = type_of(_value(call))
    match name.removesuffix("_outer"):
        case "explode":
            return _elements(given)
        case "posexplode":
            return [("pos", c.INT), *_elements(given)]
        case "inline":
            return _struct_fields(given)
        case "json_tuple":
            return [(f"c{i}", c.STRING) for i in range(len(call.expressions) - 1)]
        case "stack":
            return _stacked(call)
        case _:
            return []


def _elements(given: exp.DataType) -> list[tuple[str, exp.DataType]]:
    if given.this == c.Type.MAP:
        key, value = given.expressions or (c.UNKNOWN, c.UNKNOWN)
        return [("key", c.canonical(key)), ("value", c.canonical(value))]
    if given.this == c.Type.ARRAY:
        return [("col", c.element_of(given))]
    return []


def _struct_fields(given: exp.DataType) -> list[tuple[str, exp.DataType]]:
    element = c.element_of(given)
    if element.this != c.Type.STRUCT:
        return []
    return [(part.name, c.canonical(part.args["kind"])) for part in element.expressions]


def _stacked(call: exp.Expression) -> list[tuple[str, exp.DataType]]:
    count, *values = call.expressions
    if not (isinstance(count, exp.Literal) and count.is_int) or int(count.name) < 1:
        return []
    width = -(-len(values) // int(count.name))
    return [(f"col{i}", type_of(value)) for i, value in enumerate(values[:width])]
