"""Whether somebody else wrote the tables of a stream table: its result or its private state.

Law: their rows are changed by its own commits only. The last of these is written down with it, or is a
version that the frontier names, where sources and stream table were committed together. Any later change
is a breach, however well the rows seem to fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from spark_trickle.errors import InvariantError, NotFoundError
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.catalog.database import in_parts
from spark_trickle.storage.commits import conflicts
from spark_trickle.storage.records import Table
from spark_trickle.storage.versions.transaction import Connection

_TABLE = """CREATE TABLE IF NOT EXISTS trickle_written (
  stream_uuid VARCHAR PRIMARY KEY, version BIGINT NOT NULL)"""


def wrote(connection: Connection, uuids: Iterable[str], version: int) -> None:
    """Note that a commit of their own writes the tables of these stream tables."""
    rows = [(uuid, version) for uuid in uuids]
    if not rows:
        return
    if not connection.has_table("trickle_written"):
        connection.execute(_TABLE)
    connection.execute_many(
        "INSERT INTO trickle_written VALUES (?, ?) "
        "ON CONFLICT (stream_uuid) DO UPDATE SET version = excluded.version",
        rows,
    )


def gone(connection: Connection, uuid: str) -> None:
    """Forget one that is no more."""
    if connection.has_table("trickle_written"):
        connection.execute("DELETE FROM trickle_written WHERE stream_uuid = ?", (uuid,))


def younger(connection: Connection, uuids: Iterable[str], version: int) -> set[str]:
    """Those that were made, refreshed or repaired after a version: what they held then is not known
    to have been what their queries gave. Commits that they follow do not count."""
    if not connection.has_table("trickle_written"):
        return set()
    later = "SELECT stream_uuid FROM trickle_written WHERE version > ?"
    return {uuid for (uuid,) in connection.execute(later, (version,))}.intersection(uuids)


def breaches(
    connection: Connection,
    catalog: Catalog,
    streams: Sequence[StreamTable],
    tables_of: Callable[[StreamTable], Iterable[Table]],
) -> dict[str, InvariantError]:
    """Of stream tables that somebody else wrote, what to say; nothing is known of older lakes."""
    if not streams or not connection.has_table("trickle_written"):
        return {}
    own = _own(connection, [stream.uuid for stream in streams if stream.populated])
    if not own:
        return {}
    newest = connection.execute("SELECT max(snapshot_id) FROM ducklake_snapshot")[0][0]
    catalog.last_moves.near(connection, min(own.values()), newest)
    found = {}
    for stream in streams:
        if stream.uuid not in own:
            continue
        with suppress(NotFoundError):  # a table that is gone is told where it is needed
            later = _later(catalog, tables_of(stream), own[stream.uuid], newest)
            if later is not None:
                found[stream.uuid] = _breach(stream, *later)
    return found


def _own(connection: Connection, uuids: Sequence[str]) -> dict[str, int]:
    """The last version of their own; frontiers as they are now, for others may have moved them since
    the records were read."""
    found: dict[str, int] = {}
    for part, places in in_parts(uuids):
        among = f"WHERE stream_uuid IN ({places})"
        written: dict[str, int] = dict(
            connection.execute(f"SELECT stream_uuid, version FROM trickle_written {among}", part)
        )
        frontiers = connection.execute(
            f"SELECT stream_uuid, max(version) FROM trickle_source {among} GROUP BY 1", part
        )
        found |= written
        found |= {uuid: max(v, written[uuid]) for uuid, v in frontiers if uuid in written}
    return found


def _later(
    catalog: Catalog, tables: Iterable[Table], own: int, newest: int
) -> tuple[Table, int] | None:
    """The first table that was written after its own last commit; what this connection does not see
    yet may be one of its own."""
    for table in tables:
        last = catalog.last_moves.of(table.id, own, conflicts.ROWS.__contains__)
        if own < last <= newest:
            return table, last
    return None


def _breach(stream: StreamTable, table: Table, version: int) -> InvariantError:
    what = str(table) if str(table) == stream.name else f"{table}, its private state,"
    error = InvariantError(
        f"stream table {stream.name}: rows of {what} were changed in version {version}, and not by a "
        "refresh",
        hint=f"run repair_stream_table({stream.name!r})",
    )
    error.stream = stream.uuid
    return error
