"""Stream tables of lakes that are older than what is remembered of them today."""

from __future__ import annotations

from spark_trickle.maintain.records.bound import Binding
from spark_trickle.maintain.records.streams import draw_stamp
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.catalog.structure import version_range


def has_unbound(connection: Connection) -> bool:
    """Whether there are stream tables of a lake older than bindings."""
    if not connection.has_table("trickle_source"):
        return False
    made_since = ("bound", "meaning", "fast_path", "total", "clock")
    if not all(connection.has_table(f"trickle_{name}") for name in made_since):
        return True
    return bool(connection.execute(_UNBOUND))


_UNBOUND = (
    "SELECT s.stream_uuid, s.source_uuid, s.version FROM trickle_source s WHERE NOT EXISTS "
    "(SELECT 1 FROM trickle_bound b "
    "WHERE b.stream_uuid = s.stream_uuid AND b.source_uuid = s.source_uuid)"
)


def bind_older(catalog: Catalog, connection: Connection) -> None:
    """Give stream tables of lakes older than bindings the one of their frontier, or else of now."""
    oldest, newest = version_range(connection)
    draw_stamp(connection)
    for stream, source, version in connection.execute(_UNBOUND):
        at = version if oldest <= version <= newest else newest
        table = catalog.structure_in(connection, at).find(source)
        if table is not None:
            connection.execute(
                "INSERT INTO trickle_bound VALUES (?, ?, ?)",
                (stream, source, Binding.of(table).json),
            )
