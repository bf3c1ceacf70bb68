"""Sums over all refreshes that there ever were, by stream table and mode.

The history forgets; these do not, so that counters made of them only ever grow, whichever process
asks and however often it was started again. They are written with each line of the history.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_trickle.storage.versions.transaction import Connection

if TYPE_CHECKING:
    from spark_trickle.maintain.records.streams import RefreshReport

TABLE = """CREATE TABLE IF NOT EXISTS trickle_total (
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


def create(connection: Connection, so_far: Iterable[RefreshReport]) -> None:
    """Make the table, of a lake that is older than it with what its history still knows."""
    connection.execute(TABLE)
    for report in so_far:
        add(connection, report)


def add(connection: Connection, report: RefreshReport) -> None:
    connection.execute(_ADD, (report.name, report.effective_mode, *_values(report)))


def load(connection: Connection) -> list[Total]:
    if not connection.has_table("trickle_total"):
        return []
    rows = connection.execute(
        f"SELECT name, mode, {', '.join(_SUMS)} FROM trickle_total ORDER BY name, mode"
    )
    return [Total(*row) for row in rows]


def _values(report: RefreshReport) -> tuple[float, ...]:
    return (
        report.seconds,
        report.rows_inserted,
        report.rows_deleted,
        report.rows_read,
        report.bytes_read,
        report.spark_queries,
    )
