"""What a compiled query offers to the layers above, and what it costs to make one."""

from __future__ import annotations

import time

import pytest

from spark_trickle.compile import STAGES, CompiledQuery, compile_query
from spark_trickle.delta.reserve import Reserve
from spark_trickle.delta.segment import RESULT, Strategy
from spark_trickle.delta.support import FullOnly, Incremental
from spark_trickle.errors import UnsupportedQueryError, UserError
from spark_trickle.ir.nodes import Join, Scan
from spark_trickle.ir.types import Side, TableSchema
from spark_trickle.ir.walk import nodes, scans
from support import tpch
from support.tpch import source

SOURCES: dict[str, TableSchema] = {
    "t": source("t", "a int !, b int, c int, m map<string, int>, d double"),
    "u": source("u", "a int, d int"),
}


def compiled(sql: str) -> CompiledQuery:
    return compile_query(sql, SOURCES)


@pytest.mark.parametrize("number", range(1, 23))
def test_tpch_is_incremental(number: int) -> None:
    query = compile_query(tpch.query(number), tpch.sources())
    assert isinstance(query.verdict, Incremental), str(query.verdict)
    for changed in query.reads:
        assert query.delta({changed}).parts[-1].part is query.result


def test_tpch_compiles_in_time() -> None:
    sources = tpch.sources()
    slowest = 0.0
    for number in range(1, 23):
        # CPU time, best of two: the bound is about the compiler, not about the machine.
        slowest = max(slowest, min(_seconds(number, sources) for _ in range(2)))
    assert slowest < 0.3


def _seconds(number: int, sources: dict[str, TableSchema]) -> float:
    began = time.process_time()
    query = compile_query(tpch.query(number), sources)
    query.delta(query.reads).sql()
    return time.process_time() - began


def test_an_eight_table_join_with_three_changes_has_three_terms() -> None:
    names = [f"j{number}" for number in range(8)]
    sources = {name: source(name, "k int, v int") for name in names}
    on = " AND ".join(f"j0.k = {name}.k" for name in names[1:])
    query = compile_query(f"SELECT j0.v, j7.v AS w FROM {', '.join(names)} WHERE {on}", sources)
    (delta,) = query.delta({"j1", "j3", "j6"}).parts
    terms = [node for node in nodes(delta.plan) if isinstance(node, Join)]
    assert len(terms) == 3
    for term, changed in zip(terms, ("j1", "j3", "j6"), strict=True):
        assert all(isinstance(child, Scan) for child in term.inputs)
        versions = {scan.source: scan.side for scan in scans(term)}
        assert [s for s, v in versions.items() if v is Side.DELTA] == [changed]
        before = {s for s, v in versions.items() if v is Side.BEFORE}
        assert before == {s for s in ("j1", "j3", "j6") if s < changed}


def test_sources_that_did_not_change_give_no_term() -> None:
    query = compiled("SELECT t.b, u.d FROM t JOIN u ON t.a = u.a")
    assert query.delta(()).parts == ()
    assert query.delta({"elsewhere"}).parts == ()
    assert query.delta(()).explain() == "no change\n"


def test_parts_that_are_not_affected_are_skipped() -> None:
    query = compiled(
        "SELECT x.b, x.s, y.n FROM (SELECT b, sum(c) AS s FROM t GROUP BY b) x "
        "JOIN (SELECT a, count(*) AS n FROM u GROUP BY a) y ON x.b = y.a"
    )
    assert [part.strategy for part in query.parts] == [
        Strategy.ADDITIVE,
        Strategy.ADDITIVE,
        Strategy.ALGEBRA,
    ]
    moved = [delta.part.name for delta in query.delta({"u"}).parts]
    assert moved == ["__segment_2", RESULT]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT a, rand() AS r FROM t", "VOLATILE_FUNCTION"),
        ("SELECT a, row_number() OVER (ORDER BY a) AS n FROM t", "UNPARTITIONED_WINDOW"),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
        ("SELECT m, count(*) AS n FROM t GROUP BY m", "INCOMPARABLE_KEY"),
    ],
)
def test_full_only_with_a_reason(sql: str, code: str) -> None:
    query = compiled(sql)
    assert isinstance(query.verdict, FullOnly)
    assert query.verdict.code == code
    assert query.verdict.hint
    assert code in query.explain("verdict")
    assert query.parts == ()
    with pytest.raises(UnsupportedQueryError) as caught:
        query.delta({"t"})
    assert caught.value.code == code


def test_sums_of_floats_are_recomputed_and_read_back() -> None:
    query = compiled("SELECT b, sum(d) AS s FROM t GROUP BY b")
    assert [part.strategy for part in query.parts] == [Strategy.TOUCHED]
    (delta,) = query.delta({"t"}).parts
    assert (RESULT, Side.BEFORE) in {(need.source, need.side) for need in delta.needs}
    assert ("t", Side.BEFORE) not in {(need.source, need.side) for need in delta.needs}


def test_extrema_read_no_input_when_rows_were_only_inserted() -> None:
    query = compiled("SELECT b, max(c) AS hi FROM t GROUP BY b")
    assert query.parts[0].strategy is Strategy.EXTREMUM
    sources_at = {need.side for need in query.delta({"t"}).parts[0].needs if need.source == "t"}
    assert sources_at == {Side.DELTA, Side.AFTER}
    inserts = query.delta({"t"}, insert_only={"t"}).parts[0]
    assert {need.side for need in inserts.needs if need.source == "t"} == {Side.DELTA}


def test_equal_sub_plans_share_a_segment() -> None:
    query = compiled(
        "WITH s AS (SELECT b, sum(c) AS v FROM t GROUP BY b) "
        "SELECT x.b, y.b AS other FROM s x JOIN s y ON x.v = y.v"
    )
    assert [part.name for part in query.parts] == ["__segment_1", RESULT]


def test_top_k_is_offered_with_its_input() -> None:
    query = compiled("SELECT b, sum(c) AS s FROM t GROUP BY b ORDER BY s DESC LIMIT 3 OFFSET 1")
    assert query.topk is not None
    assert (query.topk.limit, query.topk.offset) == (3, 1)
    assert [part.name for part in query.parts] == ["__segment_1", "__reserve", "__result"]
    reserve, result = query.parts[-2:]
    assert {scan.source for scan in scans(reserve.plan)} == {"__segment_1"}
    assert {scan.source for scan in scans(result.plan)} == {"__reserve"}
    assert compiled("SELECT a FROM t").topk is None


def test_needs_name_the_keys_that_bound_a_scan() -> None:
    query = compiled("SELECT t.b, u.d FROM t JOIN u ON t.a = u.a")
    (delta,) = query.delta({"u"}).parts
    needed = {(need.source, need.side): need for need in delta.needs}
    origins = frozenset({(delta.needs.index(needed["u", Side.DELTA]), "a")})
    assert needed["t", Side.AFTER].keys == {"a": frozenset({origins})}
    assert needed["t", Side.AFTER].columns == {"a", "b"}
    assert needed["u", Side.DELTA].keys == {}


def test_every_stage_explains_itself() -> None:
    query = compiled("SELECT b, sum(c) AS s FROM t GROUP BY b")
    for stage in STAGES:
        assert query.explain(stage).endswith("\n")
    with pytest.raises(UserError, match="no such stage"):
        query.explain("imagined")


def test_equalities_among_integer_types_carry_keys() -> None:
    sources = {"t": source("t", "a int, b int"), "w": source("w", "a bigint, d int")}
    query = compile_query("SELECT t.b, w.d FROM t FULL JOIN w ON t.a = w.a", sources)
    (delta,) = query.delta({"t", "w"}).parts
    needed = {(need.source, need.side): need.keys for need in delta.needs}
    assert needed["w", Side.AFTER]
    inner = compile_query("SELECT t.b, w.d FROM t JOIN w ON t.a = w.a", sources)
    (delta,) = inner.delta({"t"}).parts
    needed = {(need.source, need.side): need.keys for need in delta.needs}
    origins = frozenset({(next(iter(needed)) == ("w", Side.AFTER), "a")})
    assert needed["w", Side.AFTER] == {"a": frozenset({origins})}


def test_a_window_stores_only_what_is_read() -> None:
    sql = """
        SELECT 1 + x.b AS e, row_number() OVER (PARTITION BY x.c ORDER BY x.b, x.c) AS n
        FROM (SELECT t.b, t.c FROM t FULL JOIN u ON t.a < u.d) AS x CROSS JOIN u
    """
    segment = compiled(sql).segments[0]
    assert [column.name for column in segment.columns] == ["b", "c", "row_number"]


def test_the_delta_of_a_part_is_compiled_once() -> None:
    query = compiled("SELECT b, count(*) AS n FROM t GROUP BY b")
    first, again = (query.delta({"t"}, {"t"}).parts for _ in range(2))
    assert all(one is other for one, other in zip(first, again, strict=True))
    top = compiled("SELECT a, b FROM t ORDER BY a, b LIMIT 3")
    moving = [top.part_delta(_reserve(top).part, {"t"}, {"t"}) for _ in range(2)]
    assert moving[0] is not None
    assert moving[0] is moving[1]
    assert top.part_delta(_reserve(top).part, {"u"}) is None


def _reserve(query: CompiledQuery) -> Reserve:
    found = query.reserve
    assert found is not None
    return found


def test_reads_of_a_shared_sub_plan_are_listed_once() -> None:
    text = compiled("SELECT b, count(*) AS n FROM t GROUP BY b").explain("delta")
    assert [line.strip() for line in text.splitlines() if " reads " in line] == [
        "reads [0] t@delta",
        "reads [1] __segment_1@before where b in [0].b",
        "reads [0] __segment_1@delta",
    ]
