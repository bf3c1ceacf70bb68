"""One id through all that is told of a refresh: lines, report, spans; without Spark."""

from __future__ import annotations

import json
import logging
import threading

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spark_trickle import Lake
from spark_trickle.cli.logs import JsonLines
from spark_trickle.errors import TrickleError
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.watch import tracing
from support.served import make


@pytest.fixture
def stream(dry_lake: Lake) -> records.StreamTable:
    """A stream table whose newest refresh is of now: the next one finds no change."""
    (made,) = make(dry_lake, ["s"])
    with dry_lake._catalog.writing() as connection:
        records.save(connection, made.at(dry_lake.version))
    return made


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [record.event for record in caplog.records if hasattr(record, "event")]


def test_all_lines_of_a_refresh_and_its_report_have_one_id(
    dry_lake: Lake, stream: records.StreamTable, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "spark_trickle")
    first = dry_lake.refresh_stream_table("s")
    told = lines(caplog)
    assert first.effective_mode == "NO_DATA"
    assert {"phase", "refreshed"} <= {line["event"] for line in told}
    assert {line["refresh_id"] for line in told} == {first.refresh_id}
    assert first.refresh_id
    assert dry_lake.refresh_history("s")[0] == first, "the history knows it too"
    caplog.clear()
    (second,) = dry_lake.refresh_all()
    assert {line["refresh_id"] for line in lines(caplog)} == {second.refresh_id}
    assert second.refresh_id != first.refresh_id
    assert tracing.refresh_id() == ""


def test_the_scheduler_tells_of_a_refresh_under_its_id(
    dry_lake: Lake, stream: records.StreamTable, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "spark_trickle")
    with dry_lake._catalog.begin() as tx:  # past the guard: the refresh fails
        tx.drop_table(tx.table("base"))
    (report,) = dry_lake.scheduler().once()
    assert report.effective_mode == "ERROR"
    told = [
        line for line in lines(caplog) if line["event"] in ("failed", "suspended", "not refreshed")
    ]
    assert len(told) == 3
    ids = {line["refresh_id"] for line in told}
    assert ids == {report.refresh_id} == {dry_lake.refresh_history("s")[0].refresh_id}


def test_json_lines_carry_the_id_whoever_logs() -> None:
    plain = logging.LogRecord("spark_trickle.x", logging.INFO, "", 1, "words %s", ("w",), None)
    with tracing.refreshing("t"):
        told = json.loads(JsonLines().format(plain))
        assert told["refresh_id"] == tracing.refresh_id()
        assert told["message"] == "words w"
        seen: list[str] = []
        thread = threading.Thread(target=lambda: seen.append(tracing.refresh_id()))
        thread.start()
        thread.join()
        assert seen == [""], "what another thread does is another refresh"
    assert "refresh_id" not in json.loads(JsonLines().format(plain))


def test_reports_of_before_have_no_id() -> None:
    values = json.loads(RefreshReport("t", "FULL", "").to_json())
    del values["refresh_id"]
    with tracing.refreshing("t"):
        assert RefreshReport.from_json(json.dumps(values)).refresh_id == ""
        assert RefreshReport("t", "FULL", "").refresh_id == tracing.refresh_id()


def test_spans(dry_lake: Lake, stream: records.StreamTable) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    report = dry_lake.refresh_stream_table("s")
    spans = {span.name: span for span in exporter.get_finished_spans()}
    whole = spans["trickle.refresh"]
    assert whole.attributes is not None
    assert whole.attributes["trickle.table"] == "s"
    assert whole.attributes["trickle.refresh_id"] == report.refresh_id
    assert whole.attributes["trickle.mode"] == "NO_DATA"
    assert {f"trickle.{phase}" for phase in report.phases} == spans.keys() - {"trickle.refresh"}
    for name in report.phases:
        part = spans[f"trickle.{name}"]
        assert part.parent is not None
        assert part.parent.span_id == whole.context.span_id
    exporter.clear()
    with dry_lake._catalog.begin() as tx:
        tx.drop_table(tx.table("base"))
    with pytest.raises(TrickleError):
        dry_lake.refresh_stream_table("s")
    (failed,) = exporter.get_finished_spans()
    assert failed.status.status_code is trace.StatusCode.ERROR
