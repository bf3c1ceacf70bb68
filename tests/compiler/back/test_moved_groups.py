"""Groups whose sums a delta leaves as they were are not looked up in the stored state.

Nothing comes of such a group either way: what is stored for it is replaced by itself, or nothing
is known of it and it has no rows. So the delta law cannot see the rule; what is looked up shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from sqlglot import exp

from spark_trickle.compile import CompiledQuery, compile_query
from spark_trickle.delta.laws import additive
from spark_trickle.ir.nodes import Node, OuterJoin
from spark_trickle.ir.types import Side
from spark_trickle.ir.walk import nodes
from spark_trickle.lower.query import TableNames, lower
from spark_trickle.maintain.gather.nearby import CUT
from support.delta_law import Laboratory, table_names
from support.nearby import near_name, wrong_nearby
from support.queries import Data, Row
from support.tpch import source

SOURCES = {name: source(name, "k int, g int, v int") for name in ("t", "u", "w")}
BEFORE: Counter[Row] = Counter({(1, 1, 5): 1, (2, 2, 7): 1, (3, 3, 9): 2, (4, None, 1): 1})
STILL: Counter[Row] = Counter({(1, 1, 5): -1, (8, 1, 5): 1, (4, None, 1): -1, (9, None, 1): 1})
"""Groups 1 and NULL get one row for another that is equal but for its key."""
MOVES: Counter[Row] = Counter({(2, 2, 7): -1, (3, 3, 9): -1, (7, 4, 1): 1})
"""Group 2 goes, 3 loses a row, 4 comes."""
QUERIES = [
    "SELECT g, count(*) AS n, sum(v) AS s FROM t GROUP BY g",
    "SELECT g, count(*) AS n, max(v) AS m FROM t GROUP BY g",
]
JOINED = """
    SELECT t.g, count(*) AS n, sum(u.v) AS s FROM t, u, w
    WHERE t.k = u.k AND u.g = w.g GROUP BY t.g
"""


@pytest.fixture
def laboratory() -> Iterator[Laboratory]:
    opened = Laboratory(SOURCES)
    yield opened
    opened.close()


def checked(laboratory: Laboratory, sql: str, data: Data) -> CompiledQuery:
    query = compile_query(sql, SOURCES)
    laboratory.load(data)
    assert laboratory.check(query, sql, data) is None
    return query


def looked_up(laboratory: Laboratory, plan: Node, names: TableNames) -> set[object]:
    """The keys that are put beside the stored state."""
    sides = {lower(n.left, names).sql("duckdb") for n in nodes(plan) if isinstance(n, OuterJoin)}
    (rows,) = sides
    return {row[0] for row in laboratory.connection.execute(rows).fetchall()}


def everything_has_moved(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(additive, "has_moved", lambda _: exp.true())


@pytest.mark.parametrize("sql", QUERIES)
def test_only_groups_that_moved_are_looked_up(
    sql: str, laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Data({"t": BEFORE}, {"t": Counter({**STILL, **MOVES})})
    query = checked(laboratory, sql, data)
    state = query.delta({"t"}).parts[0]
    assert looked_up(laboratory, state.plan, table_names) == {2, 3, 4}
    stored = table_names(state.part.name, Side.DELTA).sql("duckdb")
    rows = laboratory.connection.execute(f"SELECT g, __weight FROM {stored}").fetchall()
    assert sorted(rows) == [(2, -1), (3, -1), (3, 1), (4, 1)]

    everything_has_moved(monkeypatch)
    broken = checked(laboratory, sql, data).delta({"t"}).parts[0]
    assert looked_up(laboratory, broken.plan, table_names) == {1, 2, 3, 4, None}


def test_nothing_is_looked_up_where_nothing_moved(laboratory: Laboratory) -> None:
    query = checked(laboratory, QUERIES[0], Data({"t": BEFORE}, {"t": STILL}))
    assert looked_up(laboratory, query.delta({"t"}).parts[0].plan, table_names) == set()
    assert laboratory.result_delta == Counter()


def test_rows_nearby_that_stay_touch_no_group(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over rows nearby, after - before holds rows that stay: each is near, for reasons of its own.

    The row of t is near a new row of u that meets no w; its partners are near a new row of t. (Of a
    delta that is large enough to be cut, the new row of u leads to nothing.)
    """
    data = Data(
        {"t": Counter({(2, 2, 2): 1}), "u": Counter({(2, 1, 1): 1}), "w": Counter({(0, 1, 0): 1})},
        {"t": Counter({(2, 7, 1): 1}), "u": Counter({(2, 9, 1): 1}), "w": Counter({(0, 8, 0): 1})},
    )
    query = checked(laboratory, JOINED, data)
    assert wrong_nearby(laboratory, query, data, 1, CUT) is None
    assert looked_up(laboratory, query.delta(SOURCES).parts[0].nearby, near_name) == {7}
    assert laboratory.result_delta == Counter({(7, 1, 1): 1})

    everything_has_moved(monkeypatch)
    broken = checked(laboratory, JOINED, data)
    assert wrong_nearby(laboratory, broken, data, 1, CUT) is None
    assert looked_up(laboratory, broken.delta(SOURCES).parts[0].nearby, near_name) == {2, 7}
