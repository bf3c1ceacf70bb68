"""The demo's story: four stream tables over a small TPC-H lake, and changes that they follow."""

from __future__ import annotations

import time
from dataclasses import dataclass

from spark_trickle.lake import Lake
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.tpch.churn import Churn, apply


@dataclass(frozen=True)
class DemoTable:
    """A stream table of the demo."""

    name: str
    what: str
    query: str
    alone: str = ""
    """The same from the tables alone, where the query reads another stream table."""

    @property
    def whole(self) -> str:
        """What would have to run if there were no stream tables."""
        return self.alone or self.query


_NATION_REVENUE = """SELECT r_name, n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, count(*) AS items
FROM lineitem
JOIN orders ON o_orderkey = l_orderkey
JOIN customer ON c_custkey = o_custkey
JOIN nation ON n_nationkey = c_nationkey
JOIN region ON r_regionkey = n_regionkey
GROUP BY r_name, n_name"""
_REGION_REVENUE = """SELECT r_name, sum(revenue) AS revenue, max(revenue) AS best_nation, count(*) AS nations
FROM {source}
GROUP BY r_name"""

STREAM_TABLES = (
    DemoTable(
        "order_summary",
        "an aggregate over one table",
        """SELECT o_orderpriority, count(*) AS orders, sum(o_totalprice) AS total, avg(o_totalprice) AS average
FROM orders
GROUP BY o_orderpriority""",
    ),
    DemoTable(
        "nation_revenue",
        "an aggregate over a join of five tables",
        _NATION_REVENUE,
    ),
    DemoTable(
        "top_orders",
        "the ten largest (TopK)",
        """SELECT o_orderkey, o_orderdate, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM orders JOIN lineitem ON l_orderkey = o_orderkey
GROUP BY o_orderkey, o_orderdate
ORDER BY revenue DESC
LIMIT 10""",
    ),
    DemoTable(
        "region_revenue",
        "a stream table over a stream table",
        _REGION_REVENUE.format(source="nation_revenue"),
        alone=_REGION_REVENUE.format(source=f"({_NATION_REVENUE})"),
    ),
)


@dataclass(frozen=True)
class Round:
    """Changes that come together, of one cycle of the churn."""

    title: str
    cycle: int
    functions: tuple[str, ...]


ROUNDS = (
    Round("New orders arrive", 1, ("RF1",)),
    Round("Prices, dates, buyers and segments are corrected, all over the tables", 1, ("RF3",)),
    Round("Old orders go; parts, suppliers and customers come and go", 1, ("RF2", "RF4")),
    Round("All of it again, at once", 2, ("RF1", "RF2", "RF3", "RF4")),
)


@dataclass(frozen=True)
class Refreshed:
    """One refresh, beside what it saved."""

    report: RefreshReport
    seconds: float
    full_seconds: float
    """Seconds that Spark takes for the same from the tables, without any stream table."""
    exact: bool
    """Whether the contents are the query's result, row by row."""


def change(lake: Lake, churn: Churn, round_: Round) -> dict[str, int]:
    """Do a round's changes, each refresh function in its own transaction; rows by table."""
    changed: dict[str, int] = {}
    for batch in churn.cycle(round_.cycle):
        if batch.name in round_.functions:
            for table, rows in apply(lake, batch).items():
                changed[table] = changed.get(table, 0) + rows
    return changed


def refresh(lake: Lake, shown: DemoTable) -> Refreshed:
    """Refresh one stream table, run its query in full beside it, and compare."""
    started = time.perf_counter()
    report = lake.refresh_stream_table(shown.name)
    refreshed = time.perf_counter()
    lake.sql(shown.whole).toArrow()
    recomputed = time.perf_counter()
    exact = not lake.verify(shown.name)
    return Refreshed(report, refreshed - started, recomputed - refreshed, exact)
