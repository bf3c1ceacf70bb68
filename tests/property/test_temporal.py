"""Temporal filters under a virtual clock: the clock jumps, rows change, or both; contents = query.

The rows are kept by the test itself, and DuckDB runs each query over them with the clock put in as
a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import spark_trickle
from spark_trickle import Lake, Limits, Settings
from support.clocks import Clock, answers, at
from support.watched import bag, contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

QUERIES = {
    "recent": "SELECT id, k, ts, v FROM e WHERE ts > now() - INTERVAL 3 DAYS",
    "groups": "SELECT k, count(*) AS c, sum(v) AS s, min(v) AS lo, max(v) AS hi FROM e "
    "WHERE n BETWEEN localtimestamp() - INTERVAL 5 DAYS AND localtimestamp() GROUP BY k",
    "padded": "SELECT o.k, o.name, e.id FROM o LEFT JOIN e "
    "ON o.k = e.k AND e.d >= current_date() - INTERVAL 2 DAYS",
    "pairs": "SELECT a.id, b.id AS other FROM e a JOIN e b ON a.k = b.k AND a.v < b.v "
    "WHERE now() - INTERVAL 2 DAYS <= a.ts AND b.d < current_date()",
    "known": "SELECT k, name FROM o WHERE EXISTS (SELECT 1 FROM e WHERE e.k = o.k "
    "AND e.ts < now() AND e.d > current_date() - INTERVAL 4 DAYS)",
    "total": "SELECT count(*) AS c, max(v) AS hi FROM e WHERE ts >= now() - INTERVAL 1 MONTH",
    "newest": "SELECT id, ts FROM e WHERE ts <= now() ORDER BY ts DESC, id LIMIT 3",
    "ranked": "SELECT id, row_number() OVER (PARTITION BY k ORDER BY v, id) AS r FROM e "
    "WHERE current_date() BETWEEN d AND until",
    "later": "SELECT id, k FROM recent WHERE ts <= now() - INTERVAL 36 HOURS",
    "counted": "SELECT k, count(*) AS c FROM later GROUP BY k",
}
Opened = Callable[..., Lake]
START = at(2024, 2, 28, 22, 30)


class Rows:
    """Two tables, in the lake and here."""

    def __init__(
        self, lake: Lake, random: Random, clock: Clock, queries: Mapping[str, str]
    ) -> None:
        self._lake, self._random, self._clock, self._queries = lake, random, clock, queries
        self._next = 0
        self.e: dict[int, dict[str, Any]] = {}
        self.o = [{"k": k, "name": f"name {k}"} for k in range(4)]
        lake.sql(
            "CREATE TABLE e (id INT, k INT, ts TIMESTAMP, n TIMESTAMP_NTZ, d DATE, until DATE, v INT)"
        )
        lake.sql("CREATE TABLE o (k INT, name STRING)")
        lake.append("o", self.o)

    def come(self, count: int) -> None:
        new = [self._row() for _ in range(count)]
        self.e |= {row["id"]: row for row in new}
        self._lake.append("e", pa.Table.from_pylist(new, schema=_SCHEMA))

    def change(self) -> None:
        """Some rows come, some go, some get other values."""
        gone = self._random.sample(sorted(self.e), 2)
        for id in gone:
            del self.e[id]
        moved = self._random.choice(sorted(self.e))
        self.e[moved]["v"] += 1
        self.e[moved]["k"] = 3 - self.e[moved]["k"]
        self._lake.sql(f"DELETE FROM e WHERE id IN ({gone[0]}, {gone[1]})")
        self._lake.sql(f"UPDATE e SET v = v + 1, k = 3 - k WHERE id = {moved}")
        self.come(3)

    def _row(self) -> dict[str, Any]:
        self._next += 1
        wall = self._clock.now.replace(tzinfo=None)

        def near() -> Any:
            hours = self._random.choice((-24 * 30, -60, -48, -24, -1, 0, 1, 24, 60))
            near = wall + timedelta(hours=hours, minutes=self._random.choice((-30, 0, 30)))
            return None if self._random.random() < 0.1 else near

        d = near()
        return {
            "id": self._next,
            "k": self._random.randrange(4),
            "ts": near(),
            "n": near(),
            "d": None if d is None else d.date(),
            "until": None if d is None else d.date() + timedelta(days=self._random.randrange(4)),
            "v": self._random.randrange(10),
        }

    def check(self) -> None:
        tables = {
            "e": pa.Table.from_pylist(list(self.e.values()), schema=_PLAIN),
            "o": pa.Table.from_pylist(self.o),
        }
        for name, wanted in answers(self._clock.now, tables, self._queries).items():
            found = contents(self._lake, name)
            plain = pa.table([_plain(column) for column in found.columns], found.column_names)
            assert bag(plain) == bag(wanted), f"{name} at {self._clock.now}: {QUERIES[name]}"


_FIELDS = {
    "id": pa.int32(),
    "k": pa.int32(),
    "ts": pa.timestamp("us", "UTC"),
    "n": pa.timestamp("us"),
    "d": pa.date32(),
    "until": pa.date32(),
    "v": pa.int32(),
}
_SCHEMA = pa.schema(_FIELDS)
_PLAIN = pa.schema({**_FIELDS, "ts": pa.timestamp("us")})


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    zoned = pa.types.is_timestamp(column.type) and column.type.tz
    return column.cast(pa.timestamp("us")) if zoned else column


FEWER = ("recent", "groups", "padded", "pairs", "newest", "later", "counted")


def _steps(lake: Lake, clock: Clock, seed: int, steps: int, queries: Mapping[str, str]) -> None:
    """The clock jumps, rows change, or both, in turn; nothing is ever run in full."""
    random = Random(seed)
    rows = Rows(lake, random, clock, queries)
    rows.come(30)
    for name, query in queries.items():
        lake.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
    rows.check()
    moved: set[str] = set()
    for step in range(steps):
        if step % 3 != 1:
            clock.jump(hours=random.choice((0.5, 1, 24, 24, 60, 24 * 29, -24)))
        if step % 3 != 0:
            rows.change()
        for report in lake.refresh_all():
            by_delta = "TOPK" if report.name == "newest" else "DIFFERENTIAL"
            assert report.effective_mode in (by_delta, "NO_DATA"), report
            if step % 3 == 0 and report.effective_mode == by_delta:
                moved.add(report.name)
        rows.check()
    assert moved, "the clock alone changed nothing"
    assert not lake.verify(next(iter(queries)))


@pytest.fixture
def clock() -> Clock:
    return Clock(START)


@pytest.fixture
def timed(tmp_path: Path, spark: SparkSession, clock: Clock) -> Iterator[Opened]:
    """Opens lakes whose rows are in files, but for changes of one or two."""
    with ExitStack() as lakes:

        def opened(**more: Any) -> Lake:
            settings = Settings(clock=clock, inline_row_limit=2, inline_delete_limit=1, **more)
            path = tmp_path / f"lake{len(more)}"
            return lakes.enter_context(spark_trickle.connect(path, spark=spark, settings=settings))

        yield opened


def test_jumps_and_changes(timed: Opened, clock: Clock) -> None:
    _steps(timed(), clock, 1, 6, {name: QUERIES[name] for name in FEWER})


def test_on_spark(timed: Opened, clock: Clock) -> None:
    """As if all that crosses were large: it is read by Spark, and stays in its files."""
    lake = timed(local_rows=0, limits=Limits(delta_bytes=-1, delta_rows=0))
    _steps(lake, clock, 3, 3, {name: QUERIES[name] for name in ("groups", "pairs")})


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_jumps_and_changes(timed: Opened, clock: Clock, seed: int) -> None:
    limits = Limits(delta_bytes=-1) if seed % 3 == 0 else Limits()
    lake = timed(local_rows=20_000 if seed % 2 else 0, limits=limits)
    _steps(lake, clock, seed, 30, QUERIES)
