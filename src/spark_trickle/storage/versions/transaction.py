"""A transaction: gathers work in memory, shows its own writes, commits all of it or nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

from spark_trickle.errors import CommitConflictError, TrickleError
from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.commits import rebase
from spark_trickle.storage.commits.commit import Record, Work, latest_ids
from spark_trickle.storage.commits.moving import Mover
from spark_trickle.storage.commits.participants import Late, Participant
from spark_trickle.storage.faults import reach
from spark_trickle.storage.files import parquet, positions
from spark_trickle.storage.files.values import fit_catalog
from spark_trickle.storage.manifest.pieces import DeleteRow
from spark_trickle.storage.records import (
    ROW_ID,
    ChangePlan,
    NewFile,
    Positions,
    Said,
    ScanPlan,
    Table,
)
from spark_trickle.storage.versions import row_files, staging
from spark_trickle.storage.versions.deaths import DeathFile
from spark_trickle.storage.versions.savepoints import Savepoints
from spark_trickle.storage.versions.staging import Owned, Staged, StagedFile, may_stand
from spark_trickle.storage.versions.state import TableLike, WritableCatalog

__all__ = ["Connection", "Record", "Transaction"]


class Transaction(Savepoints):
    """Made by ``Catalog.begin``. Several threads may stage rows at once, each of its own tables."""

    base: int
    """The version this transaction reads."""

    def __init__(
        self, lake: WritableCatalog, base: int, participants: Sequence[Participant] = ()
    ) -> None:
        self._before = lake.structure(base)
        super().__init__(lake, rebase.Progress(self._before))
        self.base = base
        self.participants = participants
        self._lock = threading.RLock()
        """For what is read, changed and put back."""
        self._seen: dict[int, ScanPlan] = {}
        """Tables at the base, as they were first scanned."""
        self._owned = Owned(lake.files)
        self._late: Mapping[int, Staged] = {}
        self.said = Said(author=lake.settings.author)
        """Who commits, and what is said of the version."""

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._over:
            self.rollback() if kind is not None else self.commit()

    # Reading

    @property
    def version(self) -> int:
        return self.base

    def find(self, uuid: str) -> Table | None:
        """The table with that identity, whatever it is called."""
        return self._state.structure.find(uuid)

    def reading(self) -> AbstractContextManager[Connection]:
        """The catalog as it is now, for the caller's own ``trickle_*`` tables."""
        return self._lake.reading()

    def tables(self) -> list[Table]:
        return sorted(self._state.structure.tables.values(), key=lambda t: t.full_name.key)

    def schemas(self) -> list[str]:
        return sorted(s.name for s in self._state.structure.schemas.values())

    def scan(self, table: TableLike) -> ScanPlan:
        """The table's rows, the transaction's own writes included."""
        own = self._state.structure.own(table)
        staged = self._state.staged.get(own.id, Staged())
        plan = self._base_plan(own)
        if plan is not None and plan.table == own and staged.empty:
            return plan
        return staging.overlaid(plan, own, self.base, staged)

    def changes(self, table: TableLike) -> ChangePlan:
        """What this transaction has changed in the table so far, net."""
        own = self._state.structure.own(table)
        staged = self._state.staged.get(own.id, Staged())
        plan = self._base_plan(own) if staged.deletes else None  # new rows need no old ones
        return staging.staged_changes(plan, own, self.base, staged)

    def _base_plan(self, table: Table) -> ScanPlan | None:
        """The same one as long as the base is the same: rows are deleted by their places in it, and
        compaction gives the version other files."""
        old = self._before.by_id(table.id)
        if old is None:
            return None
        with self._lock:
            if table.id not in self._seen:
                self._seen[table.id] = self._lake.scan(old, self.base)
            return self._seen[table.id]

    # Rows

    def new_file(self, table: TableLike) -> str:
        """A fresh path for a Parquet file of the table; rollback removes what is there."""
        path = parquet.new_path(self.table(table))
        self._owned.add(path)
        return path

    def discard(self, path: str) -> None:
        """A file or folder that must not outlive the transaction unless it is used."""
        self._owned.add(path)

    def insert_rows(self, table: TableLike, rows: pa.Table, row_ids: pa.Array | None = None) -> int:
        """Insert Arrow rows (columns by name; one left out is NULL); the number of rows.

        ``row_ids``: the ids that updated rows keep; NULL or no array means a new row. Up to
        ``inline_row_limit`` rows go into the catalog, more into a Parquet file. InvalidDataError
        for a value that does not fit or NULL in a NOT NULL column.
        """
        own = self.table(table)
        found = staging.fitted(own, rows)
        most = self._lake.settings
        many = found.num_rows > most.inline_row_limit or found.nbytes > most.inline_bytes
        ids = staging.numbered(found.num_rows, row_ids, None if many else self._new_id)
        staged = self._staged(own)
        staged = replace(staged, rows=(*staged.rows, found.append_column(ROW_ID, ids)))
        if many:
            staged = self._in_files(own, staged)
        self._stage(own, staged)
        return int(rows.num_rows)

    def insert_files(self, table: TableLike, files: Sequence[NewFile]) -> int:
        """Add Parquet files written by somebody else with the table's field ids; their rows."""
        own = self.table(table)
        for file in files:
            self._owned.add(file.path)
        paths = [parquet.with_inner_ids(f.path, own, self.new_file(own)) for f in files]
        facts = [parquet.facts(path, own.columns, own) for path in paths]
        found = tuple(StagedFile(self._new_id(), f) for f in facts if f.rows)
        staged = self._staged(own)
        self._stage(own, replace(staged, files=(*staged.files, *found)))
        return sum(f.facts.rows for f in found)

    def delete_rows(
        self, table: TableLike, positions_by_file: Positions, row_ids: Sequence[int] | pa.Array = ()
    ) -> int:
        """Delete rows seen in this transaction's scan: file rows by position, inlined by row id."""
        own, gone = self.table(table), positions.of(row_ids)
        dead = {i: positions.of(p) for i, p in positions_by_file.items() if len(p)}
        self._stage(own, self._staged(own).with_deletes(dead, gone))
        return sum(len(p) for p in dead.values()) + len(gone)

    def earlier_deletes(self, table: TableLike) -> tuple[Mapping[int, list[DeleteRow]], int]:
        """The delete files that the base has, by data file; and the next version, as it seems."""
        found = row_files.earlier_files(self._lake, self.table(table), self.base)
        return found, self._lake.version() + 1

    def delete_written(
        self, table: TableLike, made: Mapping[int, DeathFile], ids: pa.Array
    ) -> None:
        """Delete rows seen in this transaction's scan, by delete files that somebody else wrote."""
        own = self.table(table)
        self._stage(own, self._staged(own).with_written(made, positions.of(ids)))

    def truncate(self, table: TableLike) -> int:
        """Delete all rows; how many there were."""
        own, count = self.table(table), self.scan(table).rows
        self._stage(own, Staged(truncated=True, assumes=self._staged(own).assumes))
        return count

    def _staged(self, table: Table) -> Staged:
        return self._state.staged.get(table.id, Staged())

    def _stage(self, table: Table, staged: Staged) -> None:
        self._open()
        with self._lock:
            self._state = replace(self._state, staged=self._state.staged | {table.id: staged})

    def _in_files(self, table: Table, staged: Staged) -> Staged:
        return row_files.in_files(table, staged, lambda: self.new_file(table), self._new_id)

    # The end

    @property
    def writes(self) -> bool:
        """Whether rows of any table were written."""
        return bool(self.written())

    def staged(self, table: Table) -> Staged | None:
        """The work on a table, None if there is none; the same object as long as none is added."""
        found = self._state.staged.get(table.id)
        return None if found is None or found.empty else found

    def written(self) -> list[Table]:
        """The tables with work on them."""
        found = map(self._state.structure.by_id, self._state.staged)
        return [table for table in found if table is not None and self.staged(table) is not None]

    def staged_in(self, uuid: str) -> bool:
        """Whether there is work on the table with that identity."""
        return any(table.uuid == uuid for table in self.written())

    def forget(self, table: Table) -> None:
        """Drop what is staged for a table."""
        with self._lock:
            staged = {i: work for i, work in self._state.staged.items() if i != table.id}
            self._state = replace(self._state, staged=staged)

    def derive(self, table: Table) -> None:
        """Forget the work on a table; what is staged from now on is computed from the rest."""
        with self._lock:
            self.forget(table)
            self._state = replace(self._state, derived=self._state.derived | {table.id})

    @property
    def notes(self) -> Mapping[str, Any]:
        """What participants remember of this transaction; savepoints go back to it."""
        return self._state.notes

    def note(self, key: str, value: Any) -> None:
        with self._lock:
            self._state = replace(self._state, notes={**self._state.notes, key: value})

    def rebase(self) -> bool:
        """Move onto the newest version, if there is a newer one; whether there was.

        CommitConflictError if others got in the way of what was written. What participants staged
        was computed from the old version: they have to do it anew.
        """
        self._open()
        with self._lake.reading() as connection:
            newest = latest_ids(connection).version
            if newest == self.base:
                return False
            structure = self._lake.structure(newest)
            others = rebase.check(connection, self.base, self._before, self._state.own)

            def move(table: Table, staged: Staged) -> Staged:
                theirs = others.by_table.get(table.id, {})
                planner = self._lake.planner
                mover = Mover(connection, planner, table, self.base, newest, theirs)
                return mover.moved(staged, self._seen.get(table.id))

            states = [
                rebase.moved(state, self._before, structure, move)
                for state in (*self._savepoints.values(), self._state)
            ]
        *moved, self._state = states
        self._savepoints = dict(zip(self._savepoints, moved, strict=True))
        self._before, self.base, self._seen = structure, newest, {}
        return True

    def assume(self, table: TableLike) -> None:
        """Have the commit fail if others add rows: what is done rests on rows that are not there."""
        own = self.table(table)
        self._stage(own, replace(self._staged(own), assumes=True))

    def read(self, table: TableLike) -> None:
        """Put the table in the read set: commit fails if its rows or columns moved since base."""
        number = self._state.structure.own(table).id
        with self._lock:
            self._state = replace(self._state, reads=self._state.reads | {number})

    def record(self, callback: Record) -> None:
        """Have ``callback`` write its own rows inside the commit.

        Records alone make no new version: the callback then gets the version that is there.
        """
        self._open()
        self._state = replace(self._state, records=(*self._state.records, callback))

    def rollback(self) -> None:
        """Forget everything and remove the files this transaction was told about."""
        self._over = True
        self._owned.remove()

    def commit(
        self,
        message: str | None = None,
        *,
        newest: bool = False,
        alone: Callable[[], object] | None = None,
    ) -> int:
        """Commit; the new version, or the base version if there was nothing to commit.

        ``alone``: more work, done while all other writers wait.

        ``newest``: on top of what others committed meanwhile, if it is not in the way of what was
        written. Under the write lock nobody can commit any more: what participants computed from
        an older version is computed anew there, so that no cross term of two writers is lost.
        CommitConflictError if another writer got in the way; the transaction is then over, its
        files are removed. After CommitUnknownError it is over too, and its files stay.
        """
        self._open()
        try:
            version = self._commit(message, newest, alone)
            self._over = True
        except BaseException as error:
            if may_stand(error):
                self._owned.give_up()
            with suppress(TrickleError):  # the error that ended the commit is the one to show
                self.rollback()
            raise
        with suppress(TrickleError):  # it is committed; remove_orphans takes what stays behind
            self._owned.remove()
        return version

    def _commit(self, message: str | None, newest: bool, alone: Callable[[], object] | None) -> int:
        work, later = None, (CommitConflictError,) if newest else ()
        with suppress(*later):  # what fits no older version is done under the lock
            work = self._work(message)
        if work is not None and not (work.changes_lake or work.records or alone is not None):
            return self.base
        with self._lake.writing() as connection:
            moved = newest and self.rebase()
            if alone is not None:
                alone()
            if work is None or moved or alone is not None:
                work = self._work(message)
            work = self._lake.committer().on_newest(connection, work)
            late = self._under_lock(connection)
            said = (*work.records, *(r for each in late for r in each.records))
            work = replace(work, late=self._late, records=said)
            version = self._lake.committer().commit(connection, work)
        self._owned.hand_over(work.files)
        for each in late:
            if each.done is not None:
                each.done(version, self._late)
        reach("after-commit")
        if work.changes_lake:
            self._lake.committed({**work.staged, **work.late})
        return version

    def _under_lock(self, connection: Connection) -> list[Late]:
        late = [p.under_lock(self, connection, self._lake.version()) for p in self.participants]
        self._late = {i: self._fitting(i, s) for each in late for i, s in each.staged.items()}
        self._sync(self._late)
        return late

    def _sync(self, staged: Mapping[int, Staged]) -> None:
        if paths := [path for work in staged.values() for path in work.paths]:
            self._lake.files.sync(paths)

    def _fitting(self, number: int, staged: Staged) -> Staged:
        table = self._state.structure.by_id(number)
        assert table is not None
        few = fit_catalog(staged.rows, table.columns, self._lake.settings.inline_row_limit)
        return staged if few else self._in_files(table, staged)

    def _filed(self, table: Table, staged: Staged) -> Staged:
        staged = self._fitting(table.id, staged)
        if sum(map(len, staged.dead.values())) <= self._lake.settings.inline_delete_limit:
            return staged
        plan = self._base_plan(table)
        return row_files.deaths_in_files(self._lake, table, plan, staged, self._owned)

    def _work(self, message: str | None) -> Work:
        records = [r for each in self.participants for r in each.before_commit(self)]
        structure = self._state.structure
        for number, staged in self._state.staged.items():
            table = structure.by_id(number)
            if table is not None and (made := self._filed(table, staged)) is not staged:
                self._stage(table, made)
        self._sync(self._state.staged)
        reach("files-synced")
        state = self._state
        said = replace(self.said, message=message or self.said.message)
        work = Work(self.base, self._before, structure, state.staged, self._owned, state.reads)
        return replace(work, records=(*state.records, *records), said=said, seen=self._seen)
