"""Rows that a small statement deleted from files, kept in the catalog.

Law: a file's rows never change, so a kept row equals the row at its (file, position) for ever.
The change feed takes such rows from here instead of opening the file; what is not kept is read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.files import positions
from spark_trickle.storage.records import ROW_ID, ChangePlan, FileChange, Table
from spark_trickle.storage.versions.planning import conform, weighted

if TYPE_CHECKING:
    from spark_trickle.storage.versions.transaction import Transaction

TABLE = "trickle_deleted_rows"
FILE = "file"
POSITION = "position"
PACKED = 16
"""Rows that take more than so many times what may be kept are not packed: hardly any shrink so far."""


def remember(tx: Transaction, table: Table, deleted: pa.Table, most: int) -> None:
    """Keep rows that this transaction deletes: FILE, POSITION, ROW_ID and the table's columns.

    If they take more bytes than ``most``, packed, the change feed reads them from their files again:
    few rows that are scattered over a table are in all of its row groups.
    """
    # Rows of a file that the transaction itself staged were never in any version.
    deleted = deleted.filter(pc.greater_equal(deleted.column(FILE), 0))
    if table.id < 0 or not deleted.num_rows or deleted.nbytes > PACKED * most:
        return
    ids = [str(column.id) for column in table.columns]
    named = deleted.select([FILE, POSITION, ROW_ID, *(c.name for c in table.columns)])
    data = _packed(named.rename_columns([FILE, POSITION, ROW_ID, *ids]))
    if len(data) > most:
        return

    def keep(connection: Connection, version: int) -> None:
        if not connection.has_table(TABLE):
            kind = "BYTEA" if connection.kind == "postgres" else "BLOB"
            connection.execute(
                f"CREATE TABLE {TABLE} (table_id BIGINT, version BIGINT, deleted {kind})"
            )
            connection.execute(f"CREATE INDEX {TABLE}_window ON {TABLE} (table_id, version)")
        connection.execute(f"INSERT INTO {TABLE} VALUES (?, ?, ?)", (table.id, version, data))

    tx.record(keep)


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    # Small ones are not worth a frame around each column.
    codec = "zstd" if rows.nbytes > 1 << 14 else None
    with pa.ipc.new_stream(
        sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=codec)
    ) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue())


def resolve(connection: Connection, plan: ChangePlan) -> ChangePlan:
    """The plan with kept rows among its inlined ones instead of positions in files."""
    if not connection.has_table(TABLE):
        return plan
    found = connection.execute(
        f"SELECT deleted FROM {TABLE} WHERE table_id = ? AND version > ? AND version <= ?",
        (plan.table.id, plan.before, plan.after),
    )
    if not found:
        return plan
    parts = []
    for (data,) in found:
        rows = pa.ipc.open_stream(bytes(data)).read_all()
        parts.append((rows.column(FILE), rows.column(POSITION), _rows(rows, plan.table)))
    changes: list[FileChange] = []
    taken = [plan.inlined]
    for change in plan.files:
        left, gone = _split(change, parts)
        changes += left
        taken += [weighted(plan.table, [(rows, -1)]) for rows in gone]
    return replace(plan, files=tuple(changes), inlined=pa.concat_tables(taken))


_Part = tuple[pa.ChunkedArray, pa.ChunkedArray, pa.Table]


def _rows(kept: pa.Table, table: Table) -> pa.Table:
    return conform(kept, table.columns).append_column(ROW_ID, kept.column(ROW_ID))


def _split(change: FileChange, parts: list[_Part]) -> tuple[list[FileChange], list[pa.Table]]:
    """What must still be read of a change, and the kept rows of the rest."""
    if change.positions is None:
        return [change], []
    wanted, gone = change.positions, []
    for files, places, rows in parts:
        here = pc.and_(pc.equal(files, change.file.id), pc.is_in(places, value_set=wanted))
        if pc.any(here).as_py():
            gone.append(rows.filter(here))
            wanted = positions.minus(wanted, _sorted(places.filter(here)))
    left = [replace(change, rows=len(wanted), positions=wanted)] if len(wanted) else []
    return left, gone


def _sorted(places: pa.ChunkedArray) -> pa.Array:
    flat = places.combine_chunks()
    return flat.take(pc.sort_indices(flat))


def forget(connection: Connection, oldest: int) -> None:
    """Drop what no window from ``oldest`` on can ask for."""
    if connection.has_table(TABLE):
        connection.execute(f"DELETE FROM {TABLE} WHERE version <= ?", (oldest,))
