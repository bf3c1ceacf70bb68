"""Real processes: daemons that are killed at random, and writers that never stop."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import spark_trickle
from spark_trickle import Lake
from spark_trickle.errors import TransientError
from spark_trickle.maintain.records.history import MEASURED
from spark_trickle.maintain.schedule import leases
from spark_trickle.maintain.schedule.due import stretched
from spark_trickle.settings import Settings
from support import postgres
from support.forks import Forked, forked
from support.streams import assert_exact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEDULE = 3.0
SETTINGS = Settings(poll_seconds=0.2, lease_seconds=3.0)
Open = Callable[[], Lake]

TABLES = {
    "totals": (
        "SELECT customer, sum(amount) AS total, count(*) AS n FROM orders GROUP BY customer",
        None,
    ),
    "names": ("SELECT customer, count(*) AS n FROM customers GROUP BY customer", None),
    "joined": (
        "SELECT t.customer, t.total, c.n FROM totals t JOIN names c ON t.customer = c.customer",
        f"{SCHEDULE:g}s",
    ),
    "alone": ("SELECT max(amount) AS most FROM orders", f"{SCHEDULE:g}s"),
}


@contextmanager
def place(kind: str, tmp_path: Path, spark: SparkSession) -> Iterator[Open]:
    """Opens the lake, each time anew: every process has a lake of its own."""
    if kind == "sqlite":
        yield lambda: spark_trickle.connect(tmp_path / "lake", spark=spark, settings=SETTINGS)
        return
    with postgres.server() as url:
        data = str(tmp_path / "data")
        yield lambda: spark_trickle.connect(url, data_path=data, spark=spark, settings=SETTINGS)


def daemon(open_lake: Open, stop: Path) -> str:
    with open_lake() as lake, lake.scheduler():
        while not stop.exists():
            time.sleep(0.05)
    return "stopped"


def writer(open_lake: Open, stop: Path, number: int) -> str:
    chance = random.Random(number)
    commits = 0
    with open_lake() as lake:
        while not stop.exists():
            customer = chance.choice(["ada", "bob", "cid"])
            try:
                lake.append("orders", [{"customer": customer, "amount": chance.randrange(100)}])
                if number == 0:
                    lake.append("customers", [{"customer": customer}])
                commits += 1
            except TransientError:
                pass
            time.sleep(chance.uniform(0.1, 0.5))
    return str(commits)


def kill(process: Forked) -> None:
    os.kill(process._pid, signal.SIGKILL)
    assert process.end() is None


def make(lake: Lake) -> None:
    lake.sql("CREATE TABLE orders (customer STRING, amount BIGINT)")
    lake.sql("CREATE TABLE customers (customer STRING)")
    lake.sql("INSERT INTO orders VALUES ('ada', 1)")
    lake.sql("INSERT INTO customers VALUES ('ada')")
    for name, (query, schedule) in TABLES.items():
        lake.create_stream_table(name, query, schedule=schedule, refresh_mode="DIFFERENTIAL")


def behind(lake: Lake) -> list[str]:
    return [table.name for table in lake.stream_tables() if table.pending_versions]


def longest_interval(lake: Lake) -> float:
    """The schedule as given, where the machine has cores to spare. On a busy one the scheduler
    stretches the interval until a wave fits, and says so: then it is measured by that."""
    if os.getloadavg()[0] < (os.cpu_count() or 1):
        return SCHEDULE
    with lake._catalog.reading() as connection:
        seconds = sum(lease.seconds for lease in leases.load(connection).values())
    return stretched(SCHEDULE, seconds)


def chaos(open_lake: Open, tmp_path: Path, seconds: float) -> int:
    """Two daemons and two writers, one daemon killed every few seconds; how often."""
    chance = random.Random(seconds)
    writers_stop, daemons_stop = tmp_path / "writers", tmp_path / "daemons"
    daemons = [forked(tmp_path, lambda: daemon(open_lake, daemons_stop)) for _ in range(2)]
    writers = [
        forked(tmp_path, lambda n=n: writer(open_lake, writers_stop, n))  # type: ignore[misc]
        for n in range(2)
    ]
    killed = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(chance.uniform(1.0, 4.0))
        victim = chance.randrange(2)
        kill(daemons[victim])
        killed += 1
        daemons[victim] = forked(tmp_path, lambda: daemon(open_lake, daemons_stop))
    writers_stop.touch()
    assert all(int(w.end() or 0) > 0 for w in writers)
    with open_lake() as lake:
        since = time.monotonic()
        while behind(lake):
            waited, interval = time.monotonic() - since, longest_interval(lake)
            assert waited < 3 * interval, f"{behind(lake)} stay behind for {waited} s"
            time.sleep(0.1)
    daemons_stop.touch()
    assert [d.end() for d in daemons] == ["stopped", "stopped"]
    return killed


def check(lake: Lake) -> None:
    assert_exact(lake, *TABLES)
    with lake._catalog.reading() as connection:
        assert not connection.execute("SELECT 1 FROM trickle_lease WHERE holder IS NOT NULL")
        assert not connection.execute("SELECT 1 FROM trickle_holder")
    for name in TABLES:
        done = [r for r in lake.refresh_history(name) if r.effective_mode in MEASURED]
        assert len(done) > 2, f"{name} was hardly refreshed"
        for earlier, later in pairwise(sorted(done, key=lambda r: r.version)):
            for source, (before, _) in later.sources.items():
                assert before >= earlier.sources[source][1], f"{name} read {source} twice"
        assert {r.effective_mode for r in lake.refresh_history(name)} <= {*MEASURED, "NO_DATA"}


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_killed_daemons(kind: str, tmp_path: Path, spark: SparkSession) -> None:
    with place(kind, tmp_path, spark) as open_lake:
        with open_lake() as lake:
            make(lake)
        assert chaos(open_lake, tmp_path, 8.0) >= 2
        with open_lake() as lake:
            check(lake)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_killed_daemons_for_two_minutes(kind: str, tmp_path: Path, spark: SparkSession) -> None:
    with place(kind, tmp_path, spark) as open_lake:
        with open_lake() as lake:
            make(lake)
        assert chaos(open_lake, tmp_path, 120.0) >= 20
        with open_lake() as lake:
            check(lake)


def test_every_reader_of_a_wave_sees_one_version(tmp_path: Path, spark: SparkSession) -> None:
    """A diamond and a cascade of five, looked at while daemon and writers run.

    ``skew`` and ``drift`` compare their inputs: 0 in every version, or a wave has mixed versions.
    """
    with place("sqlite", tmp_path, spark) as open_lake, open_lake() as lake:
        lake.sql("CREATE TABLE orders (customer STRING, amount BIGINT)")
        lake.sql("CREATE TABLE customers (customer STRING)")
        lake.sql("INSERT INTO orders VALUES ('ada', 1)")
        lake.create_stream_table("l", "SELECT count(*) AS n FROM orders")
        lake.create_stream_table("r", "SELECT sum(1) AS n FROM orders", schedule="2s")
        lake.create_stream_table("skew", "SELECT l.n - r.n AS d FROM l CROSS JOIN r", schedule="1s")
        lake.create_stream_table(
            "c1", "SELECT customer, count(*) AS n FROM orders GROUP BY customer"
        )
        for i in range(2, 6):
            query = f"SELECT customer, n + 0 AS n FROM c{i - 1}"
            lake.create_stream_table(f"c{i}", query, schedule="2s" if i == 3 else None)
        lake.create_stream_table(
            "drift",
            "SELECT a.customer, a.n - b.n AS d FROM c1 a JOIN c5 b ON a.customer = b.customer",
            schedule="1s",
        )
        names = [table.name for table in lake.stream_tables()]
        stop = tmp_path / "stop"
        begun = lake.version
        process = forked(tmp_path, lambda: writer(open_lake, stop, 1))
        with lake.scheduler():
            time.sleep(7.0)
            stop.touch()
            assert int(process.end() or 0) > 5
            until = time.monotonic() + 120
            while behind(lake):
                assert time.monotonic() < until
                time.sleep(0.1)
        moved = 0
        for version in range(begun, lake.version + 1):
            for name in ("skew", "drift"):
                found = {row["d"] for row in lake.table(name, version).toArrow().to_pylist()}
                assert found == {0}, f"{name} at version {version}: {found}"
            moved += 1
        assert moved > 20
        assert_exact(lake, *names)
