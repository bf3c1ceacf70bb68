"""Change plans: the net change of a table between two versions, from the catalog alone.

Law: a file that is in both versions contributes the positions that died in between; one that is in
only one of them contributes its live rows there. Rewritten files keep the version of each row
(``FILE_VERSION``) and of each death, so compaction shows nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.storage.catalog.database import Connection, in_parts
from spark_trickle.storage.files import positions
from spark_trickle.storage.files.parquet import batches
from spark_trickle.storage.manifest.pieces import FileRow
from spark_trickle.storage.records import (
    FILE_VERSION,
    ROW_ID,
    WEIGHT,
    ChangePlan,
    DataFile,
    FileChange,
    Table,
)
from spark_trickle.storage.versions.listing import touched
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
