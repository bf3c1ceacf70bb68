"""Whole columns give what rows give, one by one; where they may not, they say so."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

from spark_trickle.compile import compile_query
from spark_trickle.delta.fast_path import FastPlan
from spark_trickle.errors import ExecutionError
from spark_trickle.ir.exact import Exact, ExactKind
from spark_trickle.ir.types import WEIGHT, Column, TableSchema
from spark_trickle.local import columns, fold, vectors
from spark_trickle.local.batches import Batch, summed
from spark_trickle.local.columns import Columns
from spark_trickle.local.fold import Folder
from spark_trickle.local.vectors import Texts, Vector
from spark_trickle.prove.refusal import Unproven
from spark_trickle.prove.types import BIGINT
from support.exact import Composer, Failure, all_pairs, as_arrow, evaluate, make_rows, translate

ROWS = [*make_rows(40, seed=5), *make_rows(40, seed=6)]
SMALL = [tuple(v % 50 if type(v) is int else v for v in row) for row in ROWS]


@cache
def expressions() -> dict[str, Exact]:
    composer = Composer(seed=11)
    texts = random.Random(12).sample(all_pairs(), 300)
    texts += [composer.any(random.Random(n).choice((1, 2, 2, 3))) for n in range(200)]
    found = {sql: exact for sql in texts if not isinstance(exact := translate(sql), Unproven)}
    return {sql: exact for sql, exact in found.items() if exact.type.kind is not ExactKind.VOID}


def by_columns(exact: Exact, rows: list[tuple[Any, ...]]) -> list[Any]:
    table, texts = as_arrow(rows), Texts()
    types = {each.index: each.type for each in columns.inputs(exact)}

    def column(place: int) -> Vector:
        return vectors.from_arrow(table.column(place), types[place], texts)

    found = Columns(Batch(np.ones(len(rows), np.int64), column), texts).computed(exact)
    values = vectors.to_values(found, exact.type, texts)
    if exact.type.integral or exact.type.kind is ExactKind.DECIMAL:
        assert max([abs(v) for v in values if v is not None], default=0) <= found.most, "a bound"
    return values


def compared(some: list[tuple[Any, ...]]) -> list[str]:
    """Where whole columns give something else than rows, of those that do not fail."""
    wrong = []
    for sql, exact in expressions().items():
        rows = evaluate(exact, some)
        good = [n for n, value in enumerate(rows) if not isinstance(value, Failure)]
        mine = by_columns(exact, [some[n] for n in good])
        if not all(_equal(a, rows[n]) for a, n in zip(mine, good, strict=True)):
            wrong.append(f"{sql}: {mine} by columns, {[rows[n] for n in good]} by rows")
    return wrong


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other and type(one) is type(other))


@pytest.mark.parametrize("rows", [ROWS, SMALL], ids=["edges", "small"])
def test_columns_agree_with_rows(rows: list[tuple[Any, ...]]) -> None:
    assert len(expressions()) > 300
    assert compared(rows) == []


def test_what_fails_by_rows_fails_by_columns() -> None:
    failing = 0
    for exact in expressions().values():
        if any(isinstance(value, Failure) for value in evaluate(exact, ROWS)):
            failing += 1
            with pytest.raises(ExecutionError):
                by_columns(exact, ROWS)
    assert failing > 50


def test_most_small_numbers_need_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what has no rule is computed row by row."""
    asked = []
    original = Columns._by_rows
    monkeypatch.setattr(Columns, "_by_rows", lambda *a: asked.append(a) or original(*a))
    compared(SMALL)
    assert len(asked) < len(expressions()) / 3


@pytest.mark.parametrize("rule", ["_and", "_coalesce", "_in", "_scaled", "_same", "_case"])
def test_a_wrong_rule_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if rule == "_scaled":
        monkeypatch.setattr(columns, rule, lambda value, _: value)
    else:
        rules = {op: fn for op, fn in columns._RULES.items() if fn.__name__ == rule}
        for op, right in rules.items():

            def wrong(texts: Texts, call: Any, args: Any, right: Any = right) -> Vector:
                return right(texts, call, args[:1] * len(args))

            monkeypatch.setitem(columns._RULES, op, wrong)
    assert compared(SMALL)


QUERIES = [
    "SELECT g, h, sum(a) AS s, count(*) AS n FROM t WHERE b > 0.5 GROUP BY g, h",
    "SELECT sum(a * (1 - b) * (1 + b)) AS s, avg(a) AS m, count(c) AS n FROM t",
    "SELECT year(d) AS y, sum(CASE WHEN g = 'x' THEN a ELSE 0 END) AS s FROM t GROUP BY year(d)",
    "SELECT h, sum(c) AS s FROM t GROUP BY h HAVING count(*) > 3",
]
SOURCE = TableSchema(
    "t",
    tuple(
        Column(i, name, exp.DataType.build(kind, "spark"))
        for i, (name, kind) in enumerate(
            {
                "g": "string",
                "h": "int",
                "a": "decimal(15,2)",
                "b": "decimal(5,2)",
                "c": "bigint",
                "d": "date",
            }.items()
        )
    ),
)


def changes(count: int, largest: int, chance: random.Random) -> pa.Table:
    def some(values: list[Any]) -> list[Any]:
        return [chance.choice([None, *values]) for _ in range(count)]

    numbers = [chance.randint(-largest, largest) for _ in range(20)]
    raw = {
        "g": pa.array(some(["x", "y", ""]), pa.string()),
        "h": pa.array(some([1, 2, 3]), pa.int32()),
        "a": pa.array(some([n % 10**12 for n in numbers]), pa.int64()).cast(pa.decimal128(21, 2)),
        "b": pa.array(some([0, 1, 2]), pa.int32()).cast(pa.decimal128(12, 2)),
        "c": pa.array(some(numbers), pa.int64()),
        "d": pa.array(some([0, 400, 20_000]), pa.int32()).cast(pa.date32()),
        WEIGHT: pa.array([chance.choice([-2, -1, 1, 1, 3]) for _ in range(count)], pa.int64()),
    }
    types = {"a": pa.decimal128(15, 2), "b": pa.decimal128(5, 2)}
    return pa.table({n: c.cast(types[n]) if n in types else c for n, c in raw.items()})


@pytest.mark.parametrize("query", QUERIES)
def test_groups_by_columns_are_those_by_rows(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = compile_query(query, {"t": SOURCE}).fast_path
    assert isinstance(plan, FastPlan)
    folder = Folder(plan)
    for seed, largest in ((1, 10**6), (2, 10**6), (3, 2**63 - 1)):
        rows = changes(700, largest, random.Random(seed))
        by_columns = folder.group_deltas(rows)
        with monkeypatch.context() as patch:
            patch.setattr(fold, "MANY", 1_000)
            assert by_columns == folder.group_deltas(rows)
        assert by_columns


def test_sums_past_64_bits_are_exact() -> None:
    numbers = [2**62 - 1, 2**62 - 1, -(2**63), 2**63 - 1]
    values = vectors.from_values(numbers, BIGINT, Texts())
    found = summed(values, np.array([3, 1, 1, 2**40]), np.array([0, 0, 1, 1]), 2)
    assert found.tolist() == [4 * (2**62 - 1), -(2**63) + (2**63 - 1) * 2**40]
