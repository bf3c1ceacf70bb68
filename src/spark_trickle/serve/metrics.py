"""``/metrics`` for Prometheus. Counters are sums that the catalog keeps beside the history: they agree
with ``trickle.refresh_history``, survive restarts, and are the same whichever process is asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest

import spark_trickle
from spark_trickle.maintain.watch.alerts import CRITICAL, OK, WARNING, alerts, health
from spark_trickle.serve.sight import Seen

if TYPE_CHECKING:
    from spark_trickle.maintain.records.history import Total
    from spark_trickle.serve.sight import Sight

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OUTCOMES = {"ERROR": "error", "SKIPPED": "skipped"}
_SUMS = {
    "refresh_seconds": ("seconds", "Seconds that refreshes took"),
    "rows_inserted": ("rows_inserted", "Rows that refreshes inserted"),
    "rows_deleted": ("rows_deleted", "Rows that refreshes deleted"),
    "rows_read": ("rows_read", "Rows that refreshes read"),
    "bytes_read": ("bytes_read", "Bytes of the files that refreshes read"),
    "spark_queries": ("spark_queries", "Queries that refreshes sent to Spark"),
}
_STATUSES = ("ACTIVE", "SUSPENDED", "ERROR")


def exposition(sight: Sight) -> bytes:
    """The whole answer."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(sight))
    return generate_latest(registry)


class _Collector:
    def __init__(self, sight: Sight) -> None:
        self._sight = sight

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        yield from _counters(self._sight.totals())
        seen = self._sight.seen()
        yield from _gauges(seen)
        yield from _statuses(seen)
        yield from _lake(self._sight)


def outcome(mode: str) -> str:
    return _OUTCOMES.get(mode, "ok")


def _counters(totals: Iterable[Total]) -> Iterable[Metric]:
    totals = list(totals)
    labels = ("table", "mode", "outcome")
    refreshes = CounterMetricFamily(
        "trickle_refreshes",
        "Refreshes by the mode that really ran, and what came of it",
        None,
        labels,
    )
    for total in totals:
        values = (total.name, total.mode, outcome(total.mode))
        refreshes.add_metric(values, total.refreshes)
    yield refreshes
    for name, (attribute, help_) in _SUMS.items():
        family = CounterMetricFamily(f"trickle_{name}", help_, None, ("table", "mode"))
        for total in totals:
            family.add_metric((total.name, total.mode), getattr(total, attribute))
        yield family


def _gauges(seen: Iterable[Seen]) -> Iterable[Metric]:
    families: dict[str, GaugeMetricFamily] = {}

    def add(name: str, help_: str, table: str, value: float | None) -> None:
        known = families.get(name)
        if known is None:
            known = GaugeMetricFamily(f"trickle_{name}", help_, None, ("table",))
            families[name] = known
        if value is not None:
            known.add_metric((table,), value)

    for one in seen:
        facts, newest = one.facts, one.facts.newest
        add("staleness_seconds", "How long a change has been waiting", one.name, facts.staleness)
        add("target_seconds", "How late its schedule lets it be", one.name, facts.target)
        add("pending_rows", "Changed rows of its sources that wait", one.name, one.pending_rows)
        add("pending_versions", "Versions that wait", one.name, facts.pending_versions)
        add("running", "Whether it is being refreshed", one.name, facts.lease.holder is not None)
        add("failures_in_a_row", "Failures since a success", one.name, facts.lease.failures)
        seconds = newest.seconds if newest is not None else None
        add("last_refresh_seconds", "What the newest refresh took", one.name, seconds)
        at = newest.started_at if newest is not None else None
        add("last_refresh_timestamp_seconds", "When the newest refresh began", one.name, at)
    yield from families.values()


def _statuses(seen: Iterable[Seen]) -> Iterable[Metric]:
    labels = ("table", "status")
    family = GaugeMetricFamily("trickle_status", "1 for the status it has", None, labels)
    for one in seen:
        for status in _STATUSES:
            family.add_metric((one.name, status), one.facts.stream.status == status)
    yield family


def _lake(sight: Sight) -> Iterable[Metric]:
    state = sight.look()[1]
    info = GaugeMetricFamily("trickle_info", "This program", None, ("version",))
    info.add_metric((spark_trickle.__version__,), 1)
    yield info
    yield GaugeMetricFamily("trickle_stream_tables", "Stream tables", len(state.tables))
    yield GaugeMetricFamily("trickle_lake_version", "The newest version", state.version)
    yield GaugeMetricFamily("trickle_schedulers", "Schedulers seen", len(state.daemons))
    worst = (OK, WARNING, CRITICAL).index(health(state)[0].status)
    yield GaugeMetricFamily("trickle_health", "0 OK, 1 WARNING, 2 CRITICAL", worst)
    labels = ("table", "kind", "severity")
    told = GaugeMetricFamily("trickle_alert", "1 for each alert that is on", None, labels)
    for alert in alerts(state):
        told.add_metric((alert.name, alert.kind, alert.severity), 1)
    yield told
