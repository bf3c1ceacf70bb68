"""Which stream tables were written with which views. Their definitions hold the views' queries, so that
nothing but the right to drop a view depends on it."""

from __future__ import annotations

from collections.abc import Sequence

from spark_trickle.storage.versions.transaction import Connection

TABLE = """CREATE TABLE IF NOT EXISTS trickle_view_use (
  stream_uuid VARCHAR NOT NULL, view_uuid VARCHAR NOT NULL, PRIMARY KEY (stream_uuid, view_uuid))"""


def save(connection: Connection, stream: str, views: Sequence[str]) -> None:
    if not views and not connection.has_table("trickle_view_use"):
        return
    connection.execute(TABLE)
    connection.execute("DELETE FROM trickle_view_use WHERE stream_uuid = ?", (stream,))
    connection.execute_many(
        "INSERT INTO trickle_view_use VALUES (?, ?)", [(stream, view) for view in views]
    )


def of_stream(connection: Connection, stream: str) -> list[str]:
    """The uuids of the views that it was written with."""
    if not connection.has_table("trickle_view_use"):
        return []
    rows = connection.execute(
        "SELECT view_uuid FROM trickle_view_use WHERE stream_uuid = ?", (stream,)
    )
    return [view for (view,) in rows]


def readers(connection: Connection, view: str) -> list[str]:
    """The names of the stream tables that were written with a view."""
    if not connection.has_table("trickle_view_use"):
        return []
    rows = connection.execute(
        "SELECT s.name FROM trickle_view_use u JOIN trickle_stream_table s "
        "ON s.uuid = u.stream_uuid WHERE u.view_uuid = ? ORDER BY s.name",
        (view,),
    )
    return [name for (name,) in rows]
