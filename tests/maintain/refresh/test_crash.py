"""A process killed with SIGKILL at each phase of create, refresh and drop.

Afterwards frontier and contents agree, the same work can be done again with the right result,
nothing is applied twice, and what was left behind breaks no reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_trickle
from spark_trickle import Lake
from spark_trickle.settings import Settings
from support.forks import forked
from support.streams import assert_exact, rows

pytestmark = pytest.mark.spark

BEFORE = (
    "refresh-pinned",
    "refresh-query-sent",
    "refresh-computed",
    "refresh-before-commit",
    "locked",
    "first-table-written",
    "refresh-recorded",
    "before-commit",
)
AFTER = ("after-commit", "refresh-committed")


class Crashes:
    """One lake, opened anew for every step."""

    def __init__(self, folder: Path, spark: SparkSession, settings: Settings) -> None:
        self._folder, self._spark, self._settings = folder, spark, settings

    @contextmanager
    def open(self) -> Iterator[Lake]:
        with spark_trickle.connect(
            self._folder / "lake", spark=self._spark, settings=self._settings
        ) as lake:
            yield lake

    def killed(self, point: str, work: Callable[[Lake], object]) -> None:
        """Do the work in a process that must die at the point."""

        def job() -> object:
            with self.open() as lake:
                return work(lake)

        left = forked(self._folder, job, crash_at=point).end()
        assert left is None, f"{point} was not reached: {left}"


SHORT = (
    "refresh-pinned",
    "refresh-query-sent",
    "refresh-computed",
    "refresh-before-commit",
    "refresh-recorded",
    *AFTER,
)
"""The points of a refresh itself; the others are of any commit."""


@pytest.fixture
def crashes(
    request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession
) -> Iterator[Crashes]:
    """A lake that keeps small changes in the catalog, or with the parameter ``files`` in files."""
    inline = 0 if getattr(request, "param", "") == "files" else 1_000
    # On Spark, so that every point is passed; those after the query are the same either way.
    settings = Settings(inline_row_limit=inline, inline_delete_limit=inline, local_rows=0)
    made = Crashes(tmp_path, spark, settings)
    with made.open() as lake:
        lake.sql("CREATE TABLE t (g INT, v INT)")
        lake.sql("INSERT INTO t VALUES (1, 1), (1, 2), (2, 5), (3, 3)")
        lake.spark.conf.get("spark.sql.session.timeZone")  # now it is prepared
    settings = dict(spark.conf.getAll)
    yield made
    # The killed processes shared this Spark, which does not die with them.
    assert dict(spark.conf.getAll) == settings


QUERIES = {
    "DIFFERENTIAL": "SELECT g, sum(v) AS s, count(*) AS n FROM t GROUP BY g",
    "FULL": "SELECT g, v, row_number() OVER (ORDER BY v, g) AS place FROM t",
    "TOPK": "SELECT g, v FROM t ORDER BY v DESC LIMIT 2",
}


@pytest.mark.parametrize(
    ("crashes", "mode", "points"),
    [
        ("inlined", "DIFFERENTIAL", (*BEFORE, *AFTER)),
        ("files", "DIFFERENTIAL", ("file-written", *SHORT)),
        ("inlined", "TOPK", SHORT),
        ("inlined", "FULL", SHORT),
    ],
    indirect=["crashes"],
)
def test_killed_during_a_refresh(crashes: Crashes, mode: str, points: tuple[str, ...]) -> None:
    asked = "FULL" if mode == "FULL" else "DIFFERENTIAL"
    with crashes.open() as lake:
        lake.create_stream_table("s", QUERIES[mode], refresh_mode=asked)
    for step, point in enumerate(points):
        with crashes.open() as lake:
            lake.sql(f"INSERT INTO t VALUES ({step % 3}, {100 + step})")
            lake.sql(f"DELETE FROM t WHERE v = {99 + step}")
            frontier, contents = lake._streams.get("s").frontier, rows(lake, "s")
        crashes.killed(point, lambda lake: lake.refresh_stream_table("s"))
        with crashes.open() as lake:
            moved = lake._streams.get("s").frontier != frontier
            assert moved == (point in AFTER), point
            if not moved:
                assert rows(lake, "s") == contents, point
            assert_exact(lake, "s")
            lake.remove_orphans(grace_seconds=0.0)
            report = lake.refresh_stream_table("s")
            again = "FULL" if asked == "FULL" else "NO_DATA"
            assert report.effective_mode == (again if moved else mode), (point, report)
            assert_exact(lake, "s")
            if asked == "DIFFERENTIAL":
                ran = [r.effective_mode for r in lake.refresh_history("s")]
                assert ran.count(mode) == step + 1, "every change was applied once"
    with crashes.open() as lake:
        assert (lake.sql("SELECT count(*) FROM t").first() or [0])[0] == 5


def test_killed_while_it_is_made_or_dropped(crashes: Crashes) -> None:
    query = "SELECT g FROM t WHERE v > (SELECT avg(v) FROM t)"  # keeps private state

    def create(lake: Lake) -> object:
        return lake.create_stream_table("s", query, refresh_mode="DIFFERENTIAL")

    def drop(lake: Lake) -> object:
        return lake.drop_stream_table("s", cascade=True)

    for point in (
        "refresh-computed",
        "locked",
        "first-table-written",
        "before-commit",
        "after-commit",
    ):
        crashes.killed(point, create)
        with crashes.open() as lake:
            there = {table.name for table in lake.stream_tables()}
            assert there == ({"s"} if point == "after-commit" else set()), point
            hidden = [t for t in lake._catalog.tables() if t.schema == "__trickle"]
            assert bool(hidden) == bool(there), "private state comes and goes with it"
            lake.remove_orphans(grace_seconds=0.0)
            if not there:
                create(lake)
            assert_exact(lake, "s")
            lake.create_stream_table("d", "SELECT count(*) AS n FROM s")
            assert_exact(lake, "d")
        if point in ("refresh-computed", "first-table-written"):  # a drop does neither
            point = "records-written"
        crashes.killed(point, drop)
        with crashes.open() as lake:
            names = {table.name for table in lake.stream_tables()}
            assert names == (set() if point == "after-commit" else {"s", "d"}), point
            if names:
                assert_exact(lake, "s", "d")
                drop(lake)
            assert {t.name for t in lake._catalog.tables()} == {"t"}


def test_killed_during_a_cascade(crashes: Crashes) -> None:
    with crashes.open() as lake:
        lake.create_stream_table("a", QUERIES["DIFFERENTIAL"], refresh_mode="DIFFERENTIAL")
        lake.create_stream_table("b", "SELECT s FROM a", refresh_mode="DIFFERENTIAL")
        lake.create_stream_table("c", "SELECT sum(s) AS s FROM b", refresh_mode="DIFFERENTIAL")
    for step, point in enumerate(("refresh-computed", "before-commit", "refresh-committed")):
        with crashes.open() as lake:
            lake.sql(f"UPDATE t SET v = v + {step + 1}")
        crashes.killed(point, lambda lake: lake.refresh_all())
        with crashes.open() as lake:
            assert_exact(lake, "a", "b", "c")
            for report in lake.refresh_all():
                expected = "NO_DATA" if point == "refresh-committed" else "DIFFERENTIAL"
                assert report.effective_mode == expected, (point, report)
            assert_exact(lake, "a", "b", "c")
            (total,) = rows(lake, "c")
            assert total == tuple(lake.sql("SELECT sum(v) FROM t").first() or ())
