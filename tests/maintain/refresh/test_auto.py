"""AUTO at work: what a delta has to read, and one that takes too long is cancelled for a full run."""

from __future__ import annotations

import time

import pytest

from spark_trickle import Lake
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.refresh import strategy
from spark_trickle.maintain.refresh.compute import Computation
from spark_trickle.maintain.refresh.job import Choice
from support.streams import assert_exact, refreshed

pytestmark = pytest.mark.spark

SALES = (
    "SELECT d.name, sum(f.v) AS s, count(*) AS n FROM facts f JOIN dims d ON f.d = d.d "
    "GROUP BY d.name"
)
ENDLESS = "SELECT count(*) AS c FROM range(4000000) a JOIN range(4000000) b ON a.id % 3 = b.id % 3"


@pytest.fixture
def star(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE facts (id BIGINT, d BIGINT, v BIGINT)")
    lake.sql("CREATE TABLE dims (d BIGINT, name STRING)")
    lake.sql("INSERT INTO facts SELECT id, id % 5, id FROM range(20000)")
    lake.sql("INSERT INTO dims SELECT id, CAST(id AS STRING) FROM range(2000)")
    lake.create_stream_table("sales", SALES)
    return lake


def test_a_dimension_has_more_to_read_than_facts(star: Lake) -> None:
    def share() -> float | None:
        refresher = star._streams._refresher
        stream = star._streams.get("sales")
        compiled = refresher.compile(stream)
        pinned = refresher._pin(stream, compiled, "AUTO", star.version)
        return strategy.share_read(compiled, pinned, star._catalog.distinct.known)

    assert share() is None, "nothing changed"
    star.sql("INSERT INTO facts VALUES (-1, 1, 7)")
    facts = share()
    star.refresh_stream_table("sales")
    star.sql("UPDATE dims SET name = 'other' WHERE d = 3")
    dimension = share()
    assert facts is not None
    assert dimension is not None
    assert facts < 0.01 < dimension < 0.5, "a fifth of the facts has the changed key"
    assert_exact(star, "sales")


def test_a_delta_past_its_budget_is_cancelled_and_a_full_run_recorded(
    star: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Computation.differential

    def endless(self: Computation) -> None:
        work(self)  # what it staged must be forgotten
        self.run.fetch(ENDLESS, 1)

    def choose(*_: object) -> Choice:
        return Choice("DIFFERENTIAL", "CHEAPER", "so it seemed", budget=2.0)

    monkeypatch.setattr(strategy, "choose", choose)
    monkeypatch.setattr(Computation, "differential", endless)
    star.sql("INSERT INTO facts VALUES (-1, 1, 7)")
    star.sql("DELETE FROM facts WHERE id = 12")
    began = time.monotonic()
    report = refreshed(star, "sales", "FULL")
    assert time.monotonic() - began < 60, "its job was cancelled"
    assert report.reason.startswith("OVERRUN: the delta was cancelled after 2.0 s")
    assert report.phases["cancelled"] >= 2.0
    monkeypatch.undo()
    star.sql("INSERT INTO facts VALUES (-2, 1, 7)")
    refreshed(star, "sales", "DIFFERENTIAL", "FULL")
    told: RefreshReport = star.refresh_history("sales")[1]
    assert (told.effective_mode, told.phases) == ("FULL", report.phases)


def test_an_error_within_the_budget_is_an_error(
    star: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose(*_: object) -> Choice:
        return Choice("DIFFERENTIAL", "CHEAPER", "so it seemed", budget=60.0)

    def fails(self: Computation) -> None:
        self.run.fetch("SELECT raise_error('no')", 1)

    monkeypatch.setattr(strategy, "choose", choose)
    monkeypatch.setattr(Computation, "differential", fails)
    star.sql("INSERT INTO facts VALUES (-1, 1, 7)")
    with pytest.raises(Exception, match="no"):
        star.refresh_stream_table("sales")
