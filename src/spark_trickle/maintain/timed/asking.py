"""What expressions of the clock are at a clock, as Spark says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from spark_trickle.ir.temporal import Timed, TimeEdge, at_clock
from spark_trickle.maintain.timed.clocks import Clocks, ClockValue, clocks
from spark_trickle.maintain.timed.here import NotHere, by_rule
from spark_trickle.spark.sessions.facts import Meaning
from spark_trickle.sql.dialects import TrickleSpark

if TYPE_CHECKING:
    from spark_trickle.spark.run import Run


def clocks_by(
    timed: Sequence[Timed],
    before: int | None,
    now: int,
    meaning: Meaning | None,
    running: Callable[[], AbstractContextManager[Run]],
) -> Clocks:
    """Both boxes of each timed source; Spark is asked where no rule here knows."""
    try:
        return clocks(timed, before, now, by_rule(meaning))
    except NotHere:
        with running() as run:
            found = clocks(timed, before, now, partial(by_spark, run))
            return replace(found, spark_queries=run.spark_queries)


def by_spark(run: Run, asked: Sequence[tuple[TimeEdge, int]]) -> list[ClockValue | None]:
    """None where the expression is NULL."""
    texts: list[str] = []
    for number, (edge, clock) in enumerate(asked):
        value = at_clock(edge.value, clock).sql(TrickleSpark)
        parts = _compared(edge, value)
        texts += [f"{part} AS v{number}_{place}" for place, part in enumerate(parts)]
    run.reads(0, tiny=True)
    rows = run.fetch(f"SELECT {', '.join(texts)}", 1)
    assert isinstance(rows, pa.Table)
    found: dict[int, list[object]] = {}
    for name in rows.column_names:
        column = rows.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        found.setdefault(int(name[1:].partition("_")[0]), []).append(column[0].as_py())
    return [_value(edge, found[number]) for number, (edge, _) in enumerate(asked)]


_T = exp.DataType.Type
_AROUND = (1, 0, -1)


def _compared(edge: TimeEdge, value: str) -> list[str]:
    """What to ask Spark about an expression, so that it can be placed among a column's values."""
    if edge.type.this is _T.TIMESTAMPNTZ:
        return [f"CAST({value} AS TIMESTAMP_NTZ)"]
    if edge.type.this is not _T.DATE:
        return [f"CAST({value} AS TIMESTAMP_LTZ)"]
    # Beside a timestamp a date is the first moment of its day, in the zone of the session.
    day = f"CAST({value} AS DATE)"
    days = [f"date_add({day}, {near})" for near in _AROUND]
    tests = [f"{d} {operator} ({value})" for d in days for operator in ("<=", "=")]
    return [f"unix_date({day})", *tests]


def _value(edge: TimeEdge, found: Sequence[object]) -> ClockValue | None:
    first, *tests = found
    if first is None:
        return None
    assert isinstance(first, int)
    if not tests:
        return ClockValue(first, exact=True)
    for near, below, same in zip(_AROUND, tests[::2], tests[1::2], strict=True):
        if below:
            return ClockValue(first + near, exact=bool(same))
    raise AssertionError(f"no day begins before {edge}")
