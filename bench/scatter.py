"""Updates scattered over a whole table, and the refreshes after them, in a driver of 2 GB.

Every twelfth row of a table changes, in every row group of every file. ``TRICKLE_SCATTER_ROWS`` says
how many rows there are: 6 M unless told, 60 M for the figures in docs/performance.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from rich.table import Table

from bench.figures import Figure, console, seconds
from spark_trickle import Lake, connect
from spark_trickle.spark.sessions.session import start_session

ROWS = int(os.environ.get("TRICKLE_SCATTER_ROWS", "6000000"))
EVERY = 12
KEYS, NAMED = 10_007, 1_000
DRIVER_MB = 2048
STREAMS = {
    "by_key": "SELECT key, count(*) AS n, sum(value) AS total FROM wide GROUP BY key",
    "joined": "SELECT w.id, n.name, w.value, w.text FROM wide w JOIN names n ON w.key = n.key",
}


@dataclass(frozen=True)
class Step:
    """What one step took; memory is the most that was used during it."""

    name: str
    seconds: float
    plain: float | None
    process_mb: int
    java_mb: int
    heap_mb: int
    detail: str = ""


def run(folder: Path) -> list[Figure]:
    spark = start_session("UTC", {"spark.driver.memory": "2g"})
    memory = Memory(spark)
    steps: list[Step] = []
    with connect(folder / "scatter", spark=spark) as lake:
        opponent = _Plain(spark, folder / "plain")
        steps.append(memory.step("write", lambda: _fill(lake, spark), opponent.fill))
        for name, query in STREAMS.items():
            make = _maker(lake, name, query)
            steps.append(memory.step(f"create {name}", make))
        update = f"UPDATE wide SET value = value + 1, text = upper(text) WHERE id % {EVERY} = 0"
        steps.append(memory.step("update", lambda: lake.sql(update), opponent.update))
        for name in STREAMS:
            refresh = _refresher(lake, name)
            steps.append(memory.step(f"refresh {name}", refresh, opponent.computer(name)))
        _check(lake, opponent)
    _show(steps)
    return _figures(steps)


def rows_of(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(rows).selectExpr(
        "id",
        f"cast(pmod(xxhash64(id), {KEYS}) AS INT) AS key",
        "id % 1000 AS value",
        "concat('text ', md5(cast(id AS STRING))) AS text",
    )


def _fill(lake: Lake, spark: SparkSession) -> str:
    lake.sql("CREATE TABLE wide (id BIGINT, key INT, value BIGINT, text STRING, PRIMARY KEY (id))")
    lake.sql("CREATE TABLE names (key INT, name STRING, PRIMARY KEY (key))")
    lake.append("names", [{"key": key, "name": f"name {key}"} for key in range(NAMED)])
    lake.append("wide", rows_of(spark, ROWS))
    return f"{len(lake._catalog.scan('wide').files)} files"


def _maker(lake: Lake, name: str, query: str) -> Callable[[], str]:
    def make() -> str:
        lake.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
        return f"{lake._catalog.scan(name).rows:,} rows"

    return make


def _refresher(lake: Lake, name: str) -> Callable[[], str]:
    def refresh() -> str:
        report = lake.refresh_stream_table(name)
        assert report.effective_mode == "DIFFERENTIAL", report
        changed = f"+{report.rows_inserted:,} -{report.rows_deleted:,}"
        return f"{changed}, rows_read {report.rows_read:,}, {report.spark_queries} queries"

    return refresh


class _Plain:
    """What plain Spark does instead: rewrites the table, runs the queries again."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    def _path(self, name: str) -> str:
        return str(self._folder / name)

    def fill(self) -> None:
        rows_of(self._spark, ROWS).write.parquet(self._path("before"))
        named = self._spark.range(NAMED).selectExpr(
            "cast(id AS INT) AS key", "concat('name ', id) AS name"
        )
        named.write.parquet(self._path("names"))

    def update(self) -> None:
        hit = f"id % {EVERY} = 0"
        self._spark.read.parquet(self._path("before")).selectExpr(
            "id",
            "key",
            f"if({hit}, value + 1, value) AS value",
            f"if({hit}, upper(text), text) AS text",
        ).write.parquet(self._path("wide"))

    def answer(self, name: str) -> DataFrame:
        for table in ("wide", "names"):
            self._spark.read.parquet(self._path(table)).createOrReplaceTempView(table)
        return self._spark.sql(STREAMS[name])

    def computer(self, name: str) -> Callable[[], None]:
        return lambda: self.answer(name).write.parquet(self._path(f"answer_{name}"))

    def stored(self, name: str) -> DataFrame:
        return self._spark.read.parquet(self._path(name))


def _check(lake: Lake, opponent: _Plain) -> None:
    """The same rows as plain Spark has, however often each is there."""
    for name, place in (("wide", "wide"), *((n, f"answer_{n}") for n in STREAMS)):
        mine, theirs = (_digest(f) for f in (lake.table(name), opponent.stored(place)))
        assert mine == theirs, (name, mine, theirs)


def _digest(frame: DataFrame) -> tuple[Any, ...]:
    """Count, sum and exclusive or of the rows' hashes."""
    names = ", ".join(f"`{name}`" for name in sorted(frame.columns))
    hashes = frame.selectExpr(f"xxhash64({names}) AS h", f"hash({names}) AS g")
    sums = ("count(*)", "sum(cast(h AS DECIMAL(38)))", "bit_xor(h)", "sum(cast(g AS BIGINT))")
    return tuple(hashes.selectExpr(*sums).collect()[0])


class Memory:
    """Peaks of this process and of its Java, step by step."""

    def __init__(self, spark: SparkSession) -> None:
        own = os.getpid()
        java = Path(f"/proc/{own}/task/{own}/children").read_text().split()[0]
        self._processes = (str(own), java)
        factory = spark._jvm.java.lang.management.ManagementFactory
        self._pools = [
            pool for pool in factory.getMemoryPoolMXBeans() if str(pool.getType()) == "Heap memory"
        ]

    def step(
        self, name: str, ours: Callable[[], object], plain: Callable[[], object] | None = None
    ) -> Step:
        """Ours first; what plain Spark needs is not measured but for its seconds."""
        for process in self._processes:
            Path(f"/proc/{process}/clear_refs").write_text("5")
        for pool in self._pools:
            pool.resetPeakUsage()
        answers: list[object] = []
        taken = seconds(lambda: answers.append(ours()))
        own, java = (_peak_mb(process) for process in self._processes)
        heap = sum(pool.getPeakUsage().getUsed() for pool in self._pools) >> 20
        theirs = None if plain is None else seconds(plain)
        step = Step(name, taken, theirs, own, java, heap, str(answers[0] or ""))
        console.print(step)
        return step


def _peak_mb(process: str) -> int:
    text = Path(f"/proc/{process}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) >> 10


def _show(steps: list[Step]) -> None:
    table = Table(title=f"{ROWS:,} rows, every {EVERY}th updated", header_style="bold")
    names = ("step", "ours", "plain Spark", "this process", "Java", "its heap", "")
    for name in names:
        table.add_column(name, justify="left" if name in ("step", "") else "right")
    for step in steps:
        plain = "" if step.plain is None else f"{step.plain:.1f} s"
        memory = (f"{mb} MB" for mb in (step.process_mb, step.java_mb, step.heap_mb))
        table.add_row(step.name, f"{step.seconds:.1f} s", plain, *memory, step.detail)
    console.print(table)


def _figures(steps: list[Step]) -> list[Figure]:
    figures = []
    bars = {"update": 2.0, "refresh by_key": 2.0, "refresh joined": 3.0}
    for step in steps:
        if step.name in bars and step.plain is not None:
            name = f"scattered: {step.name}, {ROWS:,} rows"
            ratio = step.seconds / step.plain
            figures.append(Figure(name, step.seconds, step.plain, ratio, bars[step.name]))
    work = [step for step in steps if step.name.startswith(("update", "refresh"))]
    most = max(step.process_mb for step in work)
    name = "scattered: peak memory of this process"
    figures.append(Figure(name, most, None, most, DRIVER_MB, "MB", f"{most} MB"))
    return figures
