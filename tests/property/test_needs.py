"""A delta reads no more than its needs say: with everything else taken away, it stays the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc
import pytest
from sqlglot import exp

from spark_trickle.compile import PartDelta, compile_query
from spark_trickle.delta.keys import needs
from spark_trickle.delta.keys.needs import by_deltas
from spark_trickle.ir.nodes import AntiJoin, OuterJoin
from spark_trickle.ir.types import WEIGHT, Side
from spark_trickle.maintain.gather import finding as sieve
from spark_trickle.maintain.gather import nearby as near
from support.delta_law import Laboratory, table_names
from support.examples import SOURCES, Example, example, join_example
from support.nearby import wrong_nearby


def pruned_name(source: str, version: Side) -> exp.Table:
    """Tables with only the rows and columns that are needed."""
    name = exp.Identifier(this=f"{source}@{version.value}", quoted=True)
    return exp.Table(this=name, db=exp.Identifier(this="pruned", quoted=True))


def _some(first: int, block: int, quick: int, blocks: int) -> list[Any]:
    """Where blocks of examples start; the first few are quick enough for every run of the tests."""
    starts = range(first, first + block * blocks, block)
    return [*starts[:quick], *(pytest.param(n, marks=pytest.mark.long) for n in starts[quick:])]


@pytest.mark.parametrize("start", _some(30_000, 100, 3, 12))
def test_only_rows_near_the_changes_matter(start: int) -> None:
    laboratory = Laboratory(SOURCES)
    for number in range(start, start + 100):
        found = example(number, depth=3)
        wrong = _wrong(laboratory, found)
        assert wrong is None, f"example {number}: {found.sql}\n{wrong}"
    laboratory.close()
    assert laboratory.left_out > 100, "something must have been taken away"
    assert laboratory.local > 50, "most deltas are small and proven"


@pytest.mark.parametrize("start", _some(30_000, 150, 1, 4))
def test_rows_that_may_pass_are_not_sieved_out(start: int) -> None:
    laboratory = Laboratory(SOURCES)
    for number in range(start, start + 150):
        found = join_example(number)
        assert _wrong(laboratory, found) is None, found.sql
    laboratory.close()


def _wrong(laboratory: Laboratory, found: Example) -> str | None:
    query = compile_query(found.sql, SOURCES)
    laboratory.load(found.data)
    assert laboratory.check(query, found.sql, found.data) is None, found.sql
    return wrong_nearby(laboratory, query, found.data, found.number)


def right_side_gives_bounds_to_the_left(patch: pytest.MonkeyPatch) -> None:
    """Left rows without a partner are taken for rows that do not matter."""
    original = needs._joined

    def joined(place, conditions, bounds, givers):  # type: ignore[no-untyped-def]
        return original(place, conditions, bounds, range(len(place.inputs)))

    def below(place, bounds):  # type: ignore[no-untyped-def]
        if isinstance(place.node, AntiJoin | OuterJoin):
            return joined(place, place.node.conditions, bounds, ())
        return pushed(place, bounds)

    pushed = needs._bounds_below
    patch.setattr(needs, "_bounds_below", below)


def rows_that_came_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """The rows nearby are the same before and after."""
    original = near._versions
    patch.setattr(near, "_versions", lambda found, _: original(found, None))


def values_of_one_need_only(patch: pytest.MonkeyPatch) -> None:
    """Values that occur at the second origin are not looked for."""
    original = near.distinct
    patch.setattr(near, "distinct", lambda parts: original(list(parts)[:1]))


def a_delta_leads_nowhere(patch: pytest.MonkeyPatch) -> None:
    """Once something was found, the rows of deltas that meet it lead to nothing else."""
    original = near._Search._cut_deltas

    def cut(search, met):  # type: ignore[no-untyped-def]
        original(search, met)
        for number, need in enumerate(search._needs):
            if need.ties and number in search.rows:
                search.rows[number] = search.rows[number].slice(0, 0)
        search._values.clear()

    patch.setattr(near._Search, "_cut_deltas", cut)


def not_like_is_judged_as_like(patch: pytest.MonkeyPatch) -> None:
    """The rows that pass x NOT LIKE p are those that pass x LIKE p."""
    patch.setattr(sieve, "_PLAIN", {*sieve._PLAIN, "negate"})


def ends_of_ranges_are_outside(patch: pytest.MonkeyPatch) -> None:
    """BETWEEN and comparisons do not let the constant itself pass."""
    strict = {exp.LTE: pc.less, exp.GTE: pc.greater}
    patch.setattr(sieve, "_COMPARISONS", {**sieve._COMPARISONS, **strict})


def one_side_of_or_is_enough(patch: pytest.MonkeyPatch) -> None:
    """Where one side of OR cannot be judged, the other decides."""
    original = sieve._judged

    def judged(rows, test):  # type: ignore[no-untyped-def]
        if isinstance(test, exp.Or):
            return sieve.may_pass(rows, [test.this, test.expression])
        return original(rows, test)

    patch.setattr(sieve, "_judged", judged)


def only_the_first_of_a_list(patch: pytest.MonkeyPatch) -> None:
    """x IN (1, 2) is taken for x = 1."""
    original = sieve._judged

    def judged(rows, test):  # type: ignore[no-untyped-def]
        if isinstance(test, exp.In) and test.expressions:
            test = exp.EQ(this=test.this, expression=test.expressions[0])
        return original(rows, test)

    patch.setattr(sieve, "_judged", judged)


def negation_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """NOT, and so NOT IN and NOT BETWEEN, is looked through."""
    original = sieve._judged

    def judged(rows, test):  # type: ignore[no-untyped-def]
        return original(rows, test.this if isinstance(test, exp.Not) else test)

    patch.setattr(sieve, "_judged", judged)


MUTANTS = [
    right_side_gives_bounds_to_the_left,
    rows_that_came_are_forgotten,
    values_of_one_need_only,
    a_delta_leads_nowhere,
]
SIEVE_MUTANTS = [
    not_like_is_judged_as_like,
    ends_of_ranges_are_outside,
    one_side_of_or_is_enough,
    only_the_first_of_a_list,
    negation_is_forgotten,
]


FIRST = {
    values_of_one_need_only: 30_030,
    one_side_of_or_is_enough: 30_130,
    only_the_first_of_a_list: 30_110,
    negation_is_forgotten: 30_060,
}
"""Shortly before the first example that tells the broken rule: those before it are not worth running."""


@pytest.mark.parametrize("mutant", [*MUTANTS, *SIEVE_MUTANTS], ids=lambda mutant: mutant.__name__)
def test_a_broken_rule_is_caught(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    laboratory = Laboratory(SOURCES)
    first = FIRST.get(mutant, 30_000)
    numbers = range(first, first + 300)
    made = (join_example(n) if mutant in SIEVE_MUTANTS else example(n, depth=3) for n in numbers)
    if all(_wrong(laboratory, found) is None for found in made):
        pytest.fail(f"survived: {mutant.__doc__}")
    laboratory.close()


@pytest.mark.parametrize("start", _some(30_000, 100, 1, 4))
def test_what_no_delta_points_at_can_be_taken_away(start: int) -> None:
    laboratory = Laboratory(SOURCES)
    laboratory.connection.execute("CREATE SCHEMA pruned")
    bounded = 0
    for number in range(start, start + 100):
        found = example(number, depth=3)
        query = compile_query(found.sql, SOURCES)
        laboratory.load(found.data)
        assert laboratory.check(query, found.sql, found.data) is None, found.sql
        changed = [name for name, delta in found.data.delta.items() if +delta or -delta]
        inserts = [name for name in changed if not -found.data.delta[name]]
        for delta in query.delta(changed, inserts).parts:
            bounded += sum(keys is not None for keys in by_deltas(delta.needs).values())
            _check(laboratory, delta, found.sql)
    laboratory.close()
    assert bounded > 50


def _check(laboratory: Laboratory, delta: PartDelta, sql: str) -> None:
    run = laboratory.connection.execute
    for place in by_deltas(delta.needs):
        run(
            f"CREATE OR REPLACE TABLE {pruned_name(*place).sql('duckdb')} AS {_pruned(delta, *place)}"
        )
    pruned = Counter(run(delta.query(pruned_name).sql("duckdb")).fetchall())
    stored = table_names(delta.part.name, Side.DELTA).sql("duckdb")
    whole = Counter(run(f"SELECT * FROM {stored}").fetchall())
    assert pruned == whole, f"{sql}\n{delta.part.name}\n{delta.needs}"


def _pruned(delta: PartDelta, source: str, version: Side) -> str:
    wanted = {c for n in delta.needs if (n.source, n.side) == (source, version) for c in n.columns}
    columns = [f'"{name}"' for name in sorted(wanted)]
    if version is Side.DELTA:
        columns.append(WEIGHT)
    table = table_names(source, version).sql("duckdb")
    query = f"SELECT {', '.join(columns) or '1 AS one'} FROM {table} AS x"
    choices = []
    for keys in by_deltas(delta.needs)[source, version] or ():
        tests = [
            _occurs(delta, column, origins) for column, bounds in keys.items() for origins in bounds
        ]
        choices.append(f"({' AND '.join(tests)})")
    return f"{query} WHERE {' OR '.join(choices)}" if choices else query


def _occurs(delta: PartDelta, column: str, origins: frozenset[tuple[int, str]]) -> str:
    places = []
    for number, name in origins:
        table = table_names(delta.needs[number].source, Side.DELTA).sql("duckdb")
        test = f'd."{name}" IS NOT DISTINCT FROM x."{column}"'
        places.append(f"EXISTS (SELECT 1 FROM {table} AS d WHERE {test})")
    return f"({' OR '.join(places)})"
