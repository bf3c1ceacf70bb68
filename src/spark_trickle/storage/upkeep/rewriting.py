"""The rows of files that are compacted, written into new ones: by this process, or by executors.

Law: each row goes over with its id, the version that inserted it and the version that deleted it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_trickle.errors import InternalError
from spark_trickle.settings import Limits, Settings
from spark_trickle.storage.faults import reach
from spark_trickle.storage.files import parquet, positions
from spark_trickle.storage.files.by_columns import ordered
from spark_trickle.storage.read.reader import read_file
from spark_trickle.storage.records import (
    FILE_ROW_ID,
    FILE_VERSION,
    FILE_VERSION_FIELD,
    ROW_ID,
    DataFile,
    Table,
)
from spark_trickle.storage.versions import deaths
from spark_trickle.storage.versions.deaths import DeathFile, Deaths
from spark_trickle.storage.versions.staging import Owned

_CHUNK_ROWS = 512 * 1024
TARGET_BYTES = 128 << 20
_DEATH = "__trickle_death"
_MOST_VERSIONS = 32
"""Dead rows are rewritten by this process if they died in more versions: each is a query of its own."""
BEGUN, ENDED = "__trickle_begin", "__trickle_end"
"""Columns of rows in the catalog: the versions that inserted and deleted them."""


@dataclass(frozen=True)
class Task:
    """What is to be rewritten."""

    table: Table
    """With every column that some kept version has."""
    version: int
    oldest: int
    files: tuple[DataFile, ...]
    deaths: dict[int, Deaths]
    inlined: pa.Table


@dataclass
class Output:
    """A new file: what is needed to put it into the catalog."""

    path: str
    living: bool
    """Whether its rows were alive when they were read."""
    rows: int = 0
    first: int = 0
    last: int = 0
    deaths: Deaths = deaths.NONE
    died: int | None = None
    """The version in which all rows of it died, if that is one: then ``deaths`` has none."""
    delete_file: DeathFile | None = None
    """The deaths, where they are many."""

    @property
    def end(self) -> int | None:
        """The version that sees no row of it any more."""
        if self.living or self.died is not None:
            return self.died
        return int(pc.max(self.deaths.versions).as_py())


class Executors(Protocol):
    """Have files rewritten by Spark."""

    def living(self, task: Task, owned: Owned) -> Sequence[str]:
        """The rows of files and catalog that nobody deleted, sorted by the key, in ranges that do not
        overlap; the paths."""

    def dead(self, task: Task, version: int, owned: Owned) -> Sequence[str]:
        """The rows of files that died in a version; the paths."""


def written(
    task: Task, owned: Owned, executors: Executors | None, settings: Settings
) -> list[Output]:
    """The new files, durable; more deaths of one than are kept in the catalog are in a delete file."""
    try:
        outputs = _write(task, owned, executors, settings.limits)
        _check_complete(task, outputs)
        for output in outputs:
            if len(output.deaths) > settings.inline_delete_limit:
                place = (output.path, deaths.new_path(task.table))
                owned.add(place[1])
                output.delete_file = deaths.stamped(task.table, place, output.deaths)
        reach("compaction-file-written")
        made = [output.delete_file.path for output in outputs if output.delete_file is not None]
        task.table.files.sync([*(output.path for output in outputs), *made])
    except BaseException:
        owned.remove()  # also when interrupted: nothing is being committed yet
        raise
    return outputs


def _check_complete(task: Task, outputs: Sequence[Output]) -> None:
    """Law: every living row goes over."""
    alive = sum(file.rows - len(task.deaths[file.id]) for file in task.files)
    alive += task.inlined.column(ENDED).null_count
    made = sum(output.rows for output in outputs if output.living)
    if made != alive:
        raise InternalError(
            f"the compacted files of {task.table} would have {made} of its {alive} rows; "
            "nothing was changed"
        )


def _write(task: Task, owned: Owned, executors: Executors | None, limits: Limits) -> list[Output]:
    if executors is None or sum(file.bytes for file in task.files) <= limits.written_bytes:
        return _write_here(task, owned, (False, True))
    outputs = [_opened(task, path, None) for path in executors.living(task, owned)]
    died = {i: found.among_versions(task.oldest) for i, found in task.deaths.items()}
    versions = {v for found in died.values() for v in found.versions.unique().to_pylist()}
    few = sum(map(len, died.values())) <= limits.dead_rows
    if few or len(versions) > _MOST_VERSIONS:
        return outputs + _write_here(task, owned, (True,))
    for version in sorted(versions):
        made = executors.dead(task, version, owned)
        outputs += [_opened(task, path, version) for path in made]
    gone = replace(task, files=(), inlined=task.inlined.filter(pc.is_valid(task.inlined[ENDED])))
    return outputs + _write_here(gone, owned, (True,))


def _opened(task: Task, path: str, died: int | None) -> Output:
    """A file that executors wrote."""
    footer = task.table.files.footer(path)
    names = parquet.names_by_id(footer.schema.to_arrow_schema(), task.files[0])
    place = footer.schema.to_arrow_schema().get_field_index(names[FILE_VERSION_FIELD])
    leaf = parquet.leaf_indexes(footer.schema.to_arrow_schema())[place]
    ends = [footer.row_group(i).column(leaf).statistics for i in range(footer.num_row_groups)]
    first, last = min(e.min for e in ends), max(e.max for e in ends)
    return Output(path, died is None, footer.num_rows, first, last, died=died)


def _write_here(task: Task, owned: Owned, kinds: Sequence[bool]) -> list[Output]:
    """The living rows (False), the dead ones (True), read and written by this process."""
    outputs: list[Output] = []
    schema = parquet.file_schema(task.table.columns, row_ids=True, versions=True)
    for dead in kinds:
        chunks = _chunks(task, dead)
        for chunk in chunks:
            output = Output(parquet.new_path(task.table), living=not dead)
            owned.add(output.path)
            outputs.append(output)
            with task.table.files.output(output.path) as sink:
                _write_file(output, sink, schema, chunk, chunks)
    return outputs


def _write_file(
    output: Output, sink: Any, schema: pa.Schema, first: pa.Table, rest: Iterator[pa.Table]
) -> None:
    """One file of about the target size: the first chunk and as many others as fit."""
    with pq.ParquetWriter(sink, schema, **parquet.OPTIONS) as writer:
        chunk: pa.Table | None = first
        while chunk is not None:
            _append(output, writer, schema, chunk)
            chunk = next(rest, None) if sink.tell() < TARGET_BYTES else None


def _append(output: Output, writer: pq.ParquetWriter, schema: pa.Schema, chunk: pa.Table) -> None:
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


def _chunks(task: Task, dead: bool) -> Iterator[pa.Table]:
    """The living rows, or the dead ones that some kept version sees, in chunks that fit into
    memory, sorted by the key."""
    keys = [c.name for n in task.table.sort_key if (c := task.table.column(n))]
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


def _sorted(parts: Sequence[pa.Table], keys: list[str]) -> pa.Table:
    rows = pa.concat_tables(parts)
    return ordered(rows, keys) if keys else rows


def _dead(rows: pa.Table, oldest: int) -> pa.Table:
    """Leave out what died before the oldest version or in the version that inserted it."""
    death = rows.column(_DEATH)
    return rows.filter(
        pc.and_(pc.greater(death, oldest), pc.greater(death, rows.column(FILE_VERSION)))
    )


def _parts(task: Task, dead: bool) -> Iterator[pa.Table]:
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
