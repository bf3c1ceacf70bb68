"""Compaction: small files, files full of dead rows, and inlined rows become one file.

Law: no version's rows change, and no change feed: also not of versions that are committed
meanwhile. Each row goes over with its row id, the version
that inserted it and the version that deleted it, so the new files serve every version the old
ones served. Dead rows go to a file of their own, which ends with the last death in it: later
versions do not meet it, and it is not compacted again. Rows that no kept version can see are left
behind. Rows that die while the files are written are living ones there, with a death: writers never
wait for compaction, nor does it give way to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.errors import CommitConflictError, InternalError, TrickleError
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.catalog.database import Connection, quoted
from spark_trickle.storage.catalog.structure import columns_at
from spark_trickle.storage.commits import conflicts
from spark_trickle.storage.commits.commit import latest_ids, write_snapshot
from spark_trickle.storage.commits.conflicts import Claim
from spark_trickle.storage.commits.file_entries import FileEntries, insert_file
from spark_trickle.storage.commits.moving import row_ids, stored_ids
from spark_trickle.storage.faults import reach
from spark_trickle.storage.files import parquet
from spark_trickle.storage.records import Column, DataFile, Said, Table
from spark_trickle.storage.upkeep.rewriting import Executors, Output, Task, written
from spark_trickle.storage.versions import deaths
from spark_trickle.storage.versions.deaths import Deaths
from spark_trickle.storage.versions.planning import Planner
from spark_trickle.storage.versions.staging import Owned, owning
from spark_trickle.storage.versions.state import TableLike

SMALL_BYTES = 16 << 20
"""Files below this are worth merging."""
DEAD_SHARE = 0.3
"""A file with at least this share of dead rows is worth rewriting."""


@dataclass(frozen=True)
class Compacted:
    """What compaction did; ``version`` is unchanged when there was nothing to do."""

    version: int
    files_before: int = 0
    files_after: int = 0
    inlined_rows: int = 0
    table: str = ""
    problem: TrickleError | None = None
    """Why the table was left as it is, where others were compacted all the same."""


def compact(
    catalog: Catalog,
    table: TableLike,
    most: int | None = None,
    executors: Executors | None = None,
) -> Compacted:
    """Merge small files and inlined rows of a table; no version's rows change, nor any feed.

    ``most``: of small files the smallest, up to so many bytes, and no others. ``executors`` write large
    files, if there are any. Runs beside writers; it gives way to DDL and to other compactions, and
    tries again.
    """
    for attempt in range(4):
        with catalog.reading() as connection:
            task = _task(catalog, connection, table, most)
        if task is None:
            return Compacted(catalog.version())
        try:
            return _compact(catalog, task, executors)
        except CommitConflictError:
            if attempt == 3:
                raise
    raise AssertionError("unreachable")


def _compact(catalog: Catalog, task: Task, executors: Executors | None) -> Compacted:
    with owning(catalog.files) as owned:
        outputs = written(task, owned, executors, catalog.settings)
        with catalog.writing() as connection:
            version = _swap(catalog, connection, task, outputs, owned)
            reach("compaction-before-commit")
    reach("compaction-after-commit")
    return _done(version, task, outputs)


def _done(version: int, task: Task, outputs: Sequence[Output]) -> Compacted:
    after = sum(output.end is None for output in outputs)
    return Compacted(version, len(task.files), after, task.inlined.num_rows)


# What to do


def _task(
    catalog: Catalog, connection: Connection, name: TableLike, most: int | None
) -> Task | None:
    planner = catalog.planner
    ids = latest_ids(connection)
    oldest = connection.execute("SELECT min(snapshot_id) FROM ducklake_snapshot")[0][0]
    table = catalog.structure_in(connection, ids.version).table(name)
    columns = _all_columns(connection, table, oldest)
    if columns is None:
        return None
    wide = replace(table, columns=columns)
    inlined = planner.inlined(connection, wide, "begin_snapshot <= ?", (ids.version,))
    files = _chosen(planner, connection, wide, ids.version, inlined.num_rows > 0)
    if most is not None:
        files = _smallest(files, most)
    if not files and not inlined.num_rows:
        return None
    died = {f.id: deaths.so_far(connection, planner, wide, f.id) for f in files}
    return Task(wide, ids.version, oldest, files, died, inlined)


def _chosen(
    planner: Planner, connection: Connection, table: Table, version: int, inlined: bool
) -> tuple[DataFile, ...]:
    rows = planner.file_rows(
        connection, table, "table_id = ? AND end_snapshot IS NULL", (table.id,)
    )
    dead = planner.dead(connection, table, version)
    rows = [row for row in rows if row.bytes < SMALL_BYTES or row.id in dead]
    files = [f for f in planner.files(connection, table, rows, version, dead) if not f.by_name]
    dirty = [f for f in files if len(f.deleted) >= DEAD_SHARE * f.rows and len(f.deleted)]
    small = [f for f in files if f.bytes < SMALL_BYTES]
    worth = len(small) > 1 or (inlined and small)
    chosen = {f.id: f for f in [*dirty, *(small if worth else [])]}
    return tuple(chosen[i] for i in sorted(chosen))


def _smallest(files: Sequence[DataFile], most: int) -> tuple[DataFile, ...]:
    small = sorted((f for f in files if f.bytes < SMALL_BYTES), key=lambda f: f.bytes)
    sums = accumulate(f.bytes for f in small)
    fitting = [file for file, total in zip(small, sums, strict=True) if total <= most]
    return tuple(sorted(fitting, key=lambda f: f.id))


def _all_columns(connection: Connection, table: Table, oldest: int) -> tuple[Column, ...] | None:
    """The columns of all kept versions under names of their own; None if one changed its type."""
    begins = connection.execute(
        "SELECT schema_version, begin_snapshot FROM ducklake_schema_versions WHERE table_id = ? "
        "ORDER BY begin_snapshot",
        (table.id,),
    )
    found = {c.id: c for c in table.columns}
    for i, (schema_version, _) in enumerate(begins):
        if i + 1 < len(begins) and begins[i + 1][1] <= oldest:
            continue
        for column in columns_at(connection, table.id, schema_version):
            known = found.setdefault(
                column.id, replace(column, name=f"__trickle_dropped_{column.id}")
            )
            if (known.type, known.children) != (column.type, column.children):
                return None
    plain = [replace(c, nullable=True) for c in found.values()]
    return tuple(sorted(plain, key=lambda c: c.id))


# The swap


def _swap(
    catalog: Catalog,
    connection: Connection,
    task: Task,
    outputs: Sequence[Output],
    owned: Owned,
) -> int:
    table = task.table
    claims = {table.id: Claim(str(table), compacts=True)}
    theirs = conflicts.check(connection, task.version, claims).by_table.get(table.id, {})
    if theirs.keys() & set(conflicts.DELETED):
        _carry(task, _died(catalog.planner, connection, task), outputs)
    ids = latest_ids(connection)
    ids.version += 1
    for file in task.files:
        deaths.forget_file(connection, table, file.id, file.path)
    _remove_inlined(connection, table, task.version)
    reach("compaction-swapped")
    entries = FileEntries(connection, table, ids, catalog.planner, catalog.settings, owned)
    for output in outputs:
        facts = parquet.facts(output.path, table.columns, table)
        number = ids.next_file()
        insert_file(connection, table, number, facts, (output.first, None, output.last))
        if output.delete_file is not None:
            owned.add_of_commit(output.delete_file.path)
            place = (ids.next_file(), ids.version)
            deaths.put(connection, table, number, place, output.delete_file)
        elif len(output.deaths):
            entries.add_deaths(number, output.path, output.deaths)
        if output.end is not None:
            entries.end_files([number], output.end)
    changes = [f"merge_adjacent:{table.id}"]
    if task.inlined.num_rows:
        changes.append(f"inline_flush:{table.id}")
    write_snapshot(connection, ids, changes, Said())
    return ids.version


def _died(planner: Planner, connection: Connection, task: Task) -> Deaths:
    """The ids of rows that died since the task was made, and the version of each death."""
    result = deaths.NONE
    for file in task.files:
        seen = (file, task.deaths[file.id])
        found = deaths.since(connection, planner, task.table, seen, task.version)
        if len(found):
            ids = row_ids(task.table, file, found.positions)
            result = result.and_also(Deaths(ids, found.versions))
    for name in _inlined_tables(connection, task.table):
        rows = connection.execute(
            f"SELECT row_id, end_snapshot FROM {quoted(name)} "
            "WHERE begin_snapshot <= ? AND end_snapshot > ?",
            (task.version, task.version),
        )
        ids, versions = (pa.array((row[i] for row in rows), pa.int64()) for i in (0, 1))
        result = result.and_also(Deaths(ids, versions))
    return result


def _carry(task: Task, died: Deaths, outputs: Sequence[Output]) -> None:
    """Give the new files the deaths of rows that were alive when they were written."""
    left = len(died)
    for output in outputs:
        if output.living and left:
            where = pc.index_in(died.positions, value_set=stored_ids(task.table, output.path))
            here = pc.is_valid(where)
            found = Deaths(where.filter(here).cast(pa.int64()), died.versions.filter(here))
            output.deaths = found.sorted()
            left -= len(found)
    if left:
        raise InternalError(f"{left} deleted rows of {task.table} are not in its compacted files")


def _remove_inlined(connection: Connection, table: Table, version: int) -> None:
    for name in _inlined_tables(connection, table):
        connection.execute(f"DELETE FROM {quoted(name)} WHERE begin_snapshot <= ?", (version,))


def _inlined_tables(connection: Connection, table: Table) -> list[str]:
    rows = connection.execute(
        "SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = ?", (table.id,)
    )
    return [name for (name,) in rows]
