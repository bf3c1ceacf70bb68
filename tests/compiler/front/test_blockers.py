"""Legal queries that cannot be maintained, and accepted ones the user should know something about."""

from __future__ import annotations

import pytest

from spark_trickle.errors import UnsupportedQueryError
from spark_trickle.ir.explain import explain
from spark_trickle.sql.bind.plan import bind
from support.tpch import source

SOURCES = {
    made.name: made
    for made in (
        source("t", "a int, b int, s string, at timestamp"),
        source("u", "a int, d int"),
    )
}

BLOCKED = {
    "select a, rand() as r from t": ("VOLATILE_FUNCTION", "rand"),
    "select a from t where at > now()": ("VOLATILE_FUNCTION", "now"),
    "select a from t where at > current_timestamp": ("VOLATILE_FUNCTION", "current_timestamp"),
    "select a from t where cast(at as date) = current_date()": (
        "VOLATILE_FUNCTION",
        "current_date",
    ),
    "select uuid(), a from t": ("VOLATILE_FUNCTION", "uuid"),
    "select a, current_user() from t": ("VOLATILE_FUNCTION", "current_user"),
    "select unix_timestamp() from t": ("VOLATILE_FUNCTION", "unix_timestamp"),
    "select a, row_number() over (order by b) from t": ("UNPARTITIONED_WINDOW", "row_number"),
    "select a, sum(b) over () from t": ("UNPARTITIONED_WINDOW", "sum"),
    "select a from (select a from t limit 3)": ("LIMIT_WITHOUT_ORDER_BY", None),
    "select a from t where a in (select a from u limit 1)": ("LIMIT_WITHOUT_ORDER_BY", None),
    "select a from t order by a offset 2": ("OFFSET_WITHOUT_LIMIT", None),
}

WITHOUT_PLAN = {
    "select a from t tablesample (10 percent)": "TABLESAMPLE",
    "with recursive r as (select 1 as n union all select n + 1 from r where n < 5) "
    "select * from r": "RECURSIVE_CTE",
    "select s collate utf8_lcase, count(*) from t group by 1": "COLLATION",
    "select a from t where collate(s, 'UTF8_LCASE') = 'x'": "COLLATION",
    "select cast(s as string collate utf8_lcase) from t": "COLLATION",
    "select from_json(s, 'a STRING COLLATE UTF8_LCASE').a as x, count(*) from t group by 1": (
        "COLLATION"
    ),
    "select variant_get(parse_json(s), '$.a', 'string collate unicode') as x from t": "COLLATION",
    "select a from t order by s collate utf8_lcase limit 2": "COLLATION",
    "select cast(array(s) as array<string collate utf8_lcase>) as x from t": "COLLATION",
    "select * from t version as of 3": "TIME_TRAVEL",
    "select * from t pivot (sum(b) for a in (1, 2))": "PIVOT",
    "select session_window(at, '5 minutes'), count(*) from t group by 1": "TIME_WINDOW",
    "select session_window.start, count(*) from t group by session_window(at, '5 minutes')": (
        "TIME_WINDOW"
    ),
    "select t.a from t full join u on t.a = u.a and exists (select 1 from u v where v.d = t.b)": (
        "SUBQUERY_IN_ON"
    ),
    "select * from some_function(1)": "TABLE_FUNCTION",
    "select a in (select a from u) as i, count(*) from t group by a in (select a from u)": (
        "UNSUPPORTED_CLAUSE"
    ),
    "select (select max(b) from u where u.a = t.a) as i from t "
    "group by (select max(b) from u where u.a = t.a)": "UNSUPPORTED_CLAUSE",
}

REFUSED = {
    "select a from t limit 3": "LIMIT_WITHOUT_ORDER_BY",
    "select a from t order by a limit b": "LIMIT_NOT_CONSTANT",
    "select a from t order by a limit -1": "LIMIT_NOT_CONSTANT",
    "select a from t order by a limit 3 offset b": "LIMIT_NOT_CONSTANT",
    "(select a from t) union all (select a from u) limit 2": "LIMIT_WITHOUT_ORDER_BY",
    "select a from t order by a fetch first 3 rows with ties": "FETCH_OPTION",
}

NOTED = {
    "select a from t order by a": "ORDER BY without LIMIT",
    "select a from t order by a limit all": "ORDER BY without LIMIT",
    "select a from (select a from t order by a)": "ORDER BY without LIMIT",
    "select a, collect_list(b) from t group by a": "depends on the order of rows",
    "select a from t sort by a": "SORT BY is dropped",
}

QUIET = [
    "select a from t order by a limit 3",
    "select a from t order by a limit 1 + 2 offset 1",
    "select a from t limit 0",
    "select a from t where exists (select 1 from u where u.a = t.a order by d limit 1)",
    "select a from t where exists (select 1 from u where u.a = t.a limit 1)",
    "select unix_timestamp(at) from t",
    "select window.start, count(*) from t group by window(at, '10 minutes')",
    "with recursive q as (select a from t) select a from q",
    "select aes_encrypt('x', '0000111122223333', 'GCM', 'DEFAULT', x'00') from t",
]


@pytest.mark.parametrize(("sql", "expected"), BLOCKED.items())
def test_blockers_have_a_code_a_place_and_a_hint(
    sql: str, expected: tuple[str, str | None]
) -> None:
    code, word = expected
    bound = bind(sql, SOURCES)
    assert bound.plan is not None
    (blocker,) = bound.blockers
    assert blocker.code == code
    assert blocker.hint
    assert blocker.position is not None
    if word is not None:
        assert word in blocker.position.caret()
        start = blocker.position.column - 1
        assert sql[start:].startswith(word)


@pytest.mark.parametrize(("sql", "code"), WITHOUT_PLAN.items())
def test_queries_without_a_plan_say_why(sql: str, code: str) -> None:
    bound = bind(sql, SOURCES)
    assert bound.plan is None
    assert [blocker.code for blocker in bound.blockers] == [code]
    assert all(blocker.hint for blocker in bound.blockers)


@pytest.mark.parametrize(("sql", "code"), REFUSED.items())
def test_undefined_results_are_refused(sql: str, code: str) -> None:
    with pytest.raises(UnsupportedQueryError) as caught:
        bind(sql, SOURCES)
    assert caught.value.code == code
    assert caught.value.hint


@pytest.mark.parametrize(("sql", "message"), NOTED.items())
def test_notices(sql: str, message: str) -> None:
    bound = bind(sql, SOURCES)
    assert bound.blockers == ()
    assert [message in notice.message for notice in bound.warnings] == [True]


@pytest.mark.parametrize("sql", QUIET)
def test_no_blocker_and_no_notice_without_a_reason(sql: str) -> None:
    bound = bind(sql, SOURCES)
    assert bound.plan is not None
    assert bound.blockers == ()
    assert bound.warnings == ()


def test_limit_zero_reads_nothing() -> None:
    bound = bind("select a, b from t limit 0", SOURCES)
    assert bound.plan is not None
    assert explain(bound.plan) == "Values [a#5, b#6] (no rows)\n"


def test_ties_at_the_cut_are_broken_by_the_remaining_columns() -> None:
    bound = bind("select a, b, s from t order by b desc limit 2", SOURCES)
    assert bound.plan is not None
    assert explain(bound.plan).startswith("TopK 2 order=[b#2 desc, a#1, s#3]\n")
