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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_trickle.errors import CommitConflictError, InternalError, TrickleError
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.catalog.database import Connection, quoted
from spark_trickle.storage.catalog.structure import columns_at
from spark_trickle.storage.faults import reach
from spark_trickle.storage.files import parquet, positions
from spark_trickle.storage.read.reader import read_file
from spark_trickle.storage.records import (
    FILE_ROW_ID,
    FILE_VERSION,
    ROW_ID,
    Column,
    DataFile,
    Said,
    Table,
)
from spark_trickle.storage.versions import conflicts, deaths, dml
from spark_trickle.storage.versions.commit import latest_ids, write_snapshot
from spark_trickle.storage.versions.conflicts import Claim
from spark_trickle.storage.versions.deaths import Deaths
from spark_trickle.storage.versions.moving import row_ids, stored_ids
from spark_trickle.storage.versions.ownership import Owned, owning
from spark_trickle.storage.versions.planning import Planner
from spark_trickle.storage.versions.state import TableLike

SMALL_BYTES = 16 << 20
"""Files below this are worth merging."""
DEAD_SHARE = 0.3
"""A file with at least this share of dead rows is worth rewriting."""
_CHUNK_ROWS = 512 * 1024
_TARGET_BYTES = 128 << 20
_DEATH = "__trickle_death"


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


@dataclass(frozen=True)
class _Task:
    table: Table
    """With every column that some kept version has."""
    version: int
    oldest: int
    files: tuple[DataFile, ...]
    deaths: dict[int, Deaths]
    inlined: pa.Table


@dataclass
class _Output:
    """A new file: what is needed to put it into the catalog."""

    path: str
    living: bool
    """Whether its rows were alive when they were read."""
    rows: int = 0
    first: int = 0
    last: int = 0
    deaths: Deaths = deaths.NONE

    @property
    def end(self) -> int | None:
        """The version that sees no row of it any more."""
        return None if self.living else pc.max(self.deaths.versions).as_py()


def compact(catalog: Catalog, table: TableLike, most: int | None = None) -> Compacted:
    """Merge small files and inlined rows of a table; no version's rows change, nor any feed.

    ``most``: of small files the smallest, up to so many bytes, and no others. Runs beside writers; it gives way to DDL and to other compactions, and tries again.
    """
    for attempt in range(4):
        with catalog.reading() as connection:
            task = _task(catalog, connection, table, most)
        if task is None:
            return Compacted(catalog.version())
        try:
            return _compact(catalog, task)
        except CommitConflictError:
            if attempt == 3:
                raise
    raise AssertionError("unreachable")


def _compact(catalog: Catalog, task: _Task) -> Compacted:
    with owning(catalog.files) as owned:
        outputs = _written(task, owned)
        with catalog.writing() as connection:
            version = _swap(catalog, connection, task, outputs, owned)
            reach("compaction-before-commit")
    reach("compaction-after-commit")
    return _done(version, task, outputs)


def _done(version: int, task: _Task, outputs: Sequence[_Output]) -> Compacted:
    after = sum(output.end is None for output in outputs)
    return Compacted(version, len(task.files), after, task.inlined.num_rows)


def _written(task: _Task, owned: Owned) -> list[_Output]:
    """The new files, durable."""
    try:
        outputs = _write(task, owned)
        reach("compaction-file-written")
        task.table.files.sync(output.path for output in outputs)
    except BaseException:
        owned.remove()  # also when interrupted: nothing is being committed yet
        raise
    return outputs


# What to do


def _task(
    catalog: Catalog, connection: Connection, name: TableLike, most: int | None
) -> _Task | None:
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
    return _Task(wide, ids.version, oldest, files, died, inlined)


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


# Writing


def _write(task: _Task, owned: Owned) -> list[_Output]:
    outputs: list[_Output] = []
    schema = parquet.file_schema(task.table.columns, row_ids=True, versions=True)
    for dead in (False, True):
        chunks = _chunks(task, dead)
        for chunk in chunks:
            output = _Output(parquet.new_path(task.table), living=not dead)
            owned.add(output.path)
            outputs.append(output)
            with task.table.files.output(output.path) as sink:
                _write_file(output, sink, schema, chunk, chunks)
    return outputs


def _write_file(
    output: _Output, sink: Any, schema: pa.Schema, first: pa.Table, rest: Iterator[pa.Table]
) -> None:
    """One file of about the target size: the first chunk and as many others as fit."""
    with pq.ParquetWriter(sink, schema, **parquet.OPTIONS) as writer:
        chunk: pa.Table | None = first
        while chunk is not None:
            _append(output, writer, schema, chunk)
            chunk = next(rest, None) if sink.tell() < _TARGET_BYTES else None


def _append(output: _Output, writer: pq.ParquetWriter, schema: pa.Schema, chunk: pa.Table) -> None:
    versions = pc.min_max(chunk.column(FILE_VERSION))
    low, high = versions["min"].as_py(), versions["max"].as_py()
    output.first = low if output.rows == 0 else min(low, output.first)
    output.last = max(high, output.last)
    death = chunk.column(_DEATH).combine_chunks()
    where = pc.indices_nonzero(pc.is_valid(death)).cast(pa.int64())
    if len(where):
        found = Deaths(pc.add(where, output.rows), death.take(where))
        output.deaths = output.deaths.and_also(found)
    rows = pa.Table.from_arrays(chunk.drop_columns([_DEATH]).columns, schema=schema)
    writer.write_table(rows, row_group_size=parquet.ROW_GROUP)
    output.rows += chunk.num_rows


def _chunks(task: _Task, dead: bool) -> Iterator[pa.Table]:
    """The living rows, or the dead ones that some kept version sees, in chunks that fit into
    memory, sorted by the key."""
    keys = [(c.name, "ascending") for n in task.table.sort_key if (c := task.table.column(n))]
    pending: list[pa.Table] = []
    count = 0
    for part in _parts(task, dead):
        seen = _dead(part, task.oldest) if dead else part.filter(pc.is_null(part.column(_DEATH)))
        pending.append(seen)
        count += seen.num_rows
        if count >= _CHUNK_ROWS:
            yield _sorted(pending, keys)
            pending, count = [], 0
    if count:
        yield _sorted(pending, keys)


def _sorted(parts: Sequence[pa.Table], keys: list[tuple[str, str]]) -> pa.Table:
    rows = pa.concat_tables(parts)
    return rows.sort_by(keys) if keys else rows


def _dead(rows: pa.Table, oldest: int) -> pa.Table:
    """Leave out what died before the oldest version or in the version that inserted it."""
    death = rows.column(_DEATH)
    return rows.filter(
        pc.and_(pc.greater(death, oldest), pc.greater(death, rows.column(FILE_VERSION)))
    )


def _parts(task: _Task, dead: bool) -> Iterator[pa.Table]:
    for file in task.files:
        if dead and not len(task.deaths[file.id]):
            continue
        whole = replace(file, deleted=positions.EMPTY, inserted_through=None)
        died, start = task.deaths[file.id], 0
        for rows in read_file(task.table, whole, versions=True):
            after, before = pc.greater_equal(died.positions, start), start + rows.num_rows
            span = pc.and_(after, pc.less(died.positions, before))
            where = pc.subtract(died.positions.filter(span), start)
            yield _with_deaths(rows, Deaths(where, died.versions.filter(span)))
            start = before
    if task.inlined.num_rows:
        names = [c.name for c in task.table.columns]
        rows = task.inlined.rename_columns([*names, FILE_ROW_ID, FILE_VERSION, _DEATH])
        yield rows


def _with_deaths(rows: pa.Table, died: Deaths) -> pa.Table:
    names = [n if n != ROW_ID else FILE_ROW_ID for n in rows.column_names]
    all_rows = pa.array(range(rows.num_rows), pa.int64())
    death = died.versions.take(pc.index_in(all_rows, died.positions))
    return rows.rename_columns(names).append_column(_DEATH, death)


# The swap


def _swap(
    catalog: Catalog,
    connection: Connection,
    task: _Task,
    outputs: Sequence[_Output],
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
    writer = dml.TableWriter(
        connection, table, ids, catalog.planner, catalog.settings, task.version, owned
    )
    for output in outputs:
        facts = parquet.facts(output.path, table.columns, table)
        number = ids.next_file()
        dml.insert_file(connection, table, number, facts, (output.first, None, output.last))
        if len(output.deaths):
            writer.add_deaths(number, output.path, output.deaths)
        if output.end is not None:
            writer.end_files([number], output.end)
    changes = [f"merge_adjacent:{table.id}"]
    if task.inlined.num_rows:
        changes.append(f"inline_flush:{table.id}")
    write_snapshot(connection, ids, changes, Said())
    return ids.version


def _died(planner: Planner, connection: Connection, task: _Task) -> Deaths:
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


def _carry(task: _Task, died: Deaths, outputs: Sequence[_Output]) -> None:
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
