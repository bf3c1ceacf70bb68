"""What the pages and the metrics are made of: the lake's records, read by few statements and no Spark."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from spark_trickle.errors import NotFoundError
from spark_trickle.lake import Lake
from spark_trickle.maintain.records.history import RefreshReport, Total, history, totals
from spark_trickle.maintain.records.streams import ERROR, SUSPENDED
from spark_trickle.maintain.schedule.lookout import Known
from spark_trickle.maintain.watch.alerts import LATE
from spark_trickle.maintain.watch.facts import Facts, Observed
from spark_trickle.maintain.watch.overview import looked_at, pending_rows

RECENT = 30
"""Refreshes that a sparkline shows."""
_FRESH_SECONDS = 1.0
"""Where nothing happened, only the clock moves: so old may a look be."""


@dataclass(frozen=True)
class Seen:
    """One stream table."""

    facts: Facts
    pending_rows: int | None
    seconds: tuple[float, ...]
    """Of the newest refreshes, the newest last."""

    @property
    def name(self) -> str:
        return self.facts.stream.name

    @property
    def state(self) -> str:
        return state_of(self.facts)


def state_of(facts: Facts) -> str:
    """One word for how it is, the worst first."""
    if facts.stream.status in (ERROR, SUSPENDED):
        return facts.stream.status
    if facts.lease.holder is not None:
        return "RUNNING"
    if facts.newest is not None and facts.newest.effective_mode == "ERROR":
        return "FAILING"
    if facts.target is not None and facts.staleness > LATE * facts.target:
        return "STALE"
    if not facts.stream.populated:
        return "EMPTY"
    return "WAITING" if facts.pending_versions else "FRESH"


class Sight:
    """Looks at one lake, for any number of threads."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.catalog = lake._catalog
        self._lock = threading.Lock()
        self._looked: tuple[tuple[Any, ...], float, Known, Observed] | None = None
        self._seconds: dict[str, tuple[float, tuple[float, ...]]] = {}

    @property
    def place(self) -> str:
        """What the lake is called; never with a password."""
        return self.catalog.database.name.removesuffix("/catalog.sqlite")

    def pulse(self) -> tuple[Any, ...]:
        """Equal as long as nothing happened; one or two statements, however many tables."""
        with self.catalog.reading() as connection:
            if not connection.has_table("trickle_total"):
                return connection.execute("SELECT max(snapshot_id) FROM ducklake_snapshot")[0]
            running = "0"
            if connection.has_table("trickle_lease"):
                running = "(SELECT count(holder) FROM trickle_lease)"
            return connection.execute(
                "SELECT (SELECT max(snapshot_id) FROM ducklake_snapshot), (SELECT sum(generation) "
                "+ count(*) FROM trickle_stream_table), (SELECT sum(refreshes) FROM trickle_total), "
                + running
            )[0]

    def look(self) -> tuple[Known, Observed]:
        """The newest state; one that is a second old at most, if nothing happened since."""
        pulse, now = self.pulse(), time.monotonic()
        with self._lock:
            if self._looked is not None and self._looked[0] == pulse:
                _, at, known, state = self._looked
                if now - at < _FRESH_SECONDS:
                    return known, state
            known, state = looked_at(self.catalog)
            self._looked = (pulse, now, known, state)
            return known, state

    def seen(self) -> list[Seen]:
        """Every stream table."""
        state = self.look()[1]
        recent = self._recent(state)
        return [
            Seen(facts, pending_rows(self.catalog, facts), recent[facts.stream.uuid])
            for facts in state.tables
        ]

    def facts(self, name: str) -> Facts:
        """Of one stream table; NotFoundError if there is none."""
        stream = self.lake._streams.get(name)
        for facts in self.look()[1].tables:
            if facts.stream.uuid == stream.uuid:
                return facts
        raise NotFoundError(f"stream table {name} was dropped or replaced meanwhile")

    def history(self, uuid: str, most: int) -> list[RefreshReport]:
        """Newest first."""
        with self.catalog.reading() as connection:
            return history(connection, uuid, most)

    def totals(self) -> list[Total]:
        with self.catalog.reading() as connection:
            return totals(connection)

    def _recent(self, state: Observed) -> dict[str, tuple[float, ...]]:
        """Seconds of the newest refreshes; read again only of those that had one since."""
        found = {}
        with self.catalog.reading() as connection:
            for facts in state.tables:
                uuid = facts.stream.uuid
                newest = facts.newest.started_at if facts.newest is not None else 0.0
                kept = self._seconds.get(uuid)
                if kept is None or kept[0] != newest:
                    reports = history(connection, uuid, RECENT) if facts.newest else []
                    kept = (newest, tuple(report.seconds for report in reversed(reports)))
                    self._seconds[uuid] = kept
                found[uuid] = kept[1]
        return found
