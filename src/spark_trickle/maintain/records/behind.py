"""Whether a source has changes that a stream table's contents do not reflect.

Our own commits keep what follows them up to date and move its frontier. Others that write a lake,
DuckDB for one, know nothing of stream tables: their changes lie behind the frontier.
"""

from __future__ import annotations

from collections.abc import Collection

from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.catalog.database import Connection, in_parts
from spark_trickle.storage.commits import conflicts


def behind(catalog: Catalog, uuids: Collection[str]) -> set[str]:
    """Those of the stream tables that do not reflect their sources as they are now."""
    if not uuids:
        return set()
    with catalog.reading() as connection:
        return behind_in(connection, catalog, uuids)


def behind_in(connection: Connection, catalog: Catalog, uuids: Collection[str]) -> set[str]:
    """The same inside a catalog transaction: frontiers and changes of one moment."""
    frontiers = [
        row
        for part, places in in_parts(list(uuids))
        for row in connection.execute(f"{_FRONTIERS} AND s.stream_uuid IN ({places})", part)
    ]
    if not frontiers:
        return set()
    moves = catalog.last_moves
    moves.since(connection, min(version for _, _, version in frontiers))
    counts = conflicts.ROWS.__contains__
    return {
        uuid for uuid, table, version in frontiers if version < moves.of(table, version, counts)
    }


_FRONTIERS = (
    "SELECT s.stream_uuid, t.table_id, s.version FROM trickle_source s JOIN ducklake_table t "
    "ON CAST(t.table_uuid AS VARCHAR) = s.source_uuid WHERE t.end_snapshot IS NULL"
)
