"""Plans run in this process: a wrong rule is noticed by comparison with DuckDB.

That right rules agree with it is shown by ``test_needs.py``, which runs every small delta both ways.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sqlglot import exp

from spark_trickle.compile import compile_query
from spark_trickle.errors import ExecutionError
from spark_trickle.ir.exact_plan import ExactAggregate, Match, Paired, Read
from spark_trickle.ir.types import Column, TableSchema
from spark_trickle.local import batches, program, vectors
from spark_trickle.maintain.refresh import locally
from spark_trickle.prove.plans import NotLocal, local_plan
from support import tpch
from support.delta_law import Laboratory
from support.examples import SOURCES, example
from support.nearby import wrong_nearby

Patch = pytest.MonkeyPatch


def _with_keys(patch: Patch, *, same: bool) -> None:
    original = program._partners

    def partners(plan: Paired) -> Any:
        return original(replace(plan, equal=tuple(replace(e, same=same) for e in plan.equal)))

    patch.setattr(program, "_partners", partners)


def null_equals_null(patch: Patch) -> None:
    """A key that is NULL finds partners."""
    _with_keys(patch, same=True)


def null_never_equals_null(patch: Patch) -> None:
    """A NULL-safe key that is NULL finds none."""
    _with_keys(patch, same=False)


def _as(patch: Patch, old: Match, new: Match) -> None:
    original = program._paired

    def paired(left: Any, right: Any, plan: Paired) -> Any:
        return original(left, right, replace(plan, kind=new) if plan.kind is old else plan)

    patch.setattr(program, "_paired", paired)


def left_rows_without_a_partner_are_lost(patch: Patch) -> None:
    """LEFT is taken for INNER."""
    _as(patch, Match.LEFT, Match.INNER)


def semi_is_anti(patch: Patch) -> None:
    """The rows without partners stay."""
    _as(patch, Match.SEMI, Match.ANTI)


def rest_is_forgotten(patch: Patch) -> None:
    """Only equalities are looked at."""
    original = program._partners
    patch.setattr(program, "_partners", lambda plan: original(replace(plan, rest=None)))


def weights_are_signs(patch: Patch) -> None:
    """A row that comes twice is counted once."""
    original = program._Sum.add
    patch.setattr(
        program._Sum, "add", lambda self, value, w: original(self, value, (w > 0) - (w < 0))
    )
    patch.setattr(
        program._Count,
        "add",
        lambda self, value, w: setattr(self, "value", self.value + (w > 0) - (w < 0)),
    )


def least_is_greatest(patch: Patch) -> None:
    """min gives max."""
    patch.setitem(program._AGGREGATES, ExactAggregate.MIN, program._Greatest)


def by_columns_null_equals_null(patch: Patch) -> None:
    """A key that is NULL finds partners."""
    original = batches._Run._partners

    def partners(self: Any, plan: Paired, *sides: Any) -> Any:
        return original(
            self, replace(plan, equal=tuple(replace(e, same=True) for e in plan.equal)), *sides
        )

    patch.setattr(batches._Run, "_partners", partners)


def by_columns_weights_are_signs(patch: Patch) -> None:
    """A row that comes twice is counted once."""
    original = batches._added
    patch.setattr(batches, "_added", lambda v, *rest: original(np.sign(v), *rest))


def by_columns_null_is_a_value(patch: Patch) -> None:
    """Rows are told apart by their values alone."""
    original = vectors._codes

    def codes(column: vectors.Vector) -> Any:
        return original(replace(column, known=np.ones(len(column.known), bool)))

    patch.setattr(vectors, "_codes", codes)


def by_columns_nobody_is_alone(patch: Patch) -> None:
    """Rows without a partner are lost."""
    original = batches._Run._alone

    def alone(self: Any, plan: Paired, side: Any, met: Any, **options: Any) -> Any:
        return original(self, plan, side, np.arange(side.rows), **options)

    patch.setattr(batches._Run, "_alone", alone)


MUTANTS = [
    by_columns_null_equals_null,
    by_columns_weights_are_signs,
    by_columns_null_is_a_value,
    by_columns_nobody_is_alone,
    null_equals_null,
    null_never_equals_null,
    left_rows_without_a_partner_are_lost,
    semi_is_anti,
    rest_is_forgotten,
    weights_are_signs,
    least_is_greatest,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_wrong_rule_is_noticed(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    monkeypatch.setattr(locally, "CHECKED", 0)  # or rows and columns notice each other
    laboratory = Laboratory(SOURCES)
    with pytest.raises(AssertionError, match="in this process"):
        _try_all(laboratory)
    laboratory.close()


def _try_all(laboratory: Laboratory) -> None:
    for number in range(30_000, 30_300):
        found = example(number, depth=3)
        query = compile_query(found.sql, SOURCES)
        laboratory.load(found.data)
        assert laboratory.check(query, found.sql, found.data) is None
        wrong_nearby(laboratory, query, found.data, found.number)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT l.a, m.b FROM r l CROSS JOIN r m",
        "SELECT l.a FROM r l JOIN r m ON l.b < m.a",
        "SELECT l.a FROM r l WHERE EXISTS (SELECT 1 FROM r m WHERE l.b > m.a + m.b)",
    ],
)
def test_a_join_that_explodes_is_given_up_before_it_does(
    query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few rows are read, but every one meets every other."""
    number = exp.DataType.build("int")
    source = TableSchema("r", tuple(Column(i, name, number) for i, name in enumerate("ab")))
    plan = compile_query(query, {"r": source}).normalized
    assert plan is not None
    exact = local_plan(plan)
    assert not isinstance(exact, NotLocal)
    seen = []

    def rows(read: Read) -> program.WeightedRows:
        return [((n,) * len(read.inputs), 1) for n in range(1_000)]

    counted = program._Context.pair
    monkeypatch.setattr(program._Context, "pair", lambda c, n: (seen.append(n), counted(c, n)))
    with pytest.raises(ExecutionError, match="TOO_MANY"):
        program.Program(exact).run(rows)
    assert sum(seen) <= program.MOST_PAIRS + 1_000, "before they are looked at"


def test_all_deltas_of_tpch_are_proven() -> None:
    refused = []
    for number in range(1, 23):
        query = compile_query(tpch.query(number), tpch.sources())
        for delta in query.delta(query.reads).parts:
            if isinstance(local_plan(delta.nearby), NotLocal):
                refused.append((number, delta.part.name))
    assert refused == []
