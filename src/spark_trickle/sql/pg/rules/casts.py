"""From one type to another with PostgreSQL's rounding; what Spark would read otherwise is refused."""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.sql.pg import types as t
from spark_trickle.sql.pg.literals import literal_as
from spark_trickle.sql.pg.types import PgType, as_numeric, refuse
from spark_trickle.sql.pg.values import PgValue, binary, call, cast, failing, let, number, text


def converted(value: PgValue, to: PgType) -> PgValue:
    """CAST(value AS to)."""
    source = value.type
    if source == t.UNKNOWN:
        return _from_literal(value, to)
    if source == t.OPAQUE:
        refuse("a cast of a column whose type is not known here")
    if source == to:
        return PgValue(value.tree, to, value.constant)
    rule = _RULES.get((_group(source), _group(to)))
    if rule is None:
        refuse(f"cast of {source} to {to}")
    return rule(value, to)


def coerced(value: PgValue, to: PgType) -> PgValue:
    """The value as another type where types meet: never rounded."""
    if value.type == to or (value.type.kind == to.kind and to.kind != "numeric"):
        return value
    if value.type == t.UNKNOWN:
        return _from_literal(value, to)
    return PgValue(cast(value.tree, to), to)


def _from_literal(value: PgValue, to: PgType) -> PgValue:
    if value.constant is None:  # NULL
        return PgValue(cast(value.tree, to), to)
    return literal_as(str(value.constant), to)


def _group(type: PgType) -> str:
    if type.is_int:
        return "int"
    return "float" if type.kind in ("float4", "float8") else type.kind


def _same(value: PgValue, to: PgType) -> PgValue:
    return PgValue(cast(value.tree, to), to)


def _to_numeric(value: PgValue, to: PgType) -> PgValue:
    """An int keeps its digits; numeric without a scale has as many as it needs."""
    if to.free:
        return coerced(value, as_numeric(value.type))
    return PgValue(cast(value.tree, to), to)


def _rounded(value: PgValue, to: PgType) -> PgValue:
    """PostgreSQL rounds half away from zero, Spark's cast would cut."""
    return PgValue(cast(call("round", value.tree, number(0)), to), to)


def _float_to_int(value: PgValue, to: PgType) -> PgValue:
    """Half to even."""
    return PgValue(cast(call("rint", value.tree), to), to)


def _between_floats(value: PgValue, to: PgType) -> PgValue:
    if to == t.FLOAT4:
        refuse("cast of float8 to float4: PostgreSQL fails where Spark makes it infinite")
    return _same(value, to)


def _to_bool(value: PgValue, to: PgType) -> PgValue:
    if value.type != t.INT4:
        refuse(f"cast of {value.type} to boolean")
    return PgValue(binary(exp.NEQ, value.tree, number(0)), to)


def _bool_to_int(value: PgValue, to: PgType) -> PgValue:
    if to != t.INT4:
        refuse(f"cast of boolean to {to}")
    return _same(value, to)


def _numeric_to_text(value: PgValue, to: PgType) -> PgValue:
    if value.type.free:
        refuse(
            "cast of numeric without a scale to text: its zeros depend on the value",
            "cast it to numeric(p,s) first",
        )
    return _same(value, to)


def _time_to_text(value: PgValue, to: PgType) -> PgValue:
    def body(moment: exp.Expr) -> exp.Expr:
        year = call("year", moment)
        outside = exp.Not(this=exp.Between(this=year, low=number(1), high=number(9999)))
        return failing(outside, "years are 1 to 9999 here", cast(moment, to), to)

    return PgValue(let([value.tree], body), to)


def _text_to_int(value: PgValue, to: PgType) -> PgValue:
    """Spark takes control characters around the digits for blanks."""

    def body(content: exp.Expr) -> exp.Expr:
        odd = exp.Not(
            this=call("rlike", content, text("^[ \\t\\n\\r]*[+-]?[0-9]+[ \\t\\n\\r]*\\z"))
        )
        return failing(odd, f"invalid input syntax for type {to}", cast(content, to), to)

    return PgValue(let([value.tree], body), to)


def _uuid_to_text(value: PgValue, to: PgType) -> PgValue:
    return PgValue(value.tree, to)


_RULES = {
    ("int", "int"): _same,
    ("int", "numeric"): _to_numeric,
    ("int", "float"): _same,
    ("int", "text"): _same,
    ("int", "bool"): _to_bool,
    ("bool", "int"): _bool_to_int,
    ("bool", "text"): _same,
    ("numeric", "int"): _rounded,
    ("numeric", "numeric"): _to_numeric,
    ("numeric", "float"): _same,
    ("numeric", "text"): _numeric_to_text,
    ("float", "int"): _float_to_int,
    ("float", "float"): _between_floats,
    ("text", "int"): _text_to_int,
    ("date", "text"): _time_to_text,
    ("timestamp", "text"): _time_to_text,
    ("date", "timestamp"): _same,
    ("date", "timestamptz"): _same,
    ("timestamp", "date"): _same,
    ("timestamptz", "date"): _same,
    ("timestamp", "timestamptz"): _same,
    ("timestamptz", "timestamp"): _same,
    ("uuid", "text"): _uuid_to_text,
}
"""By kinds of types. Missing on purpose: text to anything but integers (Spark reads other spellings),
float to numeric and text (other digits), timestamptz to text (Spark shows no zone)."""
