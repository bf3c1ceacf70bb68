"""The files of a version of a table: all of them once, then what others have differently."""

from __future__ import annotations

import numpy as np

from spark_trickle.errors import CatalogError
from spark_trickle.storage.catalog.database import Connection, in_parts
from spark_trickle.storage.catalog.structure import VISIBLE, resolve
from spark_trickle.storage.manifest.file_list import FileList
from spark_trickle.storage.manifest.pieces import Facts, Piece, lacking
from spark_trickle.storage.records import Table
from spark_trickle.storage.versions.planning import Planner


def listed(planner: Planner, connection: Connection, table: Table, version: int) -> FileList:
    """All files of a version."""
    facts = Facts.read(connection, f"table_id = ? AND {VISIBLE}", (table.id, version, version))
    piece = _piece(planner, connection, table, facts, version)
    return FileList(planner, table).with_piece(piece, planner.counted(connection, table, version))


def relisted(
    planner: Planner, connection: Connection, files: FileList, known: int, version: int
) -> FileList:
    """From the files of one version those of another, earlier or later one.

    Law: what was not touched in between is in the same state; but compaction touches unseen.
    """
    table = files.table
    ids = touched(connection, table, min(known, version), max(known, version))
    if not ids:
        return files
    where = f"table_id = ? AND {VISIBLE} AND data_file_id IN"
    at = (table.id, version, version)
    facts = Facts.joined(
        [
            Facts.read(connection, f"{where} ({marks})", (*at, *part))
            for part, marks in in_parts(ids)
        ]
    )
    piece = _piece(planner, connection, table, facts, version)
    return files.without(ids).with_piece(piece, planner.counted(connection, table, version, ids))


def _piece(
    planner: Planner, connection: Connection, table: Table, facts: Facts, version: int
) -> Piece:
    if facts.encrypted is not None:
        raise CatalogError(f"the data file {facts.encrypted} of table {table} is encrypted")
    ids, rows, _, _, begins, latest, mappings, *_ = facts.numbers
    seen, through = rows.copy(), {}
    mixed = np.flatnonzero(latest > version)
    for place, row in zip(mixed.tolist(), facts.rows(mixed), strict=True):
        path = resolve(row.path, row.relative, table.location)
        through[row.id] = version
        seen[place] = planner.count(row.id, path, table, None, version)
    named = mappings >= 0
    planner.load_names(connection, set(mappings[named].tolist()))
    without = lacking(connection, table.id, ids, begins, named)
    return Piece(table.id, facts, seen, through, without, planner.reading)


def touched(connection: Connection, table: Table, before: int, after: int) -> list[int]:
    """Files that came or went in the window, hold rows of several versions, or lost rows in it.

    Each condition by itself: together they would be looked for among all files.
    """
    window = (before, after)
    wanted: set[int] = set()
    for kind in ("data_file", "delete_file"):
        for condition in (
            "begin_snapshot > ? AND begin_snapshot <= ?",
            "end_snapshot > ? AND end_snapshot <= ?",
            "partial_max > ? AND begin_snapshot <= ?",
        ):
            sql = f"SELECT data_file_id FROM ducklake_{kind} WHERE table_id = ? AND {condition}"
            wanted.update(row[0] for row in connection.execute(sql, (table.id, *window)))
    deletes = f"ducklake_inlined_delete_{table.id}"
    if connection.has_table(deletes):
        sql = f"SELECT DISTINCT file_id FROM {deletes} WHERE begin_snapshot > ? AND begin_snapshot <= ?"
        wanted.update(row[0] for row in connection.execute(sql, window))
    return sorted(wanted)
