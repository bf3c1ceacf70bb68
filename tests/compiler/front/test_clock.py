"""Texts that Spark replaces by moments of the clock, and the same texts where they stay texts."""

from __future__ import annotations

import pytest

from spark_trickle.compile import compile_query
from support.tpch import source

SOURCES = {"t": source("t", "a int, s string, d date, at timestamp")}

CLOCK = """
TIMESTAMP'now' | DATE 'today' | date' Tomorrow ' | TIMESTAMP_NTZ'now' | TIMESTAMP_LTZ 'today UTC'
date('today') | timestamp('now') | 'now'::timestamp | to_date('now') | to_timestamp('now') | year('now')
at > 'now' | 'yesterday' < d | d = ('today') | d IN ('today') | d BETWEEN 'yesterday' AND '2024-01-01'
extract(year FROM 'now') | date_add('today', 1) | datediff(d, 'yesterday') | try_cast('now' AS TIMESTAMP)
coalesce(d, 'today') | if(a > 1, d, 'today') | nullif(d, 'today') | greatest(d, 'today')
CASE WHEN a > 1 THEN 'today' ELSE d END | cast(concat('no', 'w') AS TIMESTAMP) | unix_timestamp() | curdate()
"""
TEXT = """
s = 'now' | 'today' | upper('now') | s LIKE 'now' | concat('today', s) | coalesce(s, 'now') | s IN ('today')
cast('today' AS STRING) | DATE 'epoch' | cast(s AS DATE) | d > '2024-01-01' | cast('2024-01-01' AS DATE)
CASE WHEN s = 'now' THEN d END | cast(a AS TIMESTAMP)
"""


def listed(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split("|")]


@pytest.mark.parametrize("expression", listed(CLOCK))
def test_the_clock_is_read(expression: str) -> None:
    compiled = compile_query(f"SELECT a, {expression} AS x FROM t", SOURCES)
    assert compiled.volatile
    assert "VOLATILE_FUNCTION" in str(compiled.verdict)


@pytest.mark.parametrize("expression", listed(TEXT))
def test_a_text_is_a_text(expression: str) -> None:
    compiled = compile_query(f"SELECT a, {expression} AS x FROM t", SOURCES)
    assert not compiled.volatile
    assert "FullOnly" not in str(compiled.verdict)


def test_behind_another_obstacle() -> None:
    loop = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) "
    assert compile_query(f"{loop} SELECT n, rand() AS x FROM r", SOURCES).volatile
    assert compile_query("SELECT a FROM t TABLESAMPLE (10 PERCENT)", SOURCES).volatile
    assert not compile_query(f"{loop} SELECT n FROM r", SOURCES).volatile
