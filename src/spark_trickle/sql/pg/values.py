"""Typed values on their way to Spark, and the small trees that rules build."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.sql.pg.types import PgType, spark_type


@dataclass(frozen=True)
class PgValue:
    """An expression of Spark's, and the type that PostgreSQL gives it."""

    tree: exp.Expr
    type: PgType
    constant: object = None
    """Of a literal: its text or number."""

    @property
    def is_literal(self) -> bool:
        return self.constant is not None


Rule = Callable[[Sequence[PgValue]], PgValue]
"""What a function makes of its arguments."""


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def cast(tree: exp.Expr, type: PgType) -> exp.Expr:
    return exp.Cast(this=tree, to=spark_type(type))


def number(value: int) -> exp.Expr:
    literal = exp.Literal.number(abs(value))
    return exp.Paren(this=exp.Neg(this=literal)) if value < 0 else literal


def text(value: str) -> exp.Expr:
    return exp.Literal.string(value)


def paren(tree: exp.Expr) -> exp.Expr:
    return (
        tree if isinstance(tree, exp.Column | exp.Literal | exp.Anonymous) else exp.Paren(this=tree)
    )


def binary(kind: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.Paren(this=kind(this=paren(left), expression=paren(right)))


def either(condition: exp.Expr, yes: exp.Expr, no: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=yes)], default=no)


def failing(condition: exp.Expr, message: str, value: exp.Expr, type: PgType) -> exp.Expr:
    """``value``, but an error where the condition is true."""
    error = cast(call("raise_error", text(message)), type)
    return either(condition, error, value)


_LOCAL = "v__"
"""One name for all: the value that is bound inside hides the one around it, which nothing there needs."""


def let(values: list[exp.Expr], body: Callable[..., exp.Expr]) -> exp.Expr:
    """``body`` over values that are computed once each."""
    if all(isinstance(value, exp.Column | exp.Literal) for value in values):
        return body(*values)
    fields: list[exp.Expr] = []
    for i, value in enumerate(values):
        fields += [text(f"f{i}"), value]
    array = call("array", call("named_struct", *fields))
    parts = [
        exp.Dot(this=exp.to_identifier(_LOCAL), expression=exp.to_identifier(f"f{i}"))
        for i in range(len(values))
    ]
    function = exp.Lambda(this=body(*parts), expressions=[exp.to_identifier(_LOCAL)])
    return call("element_at", call("transform", array, function), exp.Literal.number(1))
