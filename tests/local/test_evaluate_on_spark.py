"""What this process computes is what Spark computes: values, types and kinds of errors.

Set CASES to try more expressions than the few hundred of a usual run.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from spark_trickle.ir.exact import Exact, ExactKind, Operation
from spark_trickle.local import evaluate as rules
from spark_trickle.local.values import from_arrow
from spark_trickle.prove.refusal import Unproven
from support.exact import (
    Composer,
    Failure,
    all_pairs,
    as_arrow,
    beyond,
    evaluate,
    functions,
    make_rows,
    translate,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CASES = int(os.environ.get("CASES", "330"))
ROWS = make_rows(24, seed=3)
AT_ONCE = 60


@dataclass(frozen=True)
class Tried:
    sql: str
    exact: Exact
    here: list[Any]
    there: list[Any]
    """What Spark says of the rows that do not fail here."""


def expressions() -> Iterator[tuple[str, Exact]]:
    """Proven expressions: some of all pairs of types, and nested ones."""
    chosen = random.Random(1).sample(all_pairs(), 2 * CASES // 3)
    composer = Composer(seed=2)
    chosen += [composer.any(random.Random(n).choice((1, 2, 2, 3))) for n in range(CASES // 2)]
    for sql in dict.fromkeys(["f38 * h38", *beyond(), *chosen, *functions()]):
        exact = translate(sql)
        if not isinstance(exact, Unproven) and exact.type.kind is not ExactKind.VOID:
            yield sql, exact


@pytest.fixture(scope="module")
def tried(spark: SparkSession) -> list[Tried]:
    spark.createDataFrame(as_arrow(ROWS)).createOrReplaceTempView("exact_rows")
    found = [(sql, exact, evaluate(exact, ROWS)) for sql, exact in expressions()]
    result = []
    for start in range(0, len(found), AT_ONCE):
        result += _beside_spark(spark, found[start : start + AT_ONCE])
    return result


def _beside_spark(spark: SparkSession, some: list[tuple[str, Exact, list[Any]]]) -> list[Tried]:
    shown = [f"{_guarded(sql, here)} AS r{n}" for n, (sql, _, here) in enumerate(some)]
    frame = spark.sql(f"SELECT id, {', '.join(shown)} FROM exact_rows")
    types = {field.name: field.dataType.simpleString() for field in frame.schema}
    answer = frame.toArrow().sort_by("id")
    result = []
    for n, (sql, exact, here) in enumerate(some):
        expected = str(exact.type).lower().replace(" ", "")
        assert types[f"r{n}"] == expected, f"{sql} is {types[f'r{n}']}, not {expected}"
        result.append(Tried(sql, exact, here, from_arrow(answer.column(f"r{n}"), exact.type)))
    return result


def _guarded(sql: str, here: list[Any]) -> str:
    """Rows that fail here are asked about one by one: a failure ends a query."""
    good = [str(n) for n, value in enumerate(here) if not isinstance(value, Failure)]
    if len(good) == len(here):
        return f"({sql})"
    return f"CASE WHEN id IN ({', '.join(good) or 'NULL'}) THEN ({sql}) END"


def differences(tried: list[Tried]) -> list[str]:
    """Where what is computed now is not what Spark said."""
    found = []
    for each in tried:
        now = evaluate(each.exact, ROWS)
        for row, value, before, theirs in zip(ROWS, now, each.here, each.there, strict=True):
            expected = before if isinstance(before, Failure) else theirs
            if value != expected or type(value) is not type(expected):
                found.append(f"{each.sql} of row {row[0]}: {value!r}, Spark says {expected!r}")
    return found


def test_values_are_those_of_spark(tried: list[Tried]) -> None:
    assert len(tried) * len(ROWS) >= 2_000
    assert differences(tried) == []


def test_what_fails_here_fails_in_spark(tried: list[Tried], spark: SparkSession) -> None:
    """A sample, of every kind of error and operator."""
    failing: dict[object, list[tuple[str, int, str]]] = {}
    for each in tried:
        for n, value in enumerate(each.here):
            if isinstance(value, Failure) and value.code != "NAN":  # no error there
                kind = value.code, each.exact.type.kind
                failing.setdefault(kind, []).append((each.sql, n, value.code))
    assert len(failing) >= 8
    sample = [
        case
        for cases in failing.values()
        for case in random.Random(4).sample(cases, min(4, len(cases)))
    ]
    wrong = []
    for sql, n, code in sample:
        try:
            answer = spark.sql(f"SELECT {sql} FROM exact_rows WHERE id = {n}").collect()
            wrong.append(f"{sql} of row {n}: {code} here, Spark says {answer}")
        except Exception as error:
            found = re.search(r"\[([A-Z_]+)", str(error))
            if found is None or found[1] != code:
                wrong.append(f"{sql} of row {n}: {code} here, Spark says {str(error)[:200]}")
    assert wrong == []


def _even(a: int, b: int) -> int:
    quotient, rest = divmod(abs(a), abs(b))
    quotient += 2 * rest > abs(b) or (2 * rest == abs(b) and quotient % 2 == 1)
    return -quotient if (a < 0) != (b < 0) else quotient


def _two_valued(parts: list[rules.Evaluator]) -> rules.Evaluator:
    return lambda row: all(part(row) for part in parts)


def _eager_or(parts: list[rules.Evaluator]) -> rules.Evaluator:
    return lambda row: True in [part(row) for part in parts]


def _rounded_twice(value: int, scale: int, target: int, once: Any = rules.rescaled) -> int:
    between = scale - max(0, len(str(abs(value))) - 39)
    return (
        once(once(value, scale, between), between, target)
        if between < scale
        else once(value, scale, target)
    )


def _plain_in(_: Operation, args: list[rules.Evaluator]) -> rules.Evaluator:
    return lambda row: args[0](row) in [other(row) for other in args[1:]]


def _of_null(args: list[rules.Evaluator], compute: Any) -> rules.Evaluator:
    def function(row: Any) -> Any:
        try:
            return compute(*["" if value(row) is None else value(row) for value in args])
        except TypeError:
            return None

    return function


MUTANTS: dict[str, tuple[str, Any]] = {
    "numbers are rounded twice": ("rescaled", _rounded_twice),
    "half goes to even": ("_half_up", _even),
    "integers are divided downwards": ("_truncated", lambda a, b: a // b),
    "nothing overflows": ("checker", lambda _: lambda _: True),
    "NULL AND x is false": ("_and", _two_valued),
    "NULL OR x is false": ("_or", _eager_or),
    "NULL in a list is no value": ("_in", _plain_in),
    "% stands for something": ("_WILD", {"%": ".+", "_": "."}),
    "_ may stand for nothing": ("_WILD", {"%": ".*", "_": ".?"}),
    "a function of NULL is computed": ("_strict", _of_null),
    "scales are not adjusted": ("rescaled", lambda value, _scale, _target: value),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_rule_is_noticed(
    name: str, tried: list[Tried], monkeypatch: pytest.MonkeyPatch
) -> None:
    attribute, wrong = MUTANTS[name]
    monkeypatch.setattr(rules, attribute, wrong)
    assert differences(tried)


def test_comparisons_beyond_38_digits_are_computed_here() -> None:
    assert [sql for sql in beyond() if isinstance(translate(sql), Unproven)] == []
