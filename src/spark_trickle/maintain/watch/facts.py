"""The state of every stream table at one moment, from metadata alone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.records.monitor import moment_of
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.schedule import leases as leasing
from spark_trickle.maintain.schedule.due import NEVER, lags, next_due
from spark_trickle.maintain.schedule.leases import Holder, Lease
from spark_trickle.maintain.schedule.lookout import Known
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.commits import conflicts


@dataclass(frozen=True)
class Facts:
    """One stream table."""

    stream: StreamTable
    lease: Lease
    target: float | None
    """The seconds by which its contents may be late, as schedules say."""
    next_due: float | None
    """When it may be refreshed next, if something changes until then."""
    staleness: float
    """Seconds for which a change of a source has been waiting."""
    pending_versions: int
    """Versions that changed a source since."""
    newest: RefreshReport | None
    """The newest line of its history."""


@dataclass(frozen=True)
class Observed:
    """The lake's stream tables, and who looks after them."""

    tables: tuple[Facts, ...]
    holders: tuple[Holder, ...]
    version: int

    @property
    def daemons(self) -> list[Holder]:
        return [holder for holder in self.holders if holder.daemon and not holder.gone]


def state(catalog: Catalog, known: Known) -> Observed:
    now = time.time()
    targets = lags(now, known.planned)
    due = next_due(now, known.planned, known.past)
    with catalog.reading() as connection:
        holders = leasing.holders(connection)
        newest = _newest(connection) if known.tables else {}
        moves = _moves(connection, known)
        times: dict[int, Any] = dict(
            connection.execute(
                "SELECT snapshot_id, snapshot_time FROM ducklake_snapshot WHERE snapshot_id >= ?",
                (min((number for number, _ in moves), default=known.version),),
            )
        )
        structure = catalog.structure_in(connection, known.version)
    uuids = {table.id: table.uuid for table in structure.tables.values()}
    found = []
    for stream in known.tables:
        frontier = {source.uuid: source.version for source in stream.sources}
        waiting = {
            number
            for number, table in moves
            if not stream.follows and number > frontier.get(uuids.get(table, ""), known.version)
        }
        at = due[stream.uuid]
        found.append(
            Facts(
                stream,
                known.leases.get(stream.uuid, Lease(stream.uuid)),
                targets[stream.uuid],
                None if at == NEVER else at,
                max(0.0, now - moment_of(times[min(waiting)])) if waiting else 0.0,
                len(waiting),
                newest.get(stream.uuid),
            )
        )
    return Observed(tuple(found), tuple(holders.values()), known.version)


def _moves(connection: Connection, known: Known) -> list[tuple[int, int]]:
    frontiers = (source.version for table in known.tables for source in table.sources)
    return conflicts.moves(connection, min(frontiers, default=known.version))


def _newest(connection: Connection) -> dict[str, RefreshReport]:
    if not connection.has_table("trickle_refresh"):
        return {}
    rows = connection.execute(
        "SELECT r.stream_uuid, r.report FROM trickle_refresh r JOIN (SELECT stream_uuid, "
        "max(started_at) AS at FROM trickle_refresh GROUP BY stream_uuid) n "
        "ON r.stream_uuid = n.stream_uuid AND r.started_at = n.at"
    )
    return {uuid: RefreshReport.from_json(text) for uuid, text in rows}
