"""The deletes of a transaction, moved onto a newer version of their table.

Law: what is deleted is one version of a row, known by its row id and by having been alive at the
base. It is alive in the newest version, in the same place or where compaction carried it, or
somebody else deleted or replaced it: then the two commits conflict, and nothing is lost. Rows
that only share a file with those of others are in nobody's way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.storage.catalog.database import Connection, in_parts, quoted
from spark_trickle.storage.catalog.structure import resolve
from spark_trickle.storage.commits.conflicts import DELETED, REPLACED, conflict
from spark_trickle.storage.files import parquet, positions
from spark_trickle.storage.manifest.file_list import found_in
from spark_trickle.storage.manifest.pieces import FileRow
from spark_trickle.storage.records import (
    FILE_ROW_ID,
    FILE_VERSION,
    DataFile,
    ScanPlan,
    Table,
)
from spark_trickle.storage.versions.planning import Planner
from spark_trickle.storage.versions.staging import Staged


@dataclass(frozen=True)
class Mover:
    """Moves the work on one table from the version it was done on to the newest one."""

    connection: Connection
    planner: Planner
    table: Table
    base: int
    newest: int
    theirs: Mapping[str, int]
    """What others did to the table in between: each kind of change and its version."""

    def moved(self, staged: Staged, plan: ScanPlan | None) -> Staged:
        """``plan``: the table at the base as the transaction saw it, where it looked.

        CommitConflictError if a row that is deleted is no longer there.
        """
        if staged.truncated or not staged.deletes or not self.theirs.keys() & REPLACED:
            return staged
        staged = staged.loaded(i for i in staged.written if i >= 0 and i not in self._untouched)
        own = {i: p for i, p in staged.dead.items() if i < 0}
        there, lost = self._in_files({i: p for i, p in staged.dead.items() if i >= 0}, plan)
        inlined = self._still_inlined(staged.dead_inlined)
        lost = positions.union(lost, positions.minus(staged.dead_inlined, inlined))
        carried = self._found(lost, plan)
        if sum(len(p) for p in carried.values()) < len(lost):
            raise self._conflict()
        for file, found in carried.items():
            there[file] = positions.union(there.get(file, positions.EMPTY), found)
        return replace(staged, dead=own | there, dead_inlined=inlined)

    def _in_files(
        self, wanted: Mapping[int, pa.Array], plan: ScanPlan | None
    ) -> tuple[dict[int, pa.Array], pa.Array]:
        """What is alive where it was, and the ids of rows whose files are gone."""
        ends = self._ends(list(wanted))
        before = self.planner.dead(self.connection, self.table, self.base, list(wanted))
        now = self.planner.dead(self.connection, self.table, self.newest, list(wanted))
        seen = found_in(plan, wanted)
        there, lost = {}, positions.EMPTY
        for number, dead in wanted.items():
            if number in ends:
                mine = positions.minus(dead, before.get(number, positions.EMPTY))
                if len(positions.common(mine, now.get(number, positions.EMPTY))) or (
                    len(mine) and ends[number] is not None
                ):
                    raise self._conflict()
                there[number] = mine
            elif number in seen:
                mine = positions.minus(dead, seen[number].deleted)
                lost = positions.union(lost, row_ids(self.table, seen[number], mine))
            else:
                raise self._conflict()
        return there, lost

    @cached_property
    def _untouched(self) -> set[int]:
        """The files in which others have deleted nothing."""
        alive = self.connection.execute(
            "SELECT data_file_id FROM ducklake_data_file WHERE table_id = ? AND end_snapshot IS NULL",
            (self.table.id,),
        )
        last = (self.table.id, *[self.base] * 3)
        deletes = self.connection.execute(
            "SELECT data_file_id FROM ducklake_delete_file WHERE table_id = ? AND "
            "(begin_snapshot > ? OR end_snapshot > ? OR partial_max > ?)",
            last,
        )
        if self.connection.has_table(name := f"ducklake_inlined_delete_{self.table.id}"):
            sql = f"SELECT DISTINCT file_id FROM {name} WHERE begin_snapshot > ?"
            deletes = [*deletes, *self.connection.execute(sql, (self.base,))]
        return {i for (i,) in alive} - {i for (i,) in deletes}

    def _ends(self, files: Sequence[int]) -> dict[int, int | None]:
        found: dict[int, int | None] = {}
        for part, marks in in_parts(files):
            sql = f"SELECT data_file_id, end_snapshot FROM ducklake_data_file WHERE data_file_id IN ({marks})"
            found |= dict(self.connection.execute(sql, part))
        return found

    def _still_inlined(self, wanted: pa.Array) -> pa.Array:
        """Those row ids whose rows are in the catalog, alive, and no newer than the base."""
        found: list[int] = []
        names = self.connection.execute(
            "SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = ?",
            (self.table.id,),
        )
        for part, marks in in_parts(wanted.to_pylist()):
            for (name,) in names:
                sql = (
                    f"SELECT row_id FROM {quoted(name)} WHERE row_id IN ({marks}) "
                    "AND end_snapshot IS NULL AND begin_snapshot <= ?"
                )
                found += [row[0] for row in self.connection.execute(sql, (*part, self.base))]
        return positions.of(found)

    def _found(self, ids: pa.Array, plan: ScanPlan | None) -> dict[int, pa.Array]:
        """Where compaction carried these rows: only files that the base did not have are read."""
        if not len(ids):
            return {}
        rows = self.planner.file_rows(
            self.connection,
            self.table,
            "table_id = ? AND end_snapshot IS NULL AND begin_snapshot <= ? "
            "AND partial_max IS NOT NULL",
            (self.table.id, self.base),
        )
        known = found_in(plan, [row.id for row in rows])
        files = [row for row in rows if row.id not in known]
        dead = self.planner.dead(self.connection, self.table, self.newest, [f.id for f in files])
        result = {}
        for file in files:
            here = positions.of(pa.chunked_array(self._places(file, ids), pa.int64()))
            here = positions.minus(here, dead.get(file.id, positions.EMPTY))
            if len(here):
                result[file.id] = here
        return result

    def _places(self, file: FileRow, ids: pa.Array) -> Iterator[pa.Array]:
        path = resolve(file.path, file.relative, self.table.location)
        start = 0
        for batch in parquet.batches(path, self.table, [FILE_ROW_ID, FILE_VERSION]):
            if batch.num_columns == 2:  # else another program's file: nobody knows its rows
                wanted = pc.and_(
                    pc.is_in(batch.column(FILE_ROW_ID).cast(pa.int64()), value_set=ids),
                    pc.less_equal(batch.column(FILE_VERSION), self.base),
                )
                yield pc.add(pc.indices_nonzero(wanted).cast(pa.int64()), start)
            start += batch.num_rows

    def _conflict(self) -> Exception:
        kind = max(
            (k for k in self.theirs if k in DELETED), key=self.theirs.__getitem__, default=None
        )
        kind = kind or max(self.theirs.keys() & REPLACED, key=self.theirs.__getitem__)
        return conflict(str(self.table), kind, self.theirs[kind])


def row_ids(table: Table, file: DataFile, wanted: pa.Array) -> pa.Array:
    """The ids of the rows at these positions of a file."""
    if not len(wanted):
        return wanted
    if not file.has_row_ids:
        return pc.add(wanted, file.row_id_start or 0)
    return stored_ids(table, file.path).take(wanted)


def stored_ids(table: Table, path: str) -> pa.Array:
    """The row ids that a file holds, in order."""
    parts = [
        batch.column(FILE_ROW_ID).cast(pa.int64())
        for batch in parquet.batches(path, table, [FILE_ROW_ID])
    ]
    return pa.concat_arrays(parts) if parts else positions.EMPTY
