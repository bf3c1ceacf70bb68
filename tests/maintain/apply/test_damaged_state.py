"""State that cannot be: what was taken out of it behind the engine's back is refused, never healed.

Each case damages the stored state of one kind, then changes the source so that the damage matters.
The refresh fails with an InvariantError, contents and frontier stay, the table is out of service.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from spark_trickle import Lake, QuarantineWarning
from spark_trickle.errors import InvariantError
from support.lakes import leave_no_trace, limited, modify
from support.streams import assert_exact, refreshed, rows

pytestmark = pytest.mark.spark

Row = dict[str, Any]
Edit = Callable[[Row], Row] | None
DELETE = "DELETE FROM t WHERE g = 1"
ONE = "DELETE FROM t WHERE v = 2"


def less(column: str, by: int = 2) -> Edit:
    return lambda row: {**row, column: row[column] - by}


SUMMED = "SELECT g, sum(v) AS s, count(v) AS n FROM t GROUP BY g"
CASES: dict[str, tuple[str, Callable[[Row], bool], Edit, str]] = {
    "a group that is not there": (SUMMED, lambda r: r["g"] == 1, None, ONE),
    "a group that is not there and changes": (
        SUMMED,
        lambda r: r["g"] == 1,
        None,
        "UPDATE t SET v = 3 WHERE v = 2",
    ),
    "fewer rows than none": (SUMMED, lambda r: r["g"] == 1, less("__rows"), DELETE),
    "a count that is too low": (SUMMED, lambda r: r["g"] == 1, less("__sum_count"), DELETE),
    "a sum of no rows": (SUMMED, lambda r: r["g"] == 1, less("__sum_sum"), DELETE),
    "a NULL key": (SUMMED, lambda r: r["g"] is None, None, "DELETE FROM t WHERE g IS NULL"),
    "no row at all": ("SELECT sum(v) AS s, count(*) AS n FROM t", bool, None, ONE),
    "one row with fewer than none": (
        "SELECT sum(v) AS s FROM t",
        bool,
        less("__rows", 9),
        ONE,
    ),
    "a minimum that was lower": (
        "SELECT g, min(v) AS l FROM t GROUP BY g",
        lambda r: r["g"] == 1,
        less("__min", -5),
        "DELETE FROM t WHERE v = 1",
    ),
    "an extremum of fewer rows than none": (
        "SELECT g, max(v) AS h, count(*) AS n FROM t GROUP BY g",
        lambda r: r["g"] == 1,
        less("__rows"),
        DELETE,
    ),
    "a maximum of no row": ("SELECT max(v) AS h FROM t", bool, None, ONE),
    "a distinct row": ("SELECT DISTINCT g FROM t", lambda r: r["g"] == 1, None, DELETE),
    "a distinct row once too few": (
        "SELECT DISTINCT g FROM t",
        lambda r: r["g"] == 1,
        less("__rows", 1),
        DELETE,
    ),
    "a distinct count": (
        "SELECT count(DISTINCT v) AS n FROM t",
        lambda r: r.get("value") == 2,
        None,
        ONE,
    ),
    "EXCEPT ALL": (
        "SELECT g FROM t EXCEPT ALL SELECT g FROM u",
        lambda r: r["g"] == 1,
        less("__left_rows_count"),
        DELETE,
    ),
    "INTERSECT ALL": (
        "SELECT g FROM t INTERSECT ALL SELECT g FROM u",
        lambda r: r["g"] == 1,
        None,
        ONE,
    ),
    "a segment that others read": (
        "SELECT t.v, a.n FROM t JOIN (SELECT g, count(*) AS n FROM t GROUP BY g) a ON t.g = a.g",
        lambda r: r["g"] == 1,
        less("__rows"),
        DELETE,
    ),
    "a rollup": (
        "SELECT g, sum(v) AS s FROM t GROUP BY ROLLUP (g)",
        lambda r: r["g"] == 1,
        less("__rows"),
        DELETE,
    ),
}


@pytest.fixture
def small(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE t (g INT, v INT)")
    lake.sql("CREATE TABLE u (g INT)")
    lake.sql("INSERT INTO t VALUES (1, 1), (1, 2), (2, 5), (NULL, 7)")
    lake.sql("INSERT INTO u VALUES (1), (3)")
    return lake


def damage(lake: Lake, chosen: Callable[[Row], bool], edit: Edit) -> None:
    """Change the hidden state of ``s`` that has such a row."""
    for segment in lake._streams.get("s").segments:
        tx = lake._catalog.begin()
        names = {column.name for column in tx.table(segment.name).columns}
        if {"__rows"} <= names and modify(tx, segment.name, chosen, edit):
            tx.commit()
            leave_no_trace(lake._catalog)
            return
        tx.rollback()
    raise AssertionError("there is no such state to damage")


def refused(lake: Lake) -> None:
    """The refresh fails, and nothing is changed by it."""
    before, frontier = rows(lake, "s"), lake._streams.get("s").frontier
    with pytest.raises(InvariantError) as caught:
        lake.refresh_stream_table("s")
    assert "repair_stream_table" in str(caught.value.hint)
    (seen,) = lake.stream_tables()
    assert (seen.status, seen.populated) == ("ERROR", False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QuarantineWarning)
        assert rows(lake, "s") == before
    assert lake._streams.get("s").frontier == frontier


@pytest.mark.parametrize("case", CASES)
def test_damaged_state_is_refused(small: Lake, case: str) -> None:
    query, chosen, edit, statement = CASES[case]
    small.create_stream_table("s", query, refresh_mode="DIFFERENTIAL")
    damage(small, chosen, edit)
    small.sql(statement)
    refused(small)


def test_what_was_not_damaged_is_not_refused(small: Lake) -> None:
    """The same changes over good state: the checks of the cases above do not fire by themselves."""
    queries = sorted({query for query, _, _, _ in CASES.values()})
    for number, query in enumerate(queries):
        small.create_stream_table(f"s{number}", query, refresh_mode="DIFFERENTIAL")
    for statement in ("UPDATE t SET v = 3 WHERE v = 2", "DELETE FROM t WHERE g = 1 OR g IS NULL"):
        small.sql(statement)
        assert {report.error for report in small.refresh_all()} == {None}
    assert_exact(small, *(f"s{number}" for number in range(len(queries))))


def test_a_large_delta_is_checked_where_it_is(small: Lake) -> None:
    """A delta that stays in files is tested by Spark while it is written."""
    limited(small, delta_rows=0)
    small.create_stream_table("s", SUMMED, refresh_mode="DIFFERENTIAL")
    small.sql("INSERT INTO t VALUES (1, 8), (9, 9)")
    refreshed(small, "s", "DIFFERENTIAL")
    damage(small, lambda r: r["g"] == 1, less("__rows", 1))
    small.sql(DELETE)
    refused(small)


def test_whoever_reads_a_table_out_of_service_is_warned(small: Lake) -> None:
    lake = small
    lake.create_stream_table("s", SUMMED, refresh_mode="DIFFERENTIAL")
    good = lake.version
    with warnings.catch_warnings():
        warnings.simplefilter("error", QuarantineWarning)
        lake.table("s")
        lake.sql("SELECT * FROM s")
    damage(lake, lambda r: r["g"] == 1, None)
    lake.sql(ONE)
    refused(lake)
    for read in (
        lambda: lake.table("s"),
        lambda: lake.sql("SELECT count(*) FROM main.s WHERE g > 0"),
        lambda: lake.sql("INSERT INTO u SELECT g FROM s"),
    ):
        with pytest.warns(QuarantineWarning, match=r"s is out of service.*repair_stream_table"):
            read()
    with lake.transaction() as tx, pytest.warns(QuarantineWarning):
        tx.table("s")
    with warnings.catch_warnings():
        warnings.simplefilter("error", QuarantineWarning)
        lake.table("s", version=good)
        lake.sql("SELECT * FROM t")
        lake.repair_stream_table("s")
        lake.table("s")
    assert_exact(lake, "s")
