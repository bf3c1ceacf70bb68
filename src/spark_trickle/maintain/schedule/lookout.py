"""What the scheduler knows of the lake, from metadata alone and with few statements."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.schedule import leases as leasing
from spark_trickle.maintain.schedule import schedules
from spark_trickle.maintain.schedule.due import NEVER, Past, Planned
from spark_trickle.maintain.schedule.leases import Lease
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.catalog.structure import version_range
from spark_trickle.storage.commits import conflicts

_SIGNATURE = """SELECT (SELECT max(snapshot_id) FROM ducklake_snapshot),
    (SELECT count(*) FROM trickle_stream_table), (SELECT sum(generation) FROM trickle_stream_table),
    (SELECT sum(epoch + tries) FROM trickle_lease), (SELECT count(holder) FROM trickle_lease)"""
"""Anything that bears on a decision moves one of these; one statement, however many tables."""


@dataclass(frozen=True)
class Known:
    """Everything as of one version."""

    version: int = 0
    tables: tuple[StreamTable, ...] = ()
    planned: tuple[Planned, ...] = ()
    past: dict[str, Past] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """What the tables that are read are called now, by uuid."""


def planned(stream: StreamTable) -> Planned:
    return Planned(
        stream.uuid,
        stream.name,
        schedules.parsed(stream.schedule),
        tuple(source.uuid for source in stream.sources),
        stream.status,
        stream.refresh_mode == "IMMEDIATE",
    )


class Lookout:
    """Looks at one lake again and again, each time only at what is new."""

    def __init__(
        self,
        catalog: Catalog,
        restless: Callable[[StreamTable], bool] = lambda _: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._catalog = catalog
        self._restless = restless
        self._clock = clock
        self._changed: dict[int, int] = {}
        """By table id: the newest version that changed its rows or columns."""
        self._seen = -1
        """The version up to which ``_changed`` is complete."""
        self._tried: dict[str, tuple[int, float]] = {}
        """By stream table: attempts so far, and when the newest was, by our own clock."""

    def signature(self) -> tuple[Any, ...]:
        """Equal as long as nothing happened."""
        with self._catalog.reading() as connection:
            return connection.execute(_SIGNATURE)[0]

    def look(self) -> Known:
        with self._catalog.reading() as connection:
            oldest, version = version_range(connection)
            tables = records.load(connection)
            leases = leasing.load(connection)
            self._note_changes(connection, tables, version)
            self._note_attempts(connection, tables, leases)
            structure = self._catalog.structure_in(connection, version)
        ids = {table.uuid: table.id for table in structure.tables.values()}
        read = {source.uuid for stream in tables for source in stream.sources}
        names = {t.uuid: str(t) for t in structure.tables.values() if t.uuid in read}
        past = {}
        for stream in tables:
            lease = leases.get(stream.uuid, Lease(stream.uuid))
            counted = lease.generation == stream.generation
            past[stream.uuid] = Past(
                tried_at=self._tried[stream.uuid][1],
                seconds=lease.seconds,
                failures=lease.failures if counted else 0,
                changed=self._pending(stream, ids, oldest) or self._restless(stream),
                busy=lease.holder is not None,
            )
        return Known(version, tuple(tables), tuple(map(planned, tables)), past, leases, names)

    def note_attempt(self, uuid: str, at: float) -> None:
        """An attempt of our own, which we need not guess about."""
        tries = self._tried.get(uuid, (0, 0.0))[0]
        self._tried[uuid] = (tries + 1, at)

    def _pending(self, stream: StreamTable, ids: dict[str, int], oldest: int) -> bool:
        return not stream.populated or any(
            source.version < oldest
            or source.uuid not in ids
            or self._changed.get(ids[source.uuid], 0) > source.version
            for source in stream.sources
        )

    def _note_changes(
        self, connection: Connection, tables: Sequence[StreamTable], version: int
    ) -> None:
        frontiers = (source.version for table in tables for source in table.sources)
        since = self._seen if self._seen >= 0 else min(frontiers, default=version)
        for number, table in conflicts.moves(connection, since):
            self._changed[table] = max(number, self._changed.get(table, 0))
        self._seen = version if tables else -1

    def _note_attempts(
        self, connection: Connection, tables: Sequence[StreamTable], leases: dict[str, Lease]
    ) -> None:
        """When each was tried last; what others did, we date by when we heard of it."""
        now = self._clock()
        started: dict[str, float] = {}
        if any(table.uuid not in self._tried for table in tables):
            started = dict(
                connection.execute(
                    "SELECT stream_uuid, max(started_at) FROM trickle_refresh "
                    "WHERE effective_mode <> 'SKIPPED' GROUP BY stream_uuid"
                )
            )
        for table in tables:
            lease = leases.get(table.uuid, Lease(table.uuid))
            tries, at = self._tried.get(table.uuid, (None, -NEVER))
            if tries is None:
                at = started.get(table.uuid, -NEVER)
            elif lease.tries > tries:
                at = now - lease.seconds
            self._tried[table.uuid] = (lease.tries, min(at, now))
