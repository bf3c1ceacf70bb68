"""Batches of rows that were appended once: their ids, so that none is applied a second time."""

from __future__ import annotations

from spark_trickle.errors import CommitConflictError
from spark_trickle.storage.commits.commit import Record
from spark_trickle.storage.records import Table
from spark_trickle.storage.versions.transaction import Connection

TABLE = """CREATE TABLE IF NOT EXISTS trickle_batch (
  table_uuid VARCHAR NOT NULL, batch VARCHAR NOT NULL, version BIGINT NOT NULL,
  PRIMARY KEY (table_uuid, batch))"""


def applied(connection: Connection, table: Table, batch: str) -> bool:
    """Whether the batch was committed into the table before."""
    return connection.has_table("trickle_batch") and bool(
        connection.execute(
            "SELECT 1 FROM trickle_batch WHERE table_uuid = ? AND batch = ?", (table.uuid, batch)
        )
    )


def recorder(table: Table, batch: str) -> Record:
    """Remembers the batch in the commit of its rows; a conflict if somebody was faster."""

    def record(connection: Connection, version: int) -> None:
        connection.execute(TABLE)
        if applied(connection, table, batch):
            raise CommitConflictError(f"batch {batch} of {table} was committed meanwhile")
        connection.execute(
            "INSERT INTO trickle_batch VALUES (?, ?, ?)", (table.uuid, batch, version)
        )

    return record
