"""PostgreSQL's types, as far as a lake has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot import exp

from spark_trickle.errors import UnsupportedQueryError

DIGITS = 38
FREE_SCALE = 18
"""``numeric`` without a scale is DECIMAL(38, 18)."""


def refuse(message: str, hint: str | None = None) -> NoReturn:
    """Neither PostgreSQL's answer nor another one: none at all."""
    raise refusal(message, hint)


def refusal(message: str, hint: str | None = None) -> UnsupportedQueryError:
    return UnsupportedQueryError(
        f"PostgreSQL dialect: {message}",
        code="POSTGRES_DIALECT",
        hint=hint or "docs/compat.md lists what has a proven translation; or write it in Spark SQL",
    )


@dataclass(frozen=True)
class PgType:
    kind: str
    precision: int = 0
    scale: int = 0
    element: PgType | None = None
    free: bool = False
    """numeric without a scale: how many zeros it shows depends on the value."""

    def __str__(self) -> str:
        if self.kind == "numeric" and not self.free:
            return f"numeric({self.precision},{self.scale})"
        return f"{self.element}[]" if self.element is not None else self.kind

    @property
    def is_int(self) -> bool:
        return self.kind in _INTS

    @property
    def is_exact(self) -> bool:
        return self.is_int or self.kind == "numeric"

    @property
    def is_number(self) -> bool:
        return self.is_exact or self.kind in ("float4", "float8")


INT2, INT4, INT8 = PgType("int2"), PgType("int4"), PgType("int8")
FLOAT4, FLOAT8 = PgType("float4"), PgType("float8")
NUMERIC = PgType("numeric", DIGITS, FREE_SCALE, free=True)
TEXT, BOOL, DATE = PgType("text"), PgType("bool"), PgType("date")
TIMESTAMP, TIMESTAMPTZ = PgType("timestamp"), PgType("timestamptz")
INTERVAL, BYTEA, UUID, TIME = PgType("interval"), PgType("bytea"), PgType("uuid"), PgType("time")
UNKNOWN = PgType("unknown")
"""A literal in quotes, or NULL: it takes the type that is needed."""
OPAQUE = PgType("opaque")
"""A column of something that we know nothing of."""

_INTS = {"int2": 5, "int4": 10, "int8": 19}
_SPARK = {
    "int2": "SMALLINT",
    "int4": "INT",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "text": "STRING",
    "bool": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP_NTZ",
    "timestamptz": "TIMESTAMP",
    "bytea": "BINARY",
    "uuid": "STRING",
    "interval": "INTERVAL DAY TO SECOND",
}
_FROM_SPARK = {
    exp.DType.TINYINT: INT2,
    exp.DType.SMALLINT: INT2,
    exp.DType.INT: INT4,
    exp.DType.BIGINT: INT8,
    exp.DType.FLOAT: FLOAT4,
    exp.DType.DOUBLE: FLOAT8,
    exp.DType.TEXT: TEXT,
    exp.DType.VARCHAR: TEXT,
    exp.DType.CHAR: TEXT,
    exp.DType.BOOLEAN: BOOL,
    exp.DType.DATE: DATE,
    exp.DType.TIMESTAMPNTZ: TIMESTAMP,
    exp.DType.TIMESTAMP: TIMESTAMPTZ,
    exp.DType.TIMESTAMPTZ: TIMESTAMPTZ,
    exp.DType.TIMESTAMPLTZ: TIMESTAMPTZ,
    exp.DType.BINARY: BYTEA,
    exp.DType.VARBINARY: BYTEA,
}
_FROM_POSTGRES = {
    **{kind: type for kind, type in _FROM_SPARK.items() if kind != exp.DType.TINYINT},
    exp.DType.TIMESTAMP: TIMESTAMP,
    exp.DType.SMALLSERIAL: INT2,
    exp.DType.SERIAL: INT4,
    exp.DType.BIGSERIAL: INT8,
    exp.DType.UUID: UUID,
    exp.DType.INTERVAL: INTERVAL,
    exp.DType.NAME: TEXT,
}


def numeric(precision: int, scale: int, *, free: bool = False) -> PgType:
    return PgType("numeric", precision, scale, free=free)


def from_spark(type: exp.DataType) -> PgType:
    """The type of a column of the lake."""
    if type.this == exp.DType.DECIMAL:
        precision, scale = _parameters(type) or (10, 0)
        return numeric(precision, scale, free=(precision, scale) == (DIGITS, FREE_SCALE))
    if type.this == exp.DType.ARRAY and type.expressions:
        return PgType("array", element=from_spark(type.expressions[0]))
    return _FROM_SPARK.get(type.this, OPAQUE)


def from_postgres(type: exp.DataType) -> PgType:
    """A type as it is written in PostgreSQL's SQL."""
    if type.this == exp.DType.DECIMAL:
        found = _parameters(type)
        if found is None:
            return NUMERIC
        if not 0 <= found[1] <= found[0] <= DIGITS:
            refuse(f"numeric({found[0]},{found[1]}): a lake has up to {DIGITS} digits")
        return numeric(*found)
    if type.this == exp.DType.ARRAY and type.expressions:
        return PgType("array", element=from_postgres(type.expressions[0]))
    if type.this in (exp.DType.CHAR, exp.DType.BPCHAR):
        refuse("type char(n): it is padded with blanks", "use text or varchar(n)")
    known = _FROM_POSTGRES.get(type.this)
    if known is None:
        refuse(f"type {type.sql('postgres').lower()} is not known")
    if known in (TIMESTAMP, TIMESTAMPTZ) and type.expressions:
        refuse(f"type {type.sql('postgres').lower()}: times have microseconds", "leave (n) out")
    return known


def length_of(type: exp.DataType) -> int | None:
    """n of varchar(n)."""
    if type.this == exp.DType.VARCHAR and type.expressions:
        return int(type.expressions[0].this.this)
    return None


def _parameters(type: exp.DataType) -> tuple[int, int] | None:
    given = [int(p.this.this) for p in type.expressions]
    return None if not given else (given[0], given[1] if len(given) > 1 else 0)


def spark_type(type: PgType) -> exp.DataType:
    """What Spark calls it."""
    if type.kind == "numeric":
        return exp.DataType.build(f"DECIMAL({type.precision},{type.scale})", dialect="spark")
    if type.element is not None:
        return exp.DataType(
            this=exp.DType.ARRAY, expressions=[spark_type(type.element)], nested=True
        )
    if type.kind not in _SPARK:
        refuse(f"a value of type {type} has no type in Spark", "CAST it")
    return exp.DataType.build(_SPARK[type.kind], dialect="spark")


def as_numeric(type: PgType) -> PgType:
    """The numeric type that holds all values of an exact type."""
    return numeric(_INTS[type.kind], 0) if type.is_int else type


def common(types: Sequence[PgType], what: str) -> PgType:
    """The type that CASE, IN, UNION and the like give their values."""
    known = [type for type in types if type != UNKNOWN]
    if not known:
        return TEXT
    first = known[0]
    if OPAQUE in known:
        refuse(f"{what} of a column whose type is not known here", "CAST it")
    if (
        all(
            replace(type, precision=0, scale=0, free=False)
            == replace(first, precision=0, scale=0, free=False)
            for type in known
        )
        and first.kind != "numeric"
    ):
        return first
    if all(type.is_number for type in known):
        return _widest(known, what)
    if all(type.kind in ("date", "timestamp", "timestamptz") for type in known):
        order = ("date", "timestamp", "timestamptz")
        return max(known, key=lambda type: order.index(type.kind))
    raise refusal(f"{what} of {' and '.join(dict.fromkeys(map(str, known)))}", "CAST one of them")


def _widest(types: Sequence[PgType], what: str) -> PgType:
    kinds = {type.kind for type in types}
    if "float8" in kinds or ("float4" in kinds and len(kinds) > 1):
        return FLOAT8
    if "float4" in kinds:
        return FLOAT4
    if "numeric" not in kinds:
        return max(types, key=lambda type: _INTS[type.kind])
    wide = [as_numeric(type) for type in types]
    scale = max(type.scale for type in wide)
    whole = max(type.precision - type.scale for type in wide)
    free = any(type.free for type in wide)
    if whole + scale > DIGITS and not free:
        refuse(f"{what}: {whole + scale} digits; a lake has up to {DIGITS}")
    return numeric(min(DIGITS, whole + scale), scale, free=free)
