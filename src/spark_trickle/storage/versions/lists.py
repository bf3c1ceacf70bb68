"""The files that a version of a table has: listed anew, followed from those of another version, or only
those that some conditions ask for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from spark_trickle.errors import CatalogError
from spark_trickle.storage.catalog.database import Connection, in_parts
from spark_trickle.storage.catalog.structure import VISIBLE, resolve
from spark_trickle.storage.files import positions
from spark_trickle.storage.manifest.file_list import Dead, FileList
from spark_trickle.storage.manifest.names import Names, named_columns
from spark_trickle.storage.manifest.pieces import Facts, FileRow, Piece, lacking
from spark_trickle.storage.records import Table
from spark_trickle.storage.versions.planning import Planner


def listed(planner: Planner, connection: Connection, table: Table, version: int) -> FileList:
    """All files of a version."""
    facts = Facts.read(connection, f"table_id = ? AND {VISIBLE}", (table.id, version, version))
    piece = _piece(planner, connection, table, facts, version)
    return FileList(planner, table).with_piece(piece, planner.counted(connection, table, version))


def listed_of(
    planner: Planner, connection: Connection, table: Table, ids: Sequence[int], version: int
) -> FileList:
    """Of all files of a version these."""
    facts = _facts(connection, table, ids, version)
    piece = _piece(planner, connection, table, facts, version)
    return FileList(planner, table).with_piece(
        piece, planner.counted(connection, table, version, ids)
    )


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
    facts = _facts(connection, table, ids, version)
    piece = _piece(planner, connection, table, facts, version)
    rows = facts.rows(np.arange(len(facts.numbers[0]))) if version > known else []
    steady = steady_files(planner, connection, table, rows, known, version)
    died = died_in(connection, table, steady, known, version)
    dead = {i: Dead.of(positions.union(files.dead_in(i), died[i])) for i in died}
    dead |= {i: files.dead[i] for i in steady - died.keys() if i in files.dead}
    if others := [i for i in ids if i not in steady]:
        dead |= planner.counted(connection, table, version, others)
    return files.without(ids).with_piece(piece, dead)


def _facts(connection: Connection, table: Table, ids: Sequence[int], version: int) -> Facts:
    """Those of the files that the version has."""
    where = f"table_id = ? AND {VISIBLE} AND data_file_id IN"
    at = (table.id, version, version)
    parts = (
        Facts.read(connection, f"{where} ({marks})", (*at, *part)) for part, marks in in_parts(ids)
    )
    return Facts.joined([*parts]) if ids else Facts.read(connection, "1 = 0", ())


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
    columns = named_columns(connection, table.id)
    without = lacking(connection, table.id, columns, (ids, begins, named))
    return Piece(table.id, facts, seen, through, without, Names.of(columns), planner.reading)


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


def steady_files(
    planner: Planner,
    connection: Connection,
    table: Table,
    rows: Iterable[FileRow],
    before: int,
    after: int,
) -> set[int]:
    """Files of both versions with the same delete files: what died in between is in the catalog."""

    def early(latest: int | None) -> bool:
        return latest is None or latest <= before

    both = (row for row in rows if row.visible(before) and row.visible(after))
    steady = {row.id for row in both if early(row.partial_max)}
    for part, marks in in_parts(sorted(steady)):
        for row in planner.delete_rows(connection, table, f"data_file_id IN ({marks})", part):
            past = row.end is not None and row.end <= before
            same = row.begin <= before and (row.end is None or row.end > after)
            if not (past or row.begin > after or (same and early(row.partial_max))):
                steady.discard(row.file)
    return steady


def died_in(
    connection: Connection, table: Table, files: set[int], before: int, after: int
) -> dict[int, pa.Array]:
    """By file, the positions whose deaths in the window are in the catalog."""
    name = f"ducklake_inlined_delete_{table.id}"
    if not files or not connection.has_table(name):
        return {}
    sql = f"SELECT file_id, row_id FROM {name} WHERE begin_snapshot > ? AND begin_snapshot <= ?"
    found: dict[int, list[int]] = defaultdict(list)
    for file, position in connection.execute(sql, (before, after)):
        found[file].append(position)
    return {file: positions.of(places) for file, places in found.items() if file in files}
