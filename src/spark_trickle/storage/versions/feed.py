"""Plans of a table, its rows at a version and its changes between two: made from the catalog alone, of
what differs, and kept.

Every commit records which tables it changed. So a plan holds from its table's last change on, and where
only rows in the catalog changed since, the next one follows from it.

Law of changes: a file that is in both versions contributes the positions that died in between; one
that is in only one of them contributes its live rows there. Rewritten files keep the version of each
row (``FILE_VERSION``) and of each death, so compaction shows nowhere.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.storage.catalog.database import Connection, in_parts
from spark_trickle.storage.commits import conflicts
from spark_trickle.storage.files import positions
from spark_trickle.storage.files.parquet import batches
from spark_trickle.storage.manifest.file_list import FileList
from spark_trickle.storage.manifest.pieces import FileRow
from spark_trickle.storage.manifest.possible import possible_files
from spark_trickle.storage.read.pruning import WantedValues
from spark_trickle.storage.records import (
    FILE_VERSION,
    ChangePlan,
    DataFile,
    FileChange,
    ScanPlan,
    Table,
)
from spark_trickle.storage.versions import preimages
from spark_trickle.storage.versions.lists import (
    died_in,
    listed,
    listed_of,
    relisted,
    steady_files,
    touched,
)
from spark_trickle.storage.versions.planning import Planner, check_readable, weighted

_PLANS = 256
_ASKS = 3
"""So often a process asks which files a condition needs; as long as some asks takes it to read the list."""
_REARRANGED = frozenset((*conflicts.COMPACTED, *conflicts.SHAPED))
"""What changes more of a table's files than the catalog says of the version."""
VersionRange = tuple[int, int]
"""The oldest and the newest version, as a connection sees them."""


class Plans:
    """The plans of one lake; safe for use from several threads."""

    def __init__(self, planner: Planner, moves: conflicts.LastMoves) -> None:
        self._planner = planner
        self._moves = moves
        self._seen = -1
        self._plans: OrderedDict[tuple[Any, ...], ScanPlan | ChangePlan] = OrderedDict()
        self._files: OrderedDict[int, tuple[int, FileList]] = OrderedDict()
        """By table: the newest version whose files are known, and these."""
        self._asked: Counter[int] = Counter()
        """By table: how often some of its files were asked for, as the list was not known."""
        self._lock = threading.Lock()

    def scan(
        self,
        connection: Connection,
        table: Table,
        version: int,
        bounds: VersionRange,
        wanted: Sequence[WantedValues] = (),
    ) -> ScanPlan:
        """A plan of all files; it may lack some that hold no row that meets all that is wanted."""
        key = ("scan", table.id, self._stamp(connection, table, version, bounds), table)
        plan = self._cached(key)
        if not isinstance(plan, ScanPlan):
            some = self._some(connection, table, version, bounds, wanted)
            if some is not None:
                return some
            plan = self._planned(connection, table, version, bounds)
            self._keep(key, plan)
        return plan if plan.version == version else replace(plan, version=version)

    def changes(
        self, connection: Connection, table: Table, before: int, after: int, bounds: VersionRange
    ) -> ChangePlan:
        """The change of a table that was there before."""
        self._moves.near(connection, before, bounds[1])
        if self._stamp(connection, table, after, bounds) <= before:
            return ChangePlan(table, before, after, (), weighted(table, []))
        return self.changes_of_new(connection, table, before, after)

    def changes_of_new(
        self, connection: Connection, table: Table, before: int, after: int
    ) -> ChangePlan:
        """The change of a table that may have been made, with rows, after ``before``."""
        key = ("changes", table.id, before, after, table)
        plan = self._cached(key)
        if not isinstance(plan, ChangePlan):
            plan = changes(self._planner, connection, table, before, after)
            if any(change.positions is not None for change in plan.files):
                plan = preimages.resolve(connection, plan)
            self._keep(key, plan)
        return plan

    def see(self, connection: Connection, newest: int) -> None:
        """Plans stay right for ever, except that compaction takes their files away."""
        if newest == self._seen:
            return
        if self._seen >= 0 and self._plans:
            first = self._moves.near(connection, self._seen, newest)
            with self._lock:
                unknown = first > self._seen
                for key in [k for k in self._plans if unknown or self._rewritten(k[1])]:
                    del self._plans[key]
        self._seen = newest

    def _rewritten(self, table: int) -> bool:
        counts = conflicts.COMPACTED.__contains__
        return self._moves.of(table, self._seen, counts) > self._seen

    def _stamp(
        self, connection: Connection, table: Table, version: int, bounds: VersionRange
    ) -> int:
        """The version since which the table has been as it is at ``version``, as far as it is known."""
        first = self._moves.near(connection, version, bounds[1])
        last = self._moves.of(table.id, first)
        return last if last <= version else version

    def _some(
        self,
        connection: Connection,
        table: Table,
        version: int,
        bounds: VersionRange,
        wanted: Sequence[WantedValues],
    ) -> ScanPlan | None:
        """A plan of the files that may hold what is wanted; None: the list is known, or worth reading.

        It is made in one transaction, the rows in the catalog included, and kept for nobody.
        """
        if not wanted or self._asked[table.id] >= _ASKS or self._known(connection, table, bounds):
            return None
        ids = possible_files(connection, table, version, wanted)
        self._asked[table.id] += 1 if ids is not None else _ASKS
        if ids is None:
            return None
        files = listed_of(self._planner, connection, table, ids, version)
        return self._planner.scan(connection, table, version, files)

    def _planned(
        self, connection: Connection, table: Table, version: int, bounds: VersionRange
    ) -> ScanPlan:
        """A plan from what changed since the newest of the table, or made anew.

        What went before the oldest version is no longer there to be seen going.
        """
        files = self._listed(connection, table, version, bounds)
        key = ("newest", table.id)
        plan = self._cached(key)
        follows = isinstance(plan, ScanPlan) and bounds[0] <= plan.version <= version
        if isinstance(plan, ScanPlan) and follows and plan.table == table:
            new = self._planner.advanced(connection, plan, version, files)
        else:
            new = self._planner.scan(connection, table, version, files)
        if new.inlined.num_rows and not (isinstance(plan, ScanPlan) and plan.version > version):
            self._keep(key, new)
        return new

    def _listed(
        self, connection: Connection, table: Table, version: int, bounds: VersionRange
    ) -> FileList:
        """The files of a version: those of the newest one that was asked for, and what differs.

        A connection that began earlier does not see what came since: it lists for itself.
        """
        usable = self._known(connection, table, bounds)
        if usable is not None:
            known, files = usable
            found = relisted(self._planner, connection, files, known, version)
            if version > known:
                self._keep_files(table.id, version, found)
            return found
        found = listed(self._planner, connection, table, version)
        with self._lock:
            known, _ = self._files.get(table.id, (-1, None))
        if known <= bounds[1]:
            self._keep_files(table.id, version, found)
        return found

    def _known(
        self, connection: Connection, table: Table, bounds: VersionRange
    ) -> tuple[int, FileList] | None:
        """The newest version whose files are known, and these, if others may follow from them."""
        with self._lock:
            known, files = self._files.get(table.id, (-1, None))
        if files is None or not bounds[0] <= known <= bounds[1]:
            return None
        first = self._moves.near(connection, known, bounds[1])
        last = self._moves.of(table.id, 0, _REARRANGED.__contains__)
        return (known, files) if max(first, last) <= known else None

    def _keep_files(self, table: int, version: int, files: FileList) -> None:
        with self._lock:
            self._files[table] = (version, files)
            self._files.move_to_end(table)
            while len(self._files) > _PLANS:
                self._files.popitem(last=False)

    def _cached(self, key: tuple[Any, ...]) -> ScanPlan | ChangePlan | None:
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None:
                self._plans.move_to_end(key)
            return plan

    def _keep(self, key: tuple[Any, ...], plan: ScanPlan | ChangePlan) -> None:
        with self._lock:
            self._plans[key] = plan
            while len(self._plans) > _PLANS:
                self._plans.popitem(last=False)


def changes(
    planner: Planner, connection: Connection, table: Table, before: int, after: int
) -> ChangePlan:
    """The net change of ``table`` (its structure at ``after``) in the window (before, after]."""
    check_readable(table)
    rows = _by_ids(planner, connection, table, touched(connection, table, before, after))
    steady = steady_files(planner, connection, table, rows, before, after)
    died = died_in(connection, table, steady, before, after)
    kept = planner.files(connection, table, [r for r in rows if r.id in steady], after, died)
    found = [FileChange(f, -1, len(died[f.id]), died[f.id]) for f in kept if f.id in died]
    others = [row for row in rows if row.id not in steady]
    old, new = (_shown(planner, connection, table, others, at) for at in (before, after))
    for row in others:
        found += _of_file(planner, table, row, old.get(row.id), new.get(row.id), before)
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


def _shown(
    planner: Planner, connection: Connection, table: Table, rows: Sequence[FileRow], version: int
) -> dict[int, DataFile]:
    """Of these files those that a version has, as it shows them."""
    there = [row for row in rows if row.visible(version)]
    dead = planner.dead(connection, table, version, [row.id for row in there]) if there else {}
    return {file.id: file for file in planner.files(connection, table, there, version, dead)}


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
