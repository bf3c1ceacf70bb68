"""A bound plan, before and after every pass, means what the query's text means to DuckDB.

Queries stand one a line in meaning.txt; an indented line after ``--`` says the same for DuckDB where
a translation by sqlglot would not.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from spark_trickle.errors import UnsupportedQueryError
from spark_trickle.sql.bind.plan import bind
from support.meaning import differences
from support.tpch import source

FILE = Path(__file__).parent / "meaning.txt"
SOURCES = {
    made.name: made
    for made in (
        source(
            "t",
            "a int, b int, c int, s string, dt date, xs array<int>, st struct<x: int, y: string>",
        ),
        source("u", "a int, d int, e string"),
        source("v", "f int, g int"),
        source("w", "f int, g int"),
    )
}
# Small domains, so that duplicates, NULLs on both sides and empty matches all occur.
DATA = """
create macro raise_error(message) as error(message);
create macro locate(part, whole) as strpos(whole, part);
create macro sequence(first, last) as generate_series(first, last);
create table t (a int, b int, c int, s varchar, dt date, xs int[], st struct(x int, y varchar));
insert into t values
  (1, 1, 1, 'x', '2020-01-05', [1, 2], {x: 1, y: 'p'}),
  (1, 1, 1, 'x', '2020-01-05', [1, 2], {x: 1, y: 'p'}),
  (1, 2, 0, 'xy', '2020-03-05', [], {x: 2, y: 'q'}),
  (2, null, 1, 'y', '2020-12-30', null, null),
  (2, 3, 1, null, '2021-01-05', [3, null], {x: null, y: 'p'}),
  (null, 1, 2, 'z', null, [1], {x: 1, y: null}),
  (null, null, null, null, null, null, null),
  (3, 1, 0, 'xx', '2020-02-05', [5], {x: 3, y: 'r'}),
  (0, 2, 1, 'w', '2020-02-01', [2, 2], {x: 0, y: 's'}),
  (3, 2, 2, '', '2020-02-28', [0], {x: 9, y: 't'});
create table u (a int, d int, e varchar);
insert into u values (1, 1, 'a'), (1, 2, 'b'), (1, 2, 'b'), (2, null, 'c'), (2, 3, null),
  (null, 2, 'd'), (4, 0, 'e'), (3, 3, 'f'), (0, 1, 'q');
create table v (f int, g int);
insert into v values (1, 1), (2, 2), (2, 3), (null, 1), (3, null), (3, 2);
create table w (f int, g int);
insert into w values (1, 10), (2, 20), (3, null);
"""


def cases() -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    for line in FILE.read_text().splitlines():
        if line.startswith("    -- "):
            found[-1] = (found[-1][0], line.removeprefix("    -- "))
        elif line.strip():
            found.append((line, None))
    return found


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    connection.execute(DATA)
    yield connection
    connection.close()


@pytest.mark.parametrize(("sql", "oracle"), cases(), ids=lambda value: str(value)[:60])
def test_plan_means_what_the_text_means(
    database: duckdb.DuckDBPyConnection, sql: str, oracle: str | None
) -> None:
    assert differences(database, sql, SOURCES, oracle=oracle) == []


def test_a_scalar_subquery_of_two_rows_fails_when_it_runs(
    database: duckdb.DuckDBPyConnection,
) -> None:
    with pytest.raises(duckdb.Error, match="more than one row"):
        differences(
            database,
            "select a, (select d from u where u.a = t.a) from t",
            SOURCES,
            oracle="select 1",
        )


def test_views_are_inlined(database: duckdb.DuckDBPyConnection) -> None:
    views: dict[str, str] = {
        "sums": "with q as (select a, b from t) select a, sum(b) as s from q group by a",
        "big": "select * from sums where s > 2",
    }
    oracle = "select a, sum(b) from t group by a having sum(b) > 2"
    found = differences(database, "select a, s from big", SOURCES, oracle=oracle, views=views)
    assert found == []


POSTGRES = {
    "select a / 2, (a + b) / 2, b % 2, a::text, $$it's$$ from t": (
        "select a // 2, (a + b) // 2, b % 2, a::text, 'it''s' from t"
    ),
    "select distinct on (a) a, b, c from t order by a, b desc, c, s": None,
    "select distinct on (a + 1) b from t order by a + 1, b, c": None,
    "select a from t, unnest(t.xs) as x where x > 1": (
        "select a from t, unnest(xs) as u(x) where x > 1"
    ),
    "select x, count(*) from t cross join lateral unnest(xs) as q(x) group by x": (
        "select x, count(*) from t, unnest(xs) as u(x) group by x"
    ),
    "select a from t where a = any(array[1, 2])": "select a from t where a in (1, 2)",
    "select a, a in (select d from u), a not in (select d from u) from t": None,
    "select count(*) filter (where a > 1), date_trunc('month', dt)::date from t group by 2": None,
    "select a, b from t order by a, b, c, s fetch first 3 rows only": None,
    "select coalesce(a, 0)::numeric(10, 2), b::int8, a::numeric from t": (
        "select coalesce(a, 0)::numeric(10, 2), b::int8, a::numeric(38, 18) from t"
    ),
    "select a, b from t union select a, d from u order by 1, 2 limit 4": None,
    "select t.a, m.d from t left join lateral "
    "(select d from u where u.a = t.a order by d desc limit 1) m on true": None,
    "select substring(s from 1 for 1), position('x' in s), split_part(s, 'y', 1) from t": None,
    'select "a" as "A" from "t"': None,
}


@pytest.mark.parametrize(("sql", "oracle"), POSTGRES.items(), ids=lambda value: str(value)[:60])
def test_postgres_queries_mean_what_they_say(
    database: duckdb.DuckDBPyConnection, sql: str, oracle: str | None
) -> None:
    assert differences(database, sql, SOURCES, oracle=oracle, dialect="postgres") == []


@pytest.mark.parametrize(
    "sql",
    [
        "select array_agg(a order by b) from t",
        "select a from t order by a fetch first 2 rows with ties",
        "select a from t where a > all(array[1, 2])",
        "select * from t cross join lateral unnest(xs) with ordinality as u(x, n)",
    ],
)
def test_postgres_without_a_translation_is_refused(sql: str) -> None:
    with pytest.raises(UnsupportedQueryError, match="PostgreSQL dialect"):
        bind(sql, SOURCES, dialect="postgres")


def test_sources_cover_the_tables_of_the_database(database: duckdb.DuckDBPyConnection) -> None:
    for name, made in SOURCES.items():
        columns = [row[0] for row in database.execute(f"describe {name}").fetchall()]
        assert columns == [column.name for column in made.columns]
