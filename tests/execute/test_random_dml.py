"""Random DML on the lake and on DuckDB side by side: every version and every window must agree."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

import spark_trickle

pytestmark = pytest.mark.spark

small = st.one_of(st.none(), st.integers(0, 3))
text = st.one_of(st.none(), st.sampled_from(["", "a", "b", "NULL", "é'\""]))
row = st.tuples(st.integers(0, 5), small, text)
condition = st.sampled_from(
    [
        "k = 1",
        "g = 2",
        "g IS NULL",
        "s = 'a' OR k = 0",
        "k IN (2, 3) AND g >= 1",
        "s IS NOT NULL",
        "k > 9",
    ]
)
change = st.sampled_from(
    ["g = g + 1", "s = NULL", "k = k + 1, g = k", "s = 'b', g = NULL", "g = g"]
)
statement = st.one_of(
    st.tuples(st.just("insert"), st.lists(row, min_size=1, max_size=4)),
    st.tuples(st.just("insert"), st.lists(row, min_size=1, max_size=4)),
    st.tuples(st.just("select"), condition),
    st.tuples(st.just("update"), change, condition),
    st.tuples(st.just("delete"), condition),
    st.tuples(
        st.just("merge"),
        st.lists(row, min_size=1, max_size=3, unique_by=lambda r: r[0]),
        st.integers(0, 3),
    ),
    st.tuples(st.just("truncate")),
)
history = st.lists(st.lists(statement, min_size=1, max_size=3), min_size=2, max_size=6)

CLAUSES = [
    "WHEN MATCHED AND n.g = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET g = n.g, s = t.s "
    "WHEN NOT MATCHED THEN INSERT (k, g, s) VALUES (n.k, n.g, n.s)",
    "WHEN MATCHED THEN UPDATE SET s = n.s",
    "WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND n.g > 0 THEN INSERT (k, s) VALUES (n.k, n.s)",
    "WHEN NOT MATCHED BY SOURCE AND t.g = 2 THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET g = 0 "
    "WHEN NOT MATCHED THEN INSERT (k, g, s) VALUES (n.k, n.g, n.s)",
]


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def values(rows) -> str:
    return ", ".join(f"({', '.join(literal(v) for v in r)})" for r in rows)


def render(step) -> tuple[str, str]:
    """The statement for the lake and for DuckDB."""
    match step:
        case ("insert", rows):
            same = f"INSERT INTO t VALUES {values(rows)}"
        case ("select", where):
            same = f"INSERT INTO t SELECT k + 1, g, s FROM t WHERE {where}"
        case ("update", sets, where):
            same = f"UPDATE t SET {sets} WHERE {where}"
        case ("delete", where):
            same = f"DELETE FROM t WHERE {where}"
        case ("merge", rows, which):
            typed = "SELECT CAST(k AS INT) k, CAST(g AS INT) g, CAST(s AS {}) s FROM {}"
            spark_source = typed.format("STRING", f"VALUES {values(rows)} AS v(k, g, s)")
            duck_source = typed.format("VARCHAR", f"(VALUES {values(rows)}) AS v(k, g, s)")
            merge = "MERGE INTO t USING ({}) AS n ON t.k = n.k {}"
            return (
                merge.format(spark_source, CLAUSES[which]),
                merge.format(duck_source, CLAUSES[which]),
            )
        case _:
            return "TRUNCATE TABLE t", "DELETE FROM t"
    return same, same


def run_both(lake, duck, batch) -> None:
    if len(batch) == 1:
        ours, theirs = render(batch[0])
        duck_rows = duck.execute(theirs).fetchone()
        assert lake.sql(ours) == duck_rows[0], ours
        return
    with lake.transaction() as tx:
        for step in batch:
            ours, theirs = render(step)
            duck_rows = duck.execute(theirs).fetchone()
            assert tx.sql(ours) == duck_rows[0], ours


def check(lake, states: dict[int, Counter]) -> None:
    versions = sorted(states)
    union = " UNION ALL ".join(f"SELECT {v} AS v, * FROM t VERSION AS OF {v}" for v in versions)
    found = Counter(tuple(r) for r in lake.sql(union).collect())
    expected = Counter()
    for version, state in states.items():
        expected.update({(version, *key): n for key, n in state.items()})
    assert found == expected
    if len(versions) < 2:
        return
    frames = []
    for i, before in enumerate(versions):
        for after in versions[i + 1 :]:
            window = lake.changes("t", before, after)
            frames.append(window.select(F.lit(before).alias("b"), F.lit(after).alias("a"), "*"))
    merged = frames[0]
    for frame in frames[1:]:
        merged = merged.unionAll(frame)
    feed_rows = [tuple(r) for r in merged.collect()]
    assert len(feed_rows) == len({r[:-1] for r in feed_rows})
    got: dict[tuple, Counter] = {}
    for b, a, *key, weight in feed_rows:
        assert weight != 0
        got.setdefault((b, a), Counter())[tuple(key)] = weight
    for i, before in enumerate(versions):
        for after in versions[i + 1 :]:
            delta = Counter(states[after])
            delta.subtract(states[before])
            assert got.get((before, after), Counter()) == {k: n for k, n in delta.items() if n}


@pytest.mark.parametrize(("limit", "examples"), [(1000, 12), (2, 6)], ids=["arrow", "executors"])
def test_same_as_duckdb(spark, limit, examples):
    limits = spark_trickle.Limits(shipped_rows=0) if limit == 2 else spark_trickle.Limits()

    @settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    @given(history)
    def run(batches) -> None:
        with tempfile.TemporaryDirectory() as folder, duckdb.connect() as duck:
            options = spark_trickle.Settings(inline_row_limit=limit, limits=limits)
            with spark_trickle.connect(Path(folder) / "l", spark=spark, settings=options) as lake:
                lake.sql("CREATE TABLE t (k INT, g INT, s STRING)")
                duck.execute("CREATE TABLE t (k INT, g INT, s VARCHAR)")
                states = {lake.version: Counter()}
                for batch in batches:
                    run_both(lake, duck, batch)
                    states[lake.version] = Counter(duck.execute("SELECT * FROM t").fetchall())
                check(lake, states)

    run()
