"""PostgreSQL's dialect: PostgreSQL's own answer, or a refusal; never a third thing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from spark_trickle import Lake, TrickleError
from support.dialect import AGGREGATES, COLUMNS, ORDERED, expressions, refused
from support.postgres import server
from support.values import shown

BATCH = 60
DEPENDS = re.compile(r"(upper|lower|ILIKE|~\*).*[ßäöü]|[ßäöüÄ].*(ILIKE|~\*)|^0\.00001 /|1 / 30000")
"""Refused while they run: apart from the others, so that these need no second look."""
REFUSED = "refused"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    import psycopg

    with server() as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def asked(connection: Any, sql: str) -> tuple[bool, Any]:
    """Whether the server answers, and what."""
    import psycopg

    try:
        return True, connection.execute(sql).fetchall()
    except psycopg.Error as error:
        return False, str(error).splitlines()[0]


def answers(lake: Lake, texts: list[str]) -> list[Any]:
    """One query for many expressions; where one fails at run time it is found by halves."""
    try:
        listed = ", ".join(f"{text} AS c{i}" for i, text in enumerate(texts))
        (row,) = lake.sql(f"SELECT {listed}", dialect="postgres").collect()
        return [shown(value) for value in row]
    except TrickleError:
        if len(texts) == 1:
            return [REFUSED]
    half = len(texts) // 2
    return answers(lake, texts[:half]) + answers(lake, texts[half:])


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.long)])
def test_expressions_over_edge_values(lake: Lake, postgres: Any, part: int) -> None:
    texts = [text for _, text in expressions() if refused(text) is None][part::2]
    assert len(texts) >= 400
    known = {text: asked(postgres, f"SELECT {text}") for text in texts}
    fails = [text for text in texts if not known[text][0] or DEPENDS.search(text)]
    fine = [text for text in texts if text not in fails]
    wrong = []
    for start in range(0, len(fine), BATCH):
        batch = fine[start : start + BATCH]
        for text, found in zip(batch, answers(lake, batch), strict=True):
            expected = shown(known[text][1][0][0])
            if found not in (expected, REFUSED):
                wrong.append((text, expected, found))
    for text in fails:
        (found,) = answers(lake, [text])
        if found != REFUSED and (not known[text][0] or found != shown(known[text][1][0][0])):
            wrong.append((text, known[text][1], found))
    assert wrong == []


ROWS = """(1, 1, 0, 1.50, 0.0300, 0.5, 'abc', 'b', date '2024-02-29', timestamp '2024-02-29 23:59:59.5'),
(2, 7, 3, -2.25, 0.0070, -2.5, '', 'x', date '1969-12-31', timestamp '1969-12-31 00:00:01'),
(3, -7, 2, 0.01, 3.0000, 1e10, 'Zz', 'Z', date '2000-01-01', timestamp '2000-01-01 00:00:00'),
(4, 1000000, -5, 99999.99, 1.2345, 0, 'aXb', 'X', date '2023-12-31', timestamp '2023-12-31 12:00:00'),
(5, 13, NULL, NULL, 0.5000, NULL, NULL, 'y', NULL, NULL),
(6, 0, 9, 3.33, 7.0000, 1, 'äö', 'q', date '2024-05-05', timestamp '2024-05-05 05:05:05')"""
TABLE = (
    "CREATE TABLE edge (id int PRIMARY KEY, i int, j int, n numeric(12,2), m numeric(10,4), "
    "f double precision, s text, p text, d date, ts timestamp)"
)


@pytest.mark.spark
@pytest.mark.postgres
def test_expressions_over_columns(lake: Lake, postgres: Any) -> None:
    for sql in (TABLE, f"INSERT INTO edge VALUES {ROWS}"):
        postgres.execute(sql)
        lake.sql(sql, dialect="postgres")
    wrong = []
    for texts, tail in (
        (list(COLUMNS), "ORDER BY id"),
        (list(AGGREGATES), ""),
        (list(ORDERED), ""),
    ):
        listed = ", ".join(f"{text} AS c{i}" for i, text in enumerate(texts))
        sql = f"SELECT {listed} FROM edge {tail}"
        found = [tuple(row) for row in lake.sql(sql, dialect="postgres").collect()]
        wanted = postgres.execute(sql).fetchall()
        for ours, theirs in zip(found, wanted, strict=True):
            for text, mine, other in zip(texts, ours, theirs, strict=True):
                if shown(mine) != shown(other):
                    wrong.append((text, shown(other), shown(mine)))
    order = "SELECT id FROM edge ORDER BY {}, id"
    for by in ("j", "j DESC", "s", "s DESC NULLS LAST", "d NULLS FIRST", "n / m", "upper(p) DESC"):
        rows = [tuple(row) for row in lake.sql(order.format(by), dialect="postgres").collect()]
        if rows != postgres.execute(order.format(by)).fetchall():
            wrong.append((by, "order", rows))
    assert wrong == []
