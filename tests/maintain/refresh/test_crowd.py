"""Four writers, a compactor and a refresher at one table, through SQL and Spark: nobody starves.

Each is a process of its own; the Spark is the test's. It keeps what forked processes ask it for until it
ends, so no other test shall share it: ``make crowd`` runs these alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_trickle
from spark_trickle import Lake
from support import forks, postgres
from support.crowds import PATIENCE, SECONDS
from support.forks import forked
from support.streams import assert_exact

pytestmark = [pytest.mark.spark, pytest.mark.crowd]

STARTING = 45.0
"""What the processes may take to get to work; it is no pause."""
SUMS = "SELECT g, count(*) AS c, sum(n) AS s FROM t GROUP BY g"


def inserting(lake: Lake, turn: int) -> None:
    time.sleep(0.05)
    lake.append("t", [{"k": 10_000 + turn * 5 + i, "g": i, "n": 1} for i in range(5)])


def updating(lake: Lake, turn: int) -> None:
    assert lake.sql(f"UPDATE t SET n = n + 1 WHERE k = {turn % 10}") == 1


def counting(lake: Lake, turn: int) -> None:
    """The same rows as ``updating`` changes, and one that only this one has."""
    assert lake.sql(f"UPDATE t SET n = n + 1 WHERE k IN ({turn % 10}, 99)") == 2


def merging(lake: Lake, turn: int) -> None:
    """A key that comes, is counted up, and goes."""
    key = 1000 + turn // 3
    if turn % 3 == 2:
        assert lake.sql(f"DELETE FROM t WHERE k = {key}") == 1
        return
    lake.sql(
        f"MERGE INTO t USING (SELECT {key}L AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET "
        "n = n + 1 WHEN NOT MATCHED THEN INSERT VALUES (s.k, 7, 1)"
    )


def compacting(lake: Lake, _: int) -> None:
    lake.compact("t")
    time.sleep(0.5)


def refreshing(lake: Lake, _: int) -> None:
    lake.refresh_stream_table("s")


STEPS = (inserting, updating, counting, merging, compacting, refreshing)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_everybody_gets_on(
    kind: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "PATIENCE", SECONDS + 120)
    with ExitStack() as stack:
        url = str(tmp_path / "lake")
        if kind == "postgres":
            url = stack.enter_context(postgres.server())

        def connect() -> Lake:
            return spark_trickle.connect(url, data_path=str(tmp_path / "data"), spark=spark)

        lake = stack.enter_context(connect())
        lake.create_table("t", "k BIGINT, g INT, n BIGINT")
        lake.append("t", [{"k": k, "g": k % 3, "n": 0} for k in (*range(10), 99)])
        lake.create_stream_table("s", SUMS, refresh_mode="DIFFERENTIAL")
        until = time.time() + STARTING + SECONDS
        workers = [forked(tmp_path, _work(connect, step, until)) for step in STEPS]
        times = {s.__name__: _told(w.end()) for s, w in zip(STEPS, workers, strict=True)}
        pauses = {}
        for name, moments in times.items():
            assert moments[-1] - moments[0] > SECONDS - PATIENCE
            pauses[name] = max(b - a for a, b in pairwise([*moments, max(until, moments[-1])]))
            print(f"{kind} {name}: {len(moments)} times, longest pause {pauses[name]:.1f} s")
        assert max(pauses.values()) < PATIENCE, pauses
        _check(lake, {name: len(moments) for name, moments in times.items()})


def _work(connect: Callable[[], Lake], step: Callable[[Lake, int], None], until: float):
    def work() -> str:
        moments: list[float] = []
        with connect() as lake:
            while time.time() < until:
                step(lake, len(moments))
                moments.append(time.time())
        return json.dumps(moments)

    return work


def _told(text: str | None) -> list[float]:
    assert text is not None
    assert text.startswith("["), text
    found: list[float] = json.loads(text)
    return found


def _check(lake: Lake, turns: dict[str, int]) -> None:
    rows = {(row.k, row.n) for row in lake.table("t").collect()}
    assert len(rows) == lake.table("t").count()
    counts = dict(rows)
    both = [turns["updating"], turns["counting"]]
    expected = {k: sum((n - k + 9) // 10 for n in both) for k in range(10)}
    assert {k: counts[k] for k in range(10)} == expected
    assert counts[99] == turns["counting"]
    assert {k for k in counts if k >= 10_000} == set(range(10_000, 10_000 + 5 * turns["inserting"]))
    left = turns["merging"] % 3
    assert {k: n for k, n in counts.items() if 1000 <= k < 10_000} == (
        {1000 + turns["merging"] // 3: left} if left else {}
    )
    lake.refresh_stream_table("s")
    assert_exact(lake, "s")
