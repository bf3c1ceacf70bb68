"""Plans that are kept: a commit to one table makes no plan of another one anew.

Every commit records which tables it changed. So a plan holds from its table's last change on, and where
only rows in the catalog changed since, the next one follows from it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace
from typing import Any

from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.commits import conflicts
from spark_trickle.storage.manifest.file_list import FileList
from spark_trickle.storage.records import ChangePlan, ScanPlan, Table
from spark_trickle.storage.versions import feed, preimages
from spark_trickle.storage.versions.planning import Planner

_PLANS = 256
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
        self._lock = threading.Lock()

    def scan(
        self, connection: Connection, table: Table, version: int, bounds: VersionRange
    ) -> ScanPlan:
        key = ("scan", table.id, self._stamp(connection, table, version, bounds), table)
        plan = self._cached(key)
        if not isinstance(plan, ScanPlan):
            plan = self._planned(connection, table, version, bounds)
            self._keep(key, plan)
        return plan if plan.version == version else replace(plan, version=version)

    def changes(
        self, connection: Connection, table: Table, before: int, after: int, bounds: VersionRange
    ) -> ChangePlan:
        """The change of a table that was there before."""
        self._moves.near(connection, before, bounds[1])
        if self._stamp(connection, table, after, bounds) <= before:
            return ChangePlan(table, before, after, (), feed.weighted(table, []))
        return self.changes_of_new(connection, table, before, after)

    def changes_of_new(
        self, connection: Connection, table: Table, before: int, after: int
    ) -> ChangePlan:
        """The change of a table that may have been made, with rows, after ``before``."""
        key = ("changes", table.id, before, after, table)
        plan = self._cached(key)
        if not isinstance(plan, ChangePlan):
            plan = feed.changes(self._planner, connection, table, before, after)
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
        with self._lock:
            known, files = self._files.get(table.id, (-1, None))
        if files is not None and bounds[0] <= known <= bounds[1]:
            first = self._moves.near(connection, known, bounds[1])
            if max(first, self._moves.of(table.id, 0, _REARRANGED.__contains__)) <= known:
                found = feed.relisted(self._planner, connection, files, known, version)
                if version > known:
                    self._keep_files(table.id, version, found)
                return found
        found = feed.listed(self._planner, connection, table, version)
        if known <= bounds[1]:
            self._keep_files(table.id, version, found)
        return found

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
