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
from spark_trickle.ir.exact import Exact, ExactKind
from spark_trickle.ir.types import WEIGHT, Column, TableSchema
from spark_trickle.local import columns, fold
from spark_trickle.local.columns import Beyond, Columns
from spark_trickle.local.fold import Folder
from spark_trickle.prove.refusal import Unproven
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


def compared(some: list[tuple[Any, ...]]) -> tuple[int, list[str]]:
    """How many expressions columns had an answer for, and where it was a wrong one."""
    table, answered, wrong = as_arrow(some), 0, []
    for sql, exact in expressions().items():
        try:
            found = Columns(table.columns, len(some)).computed(exact)
        except Beyond:
            continue
        answered += 1
        mine = [v if k else None for v, k in zip(found.values.tolist(), found.known, strict=True)]
        rows = evaluate(exact, some)
        same = [a == b and not isinstance(b, Failure) for a, b in zip(mine, rows, strict=True)]
        most = max([abs(v) for v in mine if v is not None], default=0)
        if not all(same) or most > found.most:
            wrong.append(f"{sql}: {mine} by columns, {rows} by rows, at most {found.most}")
    return answered, wrong


def test_columns_agree_with_rows() -> None:
    for rows, least in ((ROWS, 50), (SMALL, 150)):
        answered, wrong = compared(rows)
        assert wrong == []
        assert answered > least


@pytest.mark.parametrize("rule", ["_and", "_coalesce", "_in", "_scaled"])
def test_a_wrong_rule_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if rule == "_scaled":
        monkeypatch.setattr(columns, rule, lambda value, _: value)
    else:
        rules = {op: fn for op, fn in columns._RULES.items() if fn.__name__ == rule}
        for op, right in rules.items():
            wrong = lambda call, args, right=right: right(call, args[:1] * len(args))  # noqa: E731
            monkeypatch.setitem(columns._RULES, op, wrong)
    assert compared(SMALL)[1]


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


def test_sums_that_might_not_fit_are_left_to_rows() -> None:
    column = pa.chunked_array([pa.array([2**61, 2**61, 5], pa.int64())])
    exact = translate("l")
    assert not isinstance(exact, Unproven)
    values = columns.numbers(column, exact.type)
    with pytest.raises(Beyond):
        columns.summed(values, np.ones(3, np.int64), np.arange(3), np.array([0]))
