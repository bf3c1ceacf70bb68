"""What differs between two versions of a table, from the catalog alone: its rows, and its files.

Law: a file that is in both versions contributes the positions that died in between; one that is in
only one of them contributes its live rows there. Rewritten files keep the version of each row
(``FILE_VERSION``) and of each death, so compaction shows nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.errors import CatalogError
from spark_trickle.storage.catalog.database import Connection, in_parts
from spark_trickle.storage.catalog.structure import VISIBLE, resolve
from spark_trickle.storage.files import positions
from spark_trickle.storage.files.parquet import batches
from spark_trickle.storage.manifest.file_list import FileList
from spark_trickle.storage.manifest.pieces import Facts, FileRow, Piece, lacking
from spark_trickle.storage.records import (
    FILE_VERSION,
    ROW_ID,
    WEIGHT,
    ChangePlan,
    DataFile,
    FileChange,
    Table,
)
from spark_trickle.storage.versions.planning import (
    Planner,
    check_readable,
    plain_schema,
)


def changes(
    planner: Planner, connection: Connection, table: Table, before: int, after: int
) -> ChangePlan:
    """The net change of ``table`` (its structure at ``after``) in the window (before, after]."""
    check_readable(table)
    rows = _by_ids(planner, connection, table, touched(connection, table, before, after))
    ids = [r.id for r in rows]
    dead_before = planner.dead(connection, table, before, ids) if rows else {}
    dead_after = planner.dead(connection, table, after, ids) if rows else {}
    at_before = {
        f.id: f
        for f in planner.files(
            connection, table, [r for r in rows if r.visible(before)], before, dead_before
        )
    }
    at_after = {
        f.id: f
        for f in planner.files(
            connection, table, [r for r in rows if r.visible(after)], after, dead_after
        )
    }
    found: list[FileChange] = []
    for row in rows:
        found += _of_file(planner, table, row, at_before.get(row.id), at_after.get(row.id), before)
    came, went = planner.moved_inlined(connection, table, before, after)
    inlined = weighted(table, [(came, 1), (went, -1)])
    return ChangePlan(table, before, after, tuple(found), inlined)


def _by_ids(
    planner: Planner, connection: Connection, table: Table, ids: Sequence[int]
) -> list[FileRow]:
    rows: list[FileRow] = []
    for part, marks in in_parts(ids):
        rows += planner.file_rows(
            connection, table, f"table_id = ? AND data_file_id IN ({marks})", (table.id, *part)
        )
    return rows


def _of_file(
    planner: Planner,
    table: Table,
    row: FileRow,
    old: DataFile | None,
    new: DataFile | None,
    before: int,
) -> list[FileChange]:
    if old is None:
        return [FileChange(new, 1, new.live)] if new is not None and new.live else []
    if new is None:
        return [FileChange(old, -1, old.live)] if old.live else []
    died = positions.minus(new.deleted, old.deleted)
    if row.partial_max is None or row.partial_max <= before:
        return [FileChange(new, -1, len(died), died)] if len(died) else []
    return _of_mixed_file(planner, table, new, died, before)


def _of_mixed_file(
    planner: Planner, table: Table, new: DataFile, died: pa.Array, before: int
) -> list[FileChange]:
    """A file with rows of several versions, some of them inserted in the window."""
    born_in_window = versions_at(new, table, died, before)
    result = []
    came = replace(new, inserted_after=before)
    count = planner.count(new.id, new.path, table, before, new.inserted_through)
    count -= len(born_in_window)
    if count:
        result.append(FileChange(came, 1, count))
    went = positions.minus(died, born_in_window)
    if len(went):
        result.append(FileChange(new, -1, len(went), went))
    return result


def versions_at(file: DataFile, table: Table, wanted: pa.Array, after: int) -> pa.Array:
    """Which of the wanted positions hold rows inserted after the version."""
    if not len(wanted):
        return wanted
    parts, start = [], 0
    for batch in batches(file.path, table, [FILE_VERSION]):
        later = pc.greater(batch.column(0), after)
        found = pc.indices_nonzero(later).cast(pa.int64())
        parts.append(positions.common(pc.add(found, start), wanted))
        start += batch.num_rows
    return positions.union(*parts)


def weighted(table: Table, parts: Sequence[tuple[pa.Table, int]]) -> pa.Table:
    """Inlined rows with their weights, as ``ChangePlan.inlined`` has them."""
    names = [c.name for c in table.columns]
    schema = plain_schema(table).append(pa.field(ROW_ID, pa.int64()))
    schema = schema.append(pa.field(WEIGHT, pa.int64()))
    tables = []
    for rows, weight in parts:
        arrays = [rows.column(i) for i in range(len(names))]
        arrays.append(rows.column(ROW_ID))
        arrays.append(pa.chunked_array([pa.repeat(pa.scalar(weight, pa.int64()), rows.num_rows)]))
        tables.append(pa.Table.from_arrays(arrays, schema=schema))
    return pa.concat_tables(tables) if tables else schema.empty_table()


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
