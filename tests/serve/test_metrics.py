"""/metrics, /health and /ready, without Spark: figures agree with the history and survive all."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

import spark_trickle
from spark_trickle import Lake
from spark_trickle.maintain.records.history import RefreshReport
from support.served import SUMS, figures, make, refreshed, samples, serving

MODES = ("FULL", "DIFFERENTIAL", "TOPK", "FAST_PATH", "NO_DATA", "ERROR", "SKIPPED")
HOSTILE = 'a "b" \\ <script>\nc'


def some(name: str, number: int, rng: random.Random) -> RefreshReport:
    mode = rng.choice(MODES)
    return RefreshReport(
        name,
        mode,
        "SOME: reason",
        rows_inserted=rng.randrange(100),
        rows_deleted=rng.randrange(100),
        rows_read=rng.randrange(1000),
        bytes_read=rng.randrange(1 << 40),
        spark_queries=rng.randrange(5),
        seconds=rng.random(),
        started_at=1e9 + number,
    )


def test_counters_agree_with_the_history_of_any_names(dry_lake: Lake) -> None:
    rng = random.Random(7)
    streams = make(dry_lake, ["plain", HOSTILE])
    for number in range(50):
        stream = rng.choice(streams)
        refreshed(dry_lake, stream, some(stream.name, number, rng))
    history = dry_lake.refresh_history()
    assert len(history) == 50
    with serving(dry_lake) as client:
        expected = Counter((r.name, r.effective_mode) for r in history)
        assert figures(client, "trickle_refreshes_total") == expected
        for name, attribute in SUMS.items():
            for key, value in figures(client, name).items():
                own = [r for r in history if (r.name, r.effective_mode) == key]
                assert value == pytest.approx(sum(getattr(r, attribute) for r in own)), name
        outcomes = Counter[str]()
        for (name, labels), value in samples(client).items():
            if name == "trickle_refreshes_total":
                outcomes[dict(labels)["outcome"]] += int(value)
        assert outcomes["error"] == sum(r.effective_mode == "ERROR" for r in history)
        assert outcomes["skipped"] == sum(r.effective_mode == "SKIPPED" for r in history)
        assert outcomes.total() == 50


def test_counters_do_not_forget_what_the_history_does(tmp_path: Path) -> None:
    with spark_trickle.connect(tmp_path / "lake") as lake:
        (stream,) = make(lake, ["s"])
        for number in range(30):
            report = RefreshReport("s", "NO_DATA", "NO_CHANGES:", started_at=1e9 + number)
            refreshed(lake, stream, report, keep=10)
        assert len(lake.refresh_history("s")) == 10
    with spark_trickle.connect(tmp_path / "lake") as lake, serving(lake) as client:
        assert figures(client, "trickle_refreshes_total") == {("s", "NO_DATA"): 30}


def test_a_lake_older_than_the_counters_begins_with_its_history(tmp_path: Path) -> None:
    with spark_trickle.connect(tmp_path / "lake") as lake:
        (stream,) = make(lake, ["s"])
        refreshed(lake, stream, *(RefreshReport("s", "FULL", "", seconds=0.5) for _ in range(3)))
        with lake._catalog.writing() as connection:
            connection.execute("DROP TABLE trickle_total")
    with spark_trickle.connect(tmp_path / "lake") as lake:
        lake.stream_tables()
        refreshed(lake, stream, RefreshReport("s", "FULL", "", seconds=0.5))
        with serving(lake) as client:
            assert figures(client, "trickle_refreshes_total") == {("s", "FULL"): 4}
            assert figures(client, "trickle_refresh_seconds_total") == {("s", "FULL"): 2.0}


def test_staleness_pending_and_state(dry_lake: Lake) -> None:
    make(dry_lake, ["late"])
    make(dry_lake, ["stopped"], status="SUSPENDED", last_error="it failed")
    with serving(dry_lake) as client:
        assert figures(client, "trickle_pending_versions") == {("late",): 1, ("stopped",): 0}
        dry_lake.sql("INSERT INTO base VALUES (2), (3)")
        assert figures(client, "trickle_pending_rows") == {("late",): 3, ("stopped",): 2}
        assert figures(client, "trickle_staleness_seconds")[("late",)] > 0
        assert figures(client, "trickle_target_seconds") == {("late",): 60, ("stopped",): 60}
        now = samples(client)
        status = frozenset({("table", "stopped"), ("status", "SUSPENDED")})
        assert now["trickle_status", status] == 1
        assert now["trickle_health", frozenset()] == 2
        assert now["trickle_stream_tables", frozenset()] == 2


def test_health_and_ready(dry_lake: Lake) -> None:
    with serving(dry_lake) as client:
        well = client.get("/health")
        assert (well.code, json.loads(well.text)["status"]) == (200, "OK")
        assert json.loads(client.get("/ready").text) == {"ready": True, "version": 0}
        make(dry_lake, ["s"], status="ERROR", last_error="a breach")
        ill = client.get("/health")
        assert (ill.code, json.loads(ill.text)["status"]) == (503, "CRITICAL")
        assert "a breach" in ill.text
        assert client.get("/ready").code == 200, "it answers: that is what probes ask"
        dry_lake._catalog.version = _broken  # type: ignore[method-assign]
        assert client.get("/ready").code == 503


def _broken() -> int:
    raise spark_trickle.errors.CatalogError("the catalog is gone")
