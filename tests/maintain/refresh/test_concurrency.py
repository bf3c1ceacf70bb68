"""Several processes and threads at once: right contents, one winner or a clean conflict."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_trickle
from spark_trickle import Lake
from spark_trickle.errors import (
    BindError,
    CommitConflictError,
    DependencyError,
    NotFoundError,
    TransientError,
)
from spark_trickle.maintain.refresh.compute import Computation
from spark_trickle.spark.sessions.desks import Desks
from spark_trickle.spark.sessions.facts import Meaning, facts_of
from support.forks import forked
from support.streams import assert_exact, refreshed, rows

pytestmark = pytest.mark.spark

SUMMED = "SELECT g, sum(v) AS s, count(*) AS n FROM t GROUP BY g"


@pytest.fixture
def small(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE t (g INT, v INT)")
    lake.sql("INSERT INTO t VALUES (1, 1), (1, 2), (2, 5)")
    return lake


@pytest.fixture
def elsewhere(tmp_path: Path, spark: SparkSession) -> Callable[[Callable[[Lake], object]], object]:
    """Start work on the lake in another process."""

    def start(work: Callable[[Lake], object]) -> object:
        def job() -> object:
            with spark_trickle.connect(tmp_path / "lake", spark=spark) as lake:
                return work(lake)

        return forked(tmp_path, job)

    return start


def refresh_often(times: int) -> Callable[[Lake], str]:
    """Refresh again and again; how often each mode ran, conflicts counted."""

    def work(lake: Lake) -> str:
        seen = []
        for _ in range(times):
            try:
                seen.append(lake.refresh_stream_table("s").effective_mode)
            except CommitConflictError:
                seen.append("CONFLICT")
        return " ".join(seen)

    return work


def test_two_processes_refresh_one_stream_table(small: Lake, elsewhere) -> None:
    small.create_stream_table("s", SUMMED, refresh_mode="DIFFERENTIAL")
    changes = 3
    for step in range(changes):
        small.sql(f"INSERT INTO t VALUES (1, {step}), (3, 1)")
        workers = [elsewhere(refresh_often(2)) for _ in range(2)]
        ran = [worker.end() for worker in workers]
        assert all(found and "Traceback" not in found for found in ran), ran
        modes = " ".join(map(str, ran)).split()
        assert set(modes) <= {"DIFFERENTIAL", "NO_DATA", "CONFLICT"}, modes
        assert modes.count("DIFFERENTIAL") == 1, f"one winner: {modes}"
        assert_exact(small, "s")
    assert rows(small, "s") == [(1, 6, 5), (2, 5, 1), (3, 3, 3)]
    history = [report.effective_mode for report in small.refresh_history("s")]
    assert history.count("DIFFERENTIAL") == changes


def test_one_process_refreshes_while_another_writes(small: Lake, elsewhere) -> None:
    small.create_stream_table("s", SUMMED, refresh_mode="DIFFERENTIAL")
    small.create_stream_table(
        "top", "SELECT g, v FROM t ORDER BY v DESC LIMIT 2", refresh_mode="DIFFERENTIAL"
    )

    def write(lake: Lake) -> str:
        for step in range(8):
            lake.sql(f"INSERT INTO t VALUES (1, {step}), (4, {step})")
            lake.sql(f"DELETE FROM t WHERE g = 4 AND v < {step}")
        return "written"

    writer = elsewhere(write)
    seen = set()
    for _ in range(4):
        for report in small.refresh_all():
            seen.add(report.effective_mode)
        assert_exact(small, "s", "top")
    assert writer.end() == "written"
    assert seen <= {"DIFFERENTIAL", "TOPK", "NO_DATA"}, seen
    small.refresh_all()
    assert rows(small, "s") == [(1, 31, 10), (2, 5, 1), (4, 7, 1)]
    assert_exact(small, "s", "top")


def test_the_loser_of_a_race_begins_again(small: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else refreshes between the computation and the commit: nothing comes twice."""
    small.create_stream_table("s", SUMMED, refresh_mode="DIFFERENTIAL")
    small.sql("INSERT INTO t VALUES (1, 10)")
    work = Computation.differential
    raced = []

    def with_a_rival(self: Computation) -> None:
        work(self)
        if not raced:
            raced.append(True)
            assert small.refresh_stream_table("s").effective_mode == "DIFFERENTIAL"

    monkeypatch.setattr(Computation, "differential", with_a_rival)
    report = small.refresh_stream_table("s")
    assert raced
    assert report.effective_mode == "NO_DATA"
    assert rows(small, "s") == [(1, 13, 3), (2, 5, 1)]
    assert_exact(small, "s")


def test_an_endless_rival_ends_in_a_clean_conflict(
    small: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.create_stream_table("s", SUMMED, refresh_mode="DIFFERENTIAL")
    small.sql("INSERT INTO t VALUES (1, 10)")
    streams = small._streams
    work = Computation.differential

    def with_a_rival(self: Computation) -> None:
        work(self)
        streams.alter("s", schedule="1m")

    monkeypatch.setattr(Computation, "differential", with_a_rival)
    with pytest.raises(CommitConflictError, match="s was refreshed or changed") as caught:
        small.refresh_stream_table("s")
    assert isinstance(caught.value, TransientError)
    monkeypatch.undo()
    refreshed(small, "s", "DIFFERENTIAL")


def test_a_source_dropped_while_a_stream_table_is_made(
    small: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Computation.full

    def with_a_rival(self: Computation) -> None:
        work(self)
        small.sql("DROP TABLE t")

    monkeypatch.setattr(Computation, "full", with_a_rival)
    with pytest.raises(BindError, match="unknown table t"):  # tried again, it is not there
        small.create_stream_table("s", SUMMED)
    assert small.stream_tables() == []
    assert small.tables() == []


def test_a_reader_made_while_its_source_is_dropped(
    small: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DROP looks for readers again inside its commit."""
    small.create_stream_table("s", SUMMED)
    streams = small._streams
    before = streams.all()
    small.create_stream_table("reader", "SELECT s FROM s")
    monkeypatch.setattr(streams, "all", lambda: before)
    with pytest.raises(CommitConflictError, match="reader"):
        streams.drop("s")
    monkeypatch.setattr(streams, "all", list)
    for statement in ("DROP TABLE t", "ALTER TABLE t DROP COLUMN v"):
        with pytest.raises(DependencyError, match="stream tables s read it"):
            small.sql(statement)
    monkeypatch.undo()
    assert_exact(small, "s", "reader")


def test_two_make_the_same_stream_table(small: Lake, elsewhere) -> None:
    def create(lake: Lake) -> str:
        try:
            lake.create_stream_table("s", SUMMED)
        except (CommitConflictError, spark_trickle.errors.AlreadyExistsError) as error:
            return type(error).__name__
        return "made"

    answers = [worker.end() for worker in [elsewhere(create) for _ in range(2)]]
    assert sorted(map(str, answers))[-1] == "made", answers
    assert answers.count("made") == 1, answers
    assert_exact(small, "s")


def test_refresh_all_in_threads_of_one_process(small: Lake) -> None:
    """Many siblings, and two callers of refresh_all at once."""
    names = [f"s{number}" for number in range(6)]
    for number, name in enumerate(names):
        small.create_stream_table(
            name,
            f"SELECT g, sum(v + {number}) AS s FROM t GROUP BY g",
            refresh_mode="DIFFERENTIAL",
        )
    small.create_stream_table(
        "joined",
        "SELECT a.g, a.s + b.s AS s FROM s0 a JOIN s5 b ON a.g = b.g",
        refresh_mode="DIFFERENTIAL",
    )
    small.sql("INSERT INTO t VALUES (1, 10), (5, 5)")
    found: list[list[str]] = []

    def all_of_it() -> None:
        found.append([report.effective_mode for report in small.refresh_all()])

    threads = [threading.Thread(target=all_of_it) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    for modes in found:
        assert set(modes) <= {"DIFFERENTIAL", "NO_DATA"}, found
    assert_exact(small, *names)
    small.refresh_all()
    assert_exact(small, *names, "joined")
    for name in names:
        history = [report.effective_mode for report in small.refresh_history(name)]
        assert history.count("DIFFERENTIAL") == 1, "applied once"


def test_every_run_has_settings_of_its_own(small: Lake, spark: SparkSession) -> None:
    """A full run beside a tiny one re-plans and compiles; the user's session notices neither."""
    desks = Desks(small._engine.holder)
    meaning = Meaning(facts_of(spark))
    before = dict(spark.conf.getAll)
    keys = "spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage"

    def found(pace: str) -> list[str | None]:
        conf = desks.desk(meaning, pace).spark.conf
        return [conf.get(key) for key in keys]

    with ThreadPoolExecutor(4) as pool:
        tiny, full, quick, usual = pool.map(found, ("tiny", "usual", "quick", "usual"))
    assert (tiny, quick) == (["false", "false"], ["false", "true"])
    assert full == usual == [spark.conf.get(key) for key in keys] == ["true", "true"]
    assert dict(spark.conf.getAll) == before
    assert desks.desk(meaning, "tiny").spark is desks.desk(meaning, "tiny").spark


def test_the_pace_follows_from_the_bytes(small: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """How large queries run is for those to say who brought the session."""
    desks = Desks(small._engine.holder)
    sizes = 1 << 10, 1 << 26, 1 << 30
    assert [desks.pace(size) for size in sizes] == ["quick", "usual", "usual"]
    monkeypatch.setattr(small._engine.holder, "owned", True)
    assert [desks.pace(size) for size in sizes] == ["quick", "usual", "large"]


def test_a_stale_record_is_never_written_back(small: Lake) -> None:
    """RENAME and DROP of what somebody else changed meanwhile."""
    small.create_stream_table("s", SUMMED, refresh_mode="DIFFERENTIAL")
    streams = small._streams
    stale = streams.get("s")
    small.sql("INSERT INTO t VALUES (1, 10)")
    refreshed(small, "s", "DIFFERENTIAL")
    renamed = spark_trickle.storage.records.TableName.of("z")
    with pytest.raises(CommitConflictError), small._catalog.begin() as tx:
        streams._definer.rename(stale, renamed, tx)
    refreshed(small, "s", "NO_DATA")
    small.drop_stream_table("s")
    with pytest.raises(NotFoundError), small._catalog.begin() as tx:
        streams._definer.rename(replace(stale, generation=9), renamed, tx)
    assert small.stream_tables() == []
