"""Housekeeping by policy, in the scheduler's loop: one process of all does it at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from spark_trickle.execute.engine import Engine
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.needed import needed
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.schedule.due import NEVER
from spark_trickle.maintain.schedule.lookout import Known
from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.upkeep import maintenance

UPKEEP = "upkeep"
"""The name of its lease."""


@dataclass
class Upkeep:
    """Knows when it was done last, by whomever, as seen by our own clock."""

    engine: Engine
    reconcile: Callable[[StreamTable], bool] = lambda _: True
    """Whether a stream table that commits fold into is what its query says; if not, it was told so."""
    _tries: int | None = None
    _at: float = -NEVER
    _reconciled: dict[str, float] = field(default_factory=dict)
    """When each was verified last, or first seen."""

    @property
    def overdue(self) -> bool:
        every = self.engine.settings.upkeep_seconds
        return every > 0 and time.monotonic() - self._at >= every

    def due(self, tries: int) -> bool:
        """Given how often it has been done so far."""
        if self._tries != tries:
            # Of what was done before we came nothing is known: wait a whole interval.
            self._at, self._tries = time.monotonic(), tries
        return self.overdue

    def run(self, known: Known) -> dict[str, int]:
        """Compact, move idle frontiers, forget old versions, remove orphans; how many of each."""
        catalog = self.engine.catalog
        # Rows that live in the catalog are flushed into files by the same step.
        executors = self.engine.executors
        done = [maintenance.compact(catalog, t, executors=executors) for t in catalog.tables()]
        compacted = sum(result != maintenance.Compacted(result.version) for result in done)
        with catalog.writing() as connection:
            moved = _move_frontiers(connection, known)
            streams = records.load(connection)
        keep_from = min((n.version for n in needed(catalog, streams)), default=None)
        oldest = maintenance.expire(catalog, keep_from=keep_from)
        with catalog.writing() as connection:
            connection.execute(
                "DELETE FROM trickle_lease WHERE holder IS NULL AND stream_uuid <> ? AND "
                "stream_uuid NOT IN (SELECT uuid FROM trickle_stream_table)",
                (UPKEEP,),
            )
        orphans = maintenance.remove_orphans(catalog)
        wrong = sum(not self.reconcile(stream) for stream in self._to_reconcile(streams))
        found = {"compacted": compacted, "moved": moved, "oldest": oldest, "orphans": orphans}
        return {**found, "wrong": wrong}

    def _to_reconcile(self, streams: Sequence[StreamTable]) -> list[StreamTable]:
        """Those that are folded into and whose time has come; one seen first waits a whole interval."""
        every, now = self.engine.settings.reconcile_seconds, time.monotonic()
        folded = [s for s in streams if s.follows or (s.fast_path and s.populated)]
        due = [s for s in folded if now - self._reconciled.setdefault(s.uuid, now) >= every > 0]
        self._reconciled |= {stream.uuid: now for stream in due}
        return due


def _move_frontiers(connection: Connection, known: Known) -> int:
    """Where metadata shows that no source changed: an idle frontier would keep old versions alive."""
    now = {table.uuid: table for table in records.load(connection)}
    late = [
        t
        for t in known.tables
        if not known.past[t.uuid].changed
        and now.get(t.uuid) == t
        and any(s.version < known.version for s in t.sources)
    ]
    for stream in late:
        sources = tuple(replace(s, version=max(s.version, known.version)) for s in stream.sources)
        records.save(connection, replace(stream, sources=sources))
    return len(late)
