"""What refreshes say of themselves, and how long it is remembered.

Of each stream table the newest lines of the history are kept, and of each mode that computes something
what AUTO learns from. Sums over all refreshes that there ever were, by stream table and mode, forget
nothing, so that counters made of them only ever grow, whichever process asks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from spark_trickle.display import html_facts
from spark_trickle.maintain.watch import tracing
from spark_trickle.storage.versions.transaction import Connection


@dataclass(frozen=True)
class RefreshReport:
    """The truth about one refresh."""

    name: str
    effective_mode: str
    """FULL, DIFFERENTIAL, TOPK, NO_DATA: what really ran. ERROR or SKIPPED: nothing did."""
    reason: str
    """A stable code, a colon, and a sentence."""
    asked_mode: str = "AUTO"
    sources: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By source, as the query calls it: the version before and after."""
    clock: tuple[str | None, str] | None = None
    """Of temporal filters: the moment before and after; None before: there were no contents."""
    version: int = 0
    """The version this refresh committed."""
    rows_inserted: int = 0
    rows_deleted: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    delta_rows: Mapping[str, int] = field(default_factory=dict)
    """Changed rows by source."""
    source_rows: int = 0
    """Rows of all sources at the version after: what a full run has to read."""
    spark_queries: int = 0
    engine: str = "none"
    """Where it was computed: spark, local (in this process), or none where nothing was."""
    seconds: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds by phase."""
    started_at: float = field(default_factory=time.time)
    error: str | None = None
    refresh_id: str = field(default_factory=tracing.refresh_id)
    """What all lines of the log about it carry."""

    def __repr__(self) -> str:
        done = f"+{self.rows_inserted:,} -{self.rows_deleted:,} rows, {self.rows_read:,} read"
        return (
            f"RefreshReport({self.name}: {self.effective_mode}, {done}, {self.seconds:.2f} s, "
            f"version {self.version}; {self.reason})"
        )

    def _repr_html_(self) -> str:
        return html_facts(f"{self.name}: {self.effective_mode}", vars(self).items())

    @property
    def failed(self) -> bool:
        """Whether it should have run and did not; one that is suspended should not."""
        upstream = self.effective_mode == "SKIPPED" and self.reason.startswith("UPSTREAM_FAILED:")
        return self.effective_mode == "ERROR" or upstream

    def to_json(self) -> str:
        """All fields, as ``from_json`` reads them."""
        return json.dumps(vars(self))

    @classmethod
    def from_json(cls, text: str) -> RefreshReport:
        values = json.loads(text)
        values["sources"] = {name: tuple(pair) for name, pair in values["sources"].items()}
        values["clock"] = values.get("clock") and tuple(values["clock"])
        return cls(**{"refresh_id": "", **values})


_TOTALS = """CREATE TABLE IF NOT EXISTS trickle_total (
    name VARCHAR NOT NULL, mode VARCHAR NOT NULL, refreshes BIGINT NOT NULL,
    seconds DOUBLE PRECISION NOT NULL, rows_inserted BIGINT NOT NULL, rows_deleted BIGINT NOT NULL,
    rows_read BIGINT NOT NULL, bytes_read BIGINT NOT NULL, spark_queries BIGINT NOT NULL,
    PRIMARY KEY (name, mode))"""
_SUMS = [
    "refreshes",
    "seconds",
    "rows_inserted",
    "rows_deleted",
    "rows_read",
    "bytes_read",
    "spark_queries",
]
_ADD = (
    f"INSERT INTO trickle_total (name, mode, {', '.join(_SUMS)}) VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (name, mode) DO UPDATE SET "
    + ", ".join(f"{sum} = trickle_total.{sum} + excluded.{sum}" for sum in _SUMS)
)


@dataclass(frozen=True)
class Total:
    """Of all refreshes of one stream table that ran, or did not run, in one mode."""

    name: str
    mode: str
    """The effective one, as in the history: ERROR and SKIPPED, too."""
    refreshes: int = 0
    seconds: float = 0.0
    rows_inserted: int = 0
    rows_deleted: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    spark_queries: int = 0


def create_totals(connection: Connection, so_far: Iterable[RefreshReport]) -> None:
    """Make the table, of a lake that is older than it with what its history still knows."""
    connection.execute(_TOTALS)
    connection.execute_many(_ADD, [_total(report) for report in so_far])


def totals(connection: Connection) -> list[Total]:
    if not connection.has_table("trickle_total"):
        return []
    rows = connection.execute(
        f"SELECT name, mode, {', '.join(_SUMS)} FROM trickle_total ORDER BY name, mode"
    )
    return [Total(*row) for row in rows]


def _total(report: RefreshReport) -> tuple[str | float, ...]:
    return (
        report.name,
        report.effective_mode,
        report.seconds,
        report.rows_inserted,
        report.rows_deleted,
        report.rows_read,
        report.bytes_read,
        report.spark_queries,
    )


MEASURED = ("FULL", "DIFFERENTIAL", "TOPK")
"""The modes that compute something; how long they take is learnt from the history."""
MEASUREMENTS = 100
"""So many refreshes of each such mode are learnt from."""


_LOOKS = 100
"""A history is looked through about this often while it grows by as many lines as it may have."""
Refreshed = tuple[str, RefreshReport]
"""The uuid of a stream table, and what became of it."""


def add_history(connection: Connection, uuid: str, report: RefreshReport, keep: int) -> None:
    """Write down one refresh."""
    add_histories(connection, [(uuid, report)], keep)


def add_histories(connection: Connection, refreshed: Sequence[Refreshed], keep: int) -> None:
    """Write down refreshes, and forget of each stream table what is older than the newest ``keep``,
    or a few more of many: to count them at every commit would cost as much as to write.

    Measurements are spared: many idle refreshes must not make AUTO forget what it has learnt.
    """
    connection.execute_many(
        "INSERT INTO trickle_refresh VALUES (?, ?, ?, ?)",
        [(uuid, r.started_at, r.effective_mode, r.to_json()) for uuid, r in refreshed],
    )
    connection.execute_many(_ADD, [_total(report) for _, report in refreshed])
    for uuid, report in refreshed:
        if int(report.started_at * 1_000_000) % max(1, keep // _LOOKS) == 0:
            _forget(connection, uuid, keep)


def _forget(connection: Connection, uuid: str, keep: int) -> None:
    oldest = connection.execute(
        "SELECT started_at FROM trickle_refresh WHERE stream_uuid = ? "
        "ORDER BY started_at DESC LIMIT 1 OFFSET ?",
        (uuid, max(keep, 1) - 1),
    )
    if not oldest:
        return
    connection.execute(
        "DELETE FROM trickle_refresh WHERE stream_uuid = ? AND started_at < ? "
        "AND effective_mode NOT IN (?, ?, ?)",
        (uuid, *oldest[0], *MEASURED),
    )
    for mode in MEASURED:
        connection.execute(
            "DELETE FROM trickle_refresh WHERE stream_uuid = ? AND effective_mode = ? "
            "AND started_at < ? AND started_at < (SELECT started_at FROM trickle_refresh "
            "WHERE stream_uuid = ? AND effective_mode = ? ORDER BY started_at DESC LIMIT 1 OFFSET ?)",
            (uuid, mode, *oldest[0], uuid, mode, MEASUREMENTS - 1),
        )


def history(
    connection: Connection, uuid: str | None = None, most: int = 1_000
) -> list[RefreshReport]:
    """The newest refreshes, newest first, of one stream table or of all."""
    if not connection.has_table("trickle_refresh"):
        return []
    where = "WHERE stream_uuid = ?" if uuid else ""
    rows = connection.execute(
        f"SELECT report FROM trickle_refresh {where} ORDER BY started_at DESC LIMIT ?",
        [*([uuid] if uuid else []), most],
    )
    return [RefreshReport.from_json(report) for (report,) in rows]


def measured(connection: Connection, uuid: str, most: int = MEASUREMENTS) -> list[RefreshReport]:
    """The newest refreshes that computed something, newest first, and of each mode some at least.

    A mode that has not run for long is still known by what it took then.
    """
    found = []
    for mode in MEASURED:
        found += connection.execute(
            "SELECT report FROM trickle_refresh WHERE stream_uuid = ? AND effective_mode = ? "
            "ORDER BY started_at DESC LIMIT ?",
            (uuid, mode, most),
        )
    reports = [RefreshReport.from_json(report) for (report,) in found]
    return sorted(reports, key=lambda report: -report.started_at)
