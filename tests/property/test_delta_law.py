"""Q(after) = Q(before) + D(Q), for generated queries, tables and changes, on DuckDB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from spark_trickle.compile import compile_query
from spark_trickle.delta.support import Incremental
from support.delta_law import Laboratory
from support.examples import SOURCES, example, explained
from support.predicates import TESTS, TEXT_TESTS
from support.queries import Data, Row

EXAMPLES = 2_000
BLOCK = 250

CONSTRUCTS = [
    "select",
    "grouped",
    "distinct",
    "set",
    "window",
    "rollup",
    "with",
    "top",
    "ranked",
    "total",
    "having",
    "scalar",
    "plain",
    "exists",
    "in",
] + [
    *("not exists", "not in", "having subquery", "scalar in select"),
    *("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"),
    *("UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"),
    *("on =", "on <", "on >=", "on IS NOT DISTINCT FROM"),
    *("by text", "of text", "on text"),
    *TESTS,
    *TEXT_TESTS,
]


@pytest.fixture
def laboratory() -> Iterator[Laboratory]:
    opened = Laboratory(SOURCES)
    yield opened
    opened.close()


@pytest.mark.parametrize("start", range(0, EXAMPLES, BLOCK))
def test_after_is_before_plus_delta(start: int, laboratory: Laboratory) -> None:
    moved = 0
    for number in range(start, start + BLOCK):
        found = example(number)
        query = compile_query(found.sql, SOURCES)
        assert isinstance(query.verdict, Incremental), f"{found.sql}\n{query.verdict}"
        laboratory.load(found.data)
        if laboratory.check(query, found.sql, found.data) is not None:
            pytest.fail(explained(found))
        moved += bool(laboratory.result_delta)
        assert number != 199 or moved > 80, "the changes matter"
    assert moved > BLOCK // 3, "in every block"


def test_the_examples_hold_every_construct() -> None:
    features = sum((example(number).features for number in range(EXAMPLES)), Counter[str]())
    rare = {name: features[name] for name in CONSTRUCTS if features[name] < 25}
    assert not rare


@pytest.mark.parametrize(
    "start", [10_000, *(pytest.param(n, marks=pytest.mark.long) for n in (10_040, 10_080))]
)
def test_small_steps_end_where_one_big_change_ends(start: int, laboratory: Laboratory) -> None:
    for number in range(start, start + 40):
        found = example(number, depth=3)
        query = compile_query(found.sql, SOURCES)
        laboratory.load(found.data)
        assert laboratory.check(query, found.sql, found.data) is None, explained(found)
        big = Counter(laboratory.result_delta)
        small: Counter[Row] = Counter()
        for step in _steps(found.data):
            laboratory.load(step)
            assert laboratory.check(query, found.sql, step) is None, explained(found)
            small.update(laboratory.result_delta)
        assert {row: n for row, n in small.items() if n} == dict(big), found.sql


def _steps(data: Data) -> Iterator[Data]:
    """The same change, one row at a time: inserts of a table first, so that all steps are legal."""
    before = {name: Counter(rows) for name, rows in data.before.items()}
    for name, delta in data.delta.items():
        for row, weight in sorted(delta.items(), key=lambda item: -item[1]):
            step = Data(before, {name: Counter({row: weight})})
            yield step
            before = step.after()
