"""Random expressions over exact types, and the rows to try them on; Spark is the oracle."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from itertools import product
from typing import Any

import pyarrow as pa
from sqlglot import exp

from spark_trickle.errors import ExecutionError
from spark_trickle.ir.exact import Exact, ExactKind, ExactType, Input
from spark_trickle.ir.nodes import Project
from spark_trickle.ir.types import Column, TableSchema
from spark_trickle.local.evaluate import function_of
from spark_trickle.local.values import to_arrow
from spark_trickle.normalize.pipeline import normalize
from spark_trickle.prove.refusal import Unproven
from spark_trickle.prove.scalars import Prover
from spark_trickle.prove.types import exact_type
from spark_trickle.sql.bind.plan import bind

COLUMNS = {
    "id": "int",
    "t": "tinyint",
    "s": "smallint",
    "i": "int",
    "j": "int",
    "l": "bigint",
    "m": "bigint",
    "d5": "decimal(5,2)",
    "d12": "decimal(12,2)",
    "d18": "decimal(18,0)",
    "d19": "decimal(19,6)",
    "d28": "decimal(28,10)",
    "e38": "decimal(38,0)",
    "f38": "decimal(38,18)",
    "g38": "decimal(38,38)",
    "h38": "decimal(38,18)",
    "k38": "decimal(38,30)",
    "p": "boolean",
    "q": "boolean",
    "a": "string",
    "b": "string",
    "v": "date",
    "w": "date",
    "x": "timestamp",
    "y": "timestamp",
    "n": "timestamp_ntz",
    "o": "timestamp_ntz",
    "z": "binary",
    "r": "double",
    "u": "double",
}
TYPES = {name: exact_type(exp.DataType.build(text, "spark")) for name, text in COLUMNS.items()}
NUMBERS = [name for name, type in TYPES.items() if type.digits is not None and name != "id"]
PAIRS = [("p", "q"), ("a", "b"), ("v", "w"), ("x", "y"), ("n", "o"), ("z", "z")]
LITERALS = ("0", "1", "-1", "7", "127", "2147483648", "0.5", "-12.345", "100.00", "NULL")
ROUNDED_TWICE = 4723227811453214371184582428359749, 2376107800662168938857478857817641
"""Their product rounded to 39 digits and then to its scale is not the product rounded once."""
NEAR_FIVE = [5 * 10**30 + n for n in (0, 1, -1)] + [-5 * 10**30 + n for n in (0, 1, -1)]
"""Told from 5 and -5 only by the last of 30 digits behind the point."""
TARGETS = [
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "decimal(3,0)",
    "decimal(5,2)",
    "decimal(10,4)",
    "decimal(20,0)",
    "decimal(38,6)",
    "decimal(38,18)",
    "double",
]


def values(type: ExactType, random: random.Random) -> list[Any]:
    """Edges of a type and some values between them."""
    match type.kind:
        case ExactKind.BOOLEAN:
            return [True, False]
        case ExactKind.STRING:
            return ["", "a", "A", "ab", "ä", "z\U0001f600", "2024-01-01", "1", " a"]
        case ExactKind.BINARY:
            return [b"", b"\x00", b"\xff", b"ab"]
        case ExactKind.DATE:
            near = random.randrange(-1_000_000, 3_000_000)
            return [0, -1, 59, 60, 19_782, 19_783, 19_723, -719_162, 2_932_896, 95_026_236, near]
        case ExactKind.TIMESTAMP | ExactKind.TIMESTAMP_NTZ:
            return [0, -1, 1, 1_704_067_200_000_000, -62_135_596_800_000_000]
        case ExactKind.DOUBLE:
            return [0.0, -0.0, 1.5, -2.0, 0.1, 5e-324, 1.7e308, math.inf, -math.inf]
        case ExactKind.DECIMAL:
            top = 10**type.precision - 1
        case _:
            top = (
                2
                ** {ExactKind.TINYINT: 7, ExactKind.SMALLINT: 15, ExactKind.INT: 31}.get(
                    type.kind, 63
                )
                - 1
            )
    digits = random.randint(1, len(str(top)))
    small = [0, 1, -1, 2, -3, 5, 25, -15, 50, 10**type.scale, -(10**type.scale) // 2]
    large = [top, -top, top // 2, top // 3, random.randint(-top, top)]
    if type.integral:
        large.append(-top - 1)
    return [v for v in (*small, *large, random.randrange(10**digits)) if -top - 1 <= v <= top]


def make_rows(count: int, seed: int) -> list[tuple[Any, ...]]:
    """Rows of all columns; one value in eight is NULL."""
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        row = [
            None if chance.random() < 0.125 else chance.choice(values(type, chance))
            for type in TYPES.values()
        ]
        rows.append((number, *row[1:]))
    places = {name: place for place, name in enumerate(COLUMNS)}
    first = list(rows[0])
    first[places["f38"]], first[places["h38"]] = ROUNDED_TWICE
    near = places["k38"]
    for n, value in enumerate(NEAR_FIVE[: len(rows) - 1], start=1):
        rows[n] = (*rows[n][:near], value, *rows[n][near + 1 :])
    return [tuple(first), *rows[1:]]


def as_arrow(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    arrays = [to_arrow(list(c), t) for c, t in zip(columns, TYPES.values(), strict=True)]
    return pa.table(arrays, names=list(COLUMNS))


def beyond() -> list[str]:
    """Comparisons of decimals that have no common type of 38 digits."""
    pairs = [
        ("e38", "f38"),
        ("g38", "d28"),
        ("g38", "f38"),
        ("d12", "g38"),
        ("e38", "d5"),
        ("m", "g38"),
    ]
    # An integer literal has the digits that are written; a sum of two of them has ten.
    numbers = ("5", "-5", "(5)", "2 + 3", "5L", "12345678901", "5.0", "i")
    pairs += [("k38", number) for number in numbers] + [
        (number, "k38") for number in ("5", "2 + 3")
    ]
    signs = ("=", "<>", "<", "<=", ">", ">=", "<=>")
    ranges = ["f38 BETWEEN e38 AND g38", "k38 BETWEEN -5 AND 5", "k38 BETWEEN 2 + 3 AND 5"]
    return [f"{a} {sign} {b}" for a, b in pairs for sign in signs] + ranges


SOURCE = TableSchema(
    "rows",
    tuple(
        Column(place, name, exp.DataType.build(text, "spark"))
        for place, (name, text) in enumerate(COLUMNS.items())
    ),
)


def translate(sql: str) -> Exact | Unproven:
    """The exact expression of a text over the columns, as the compiler makes it."""
    bound = bind(f"SELECT {sql} AS r FROM rows", {"rows": SOURCE})
    assert bound.plan is not None
    plan = normalize(bound.plan)
    assert isinstance(plan, Project)
    places = {name: place for place, name in enumerate(COLUMNS)}
    inputs = {c.id: Input(places[c.name], c.name, TYPES[c.name]) for c in plan.input.columns}
    try:
        return Prover(inputs).prove(plan.outputs[0][1])
    except Unproven as refused:
        return refused


@dataclass(frozen=True)
class Failure:
    """An error in place of a value, by Spark's code."""

    code: str


def evaluate(expression: Exact, rows: list[tuple[Any, ...]]) -> list[Any]:
    """The value or the failure for each row."""
    function = function_of(expression)
    found = []
    for row in rows:
        try:
            found.append(function(row))
        except ExecutionError as error:
            found.append(Failure(error.message[1 : error.message.index("]")]))
    return found


def all_pairs() -> list[str]:
    """Every operator over every pair of types that it is on the list for."""
    arithmetic = [f"{a} {o} {b}" for a, b in product(NUMBERS, NUMBERS) for o in "+-*/%"]
    whole = [n for n in NUMBERS if TYPES[n].integral]
    arithmetic += [f"{a} {o} {b}" for a, b in product(whole, whole) for o in ("DIV",)]
    literals = [f"{a} {o} {b}" for a, b in product(NUMBERS, LITERALS) for o in "+*/<"]
    literals += [f"{b} {o} {a}" for a, b in product(NUMBERS, LITERALS) for o in "-/="]
    comparisons = ("=", "<>", "<", "<=", ">", ">=", "<=>")
    numbers = [f"{a} {o} {b}" for a, b in product(NUMBERS, NUMBERS) for o in comparisons]
    others = [f"{a} {o} {b}" for a, b in PAIRS for o in comparisons]
    casts = [f"CAST({a} AS {t})" for a, t in product([*NUMBERS, "p"], TARGETS)]
    signs = [f"-{a}" for a in NUMBERS]
    casts += [f"CAST({a} / {b} AS BIGINT)" for a, b in product(whole, (*whole, "2"))]
    mixed = product(("r", "u"), ("r", "u", "i", "l", "d5", "f38", "0.5", "2e0"))
    others += [f"{a} {o} {b}" for a, b in mixed for o in ("+", "-", "*", "/", *comparisons)]
    others += [f"{a} {o} r" for a in ("i", "m", "d28", "1.25") for o in ("-", "/", "<", ">=")]
    return [*arithmetic, *literals, *numbers, *others, *casts, *signs]


def functions() -> list[str]:
    """Functions of texts and dates."""
    patterns = ("%", "_", "a%", "%a", "%a%", "_a", "%_", "a_%b", "", "(", "%.%", "z_", "ä", "[a]%")
    texts = ("a", "b", "concat(a, b)", "substring(b, 2)", "(a || 'ä(.')")
    found = [f"{t} {no}LIKE '{p}'" for t, p in product(texts, patterns) for no in ("", "NOT ")]
    found += [
        f"{f}({t}, {o})"
        for f in ("startswith", "endswith", "contains")
        for t, o in product(texts, texts)
    ]
    found += [f"{f}({t})" for f in ("length", "char_length") for t in texts]
    found += [
        f"substring({t}, {n}, {k})" for t in texts for n, k in ((1, 2), (2, 0), (3, 9), (1, 1))
    ]
    found += [f"left({t}, {n})" for t in texts for n in (0, 1, 5)]
    parts = ("year", "quarter", "month", "day", "dayofmonth")
    found += [
        f"{part}({d})" for part in parts for d in ("v", "w", "coalesce(v, w)", "DATE'2024-02-29'")
    ]
    return [*found, *(f"EXTRACT({part} FROM v)" for part in ("YEAR", "QUARTER", "MONTH", "DAY"))]


class Composer:
    """Random nested expressions."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def any(self, depth: int) -> str:
        return self._random.choice((self.number, self.condition))(depth)

    def number(self, depth: int) -> str:
        pick = self._random.choice
        if depth == 0:
            return pick((*NUMBERS, *NUMBERS, *LITERALS))
        shape = pick(("op", "op", "case", "coalesce", "if", "nullif", "cast", "neg"))
        one, two = self.number(depth - 1), self.number(depth - 1)
        match shape:
            case "op":
                return f"({one} {pick('+-*')} {two})"
            case "case":
                return f"(CASE WHEN {self.condition(depth - 1)} THEN {one} ELSE {two} END)"
            case "coalesce":
                return f"COALESCE({one}, {two})"
            case "if":
                return f"IF({self.condition(depth - 1)}, {one}, {two})"
            case "nullif":
                return f"NULLIF({one}, {two})"
            case "cast":
                return f"CAST({one} AS {pick(TARGETS[:-1])})"
            case _:
                return f"(-({one} + {two}))"

    def condition(self, depth: int) -> str:
        pick = self._random.choice
        if depth == 0:
            a, b = pick(PAIRS)
            return pick(
                (
                    "p",
                    "q",
                    f"({a} < {b})",
                    f"({a} IS NULL)",
                    f"({a} <=> {b})",
                    "CAST(NULL AS BOOLEAN)",
                )
            )
        one, two = self.number(depth - 1), self.number(depth - 1)
        shape = pick(("and", "or", "not", "compare", "in", "texts", "between", "null"))
        match shape:
            case "and" | "or":
                both = self.condition(depth - 1), self.condition(depth - 1)
                return f"({both[0]} {shape.upper()} {both[1]})"
            case "not":
                return f"(NOT {self.condition(depth - 1)})"
            case "compare":
                return f"({one} {pick(('=', '<>', '<', '>=', '<=>'))} {two})"
            case "in":
                return f"({one} IN ({two}, {pick(LITERALS)}, {pick(LITERALS)}))"
            case "texts":
                return f"(a {pick(('IN', 'NOT IN'))} ('a', b, {pick(('NULL', repr('ab')))}))"
            case "between":
                return f"({one} BETWEEN {two} AND {self.number(depth - 1)})"
            case _:
                return f"({one} IS {pick(('NULL', 'NOT NULL'))})"
