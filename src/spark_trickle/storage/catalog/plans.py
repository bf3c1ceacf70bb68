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
from spark_trickle.storage.records import ChangePlan, ScanPlan, Table
from spark_trickle.storage.versions import conflicts, feed, preimages
from spark_trickle.storage.versions.planning import Planner

_PLANS = 256
VersionRange = tuple[int, int]
"""The oldest and the newest version, as a connection sees them."""


class Plans:
    """The plans of one lake; safe for use from several threads."""

    def __init__(self, planner: Planner, moves: conflicts.LastMoves) -> None:
        self._planner = planner
        self._moves = moves
        self._seen = -1
        self._plans: OrderedDict[tuple[Any, ...], ScanPlan | ChangePlan] = OrderedDict()
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
        self._moves.since(connection, before, bounds[1])
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
            plan = preimages.resolve(connection, plan)
            self._keep(key, plan)
        return plan

    def see(self, connection: Connection, newest: int) -> None:
        """Plans stay right for ever, except that compaction takes their files away."""
        if newest == self._seen:
            return
        if self._seen >= 0 and self._plans:
            self._moves.since(connection, self._seen, newest)
            with self._lock:
                for key in [k for k in self._plans if self._rewritten(k[1])]:
                    del self._plans[key]
        self._seen = newest

    def _rewritten(self, table: int) -> bool:
        counts = conflicts.COMPACTED.__contains__
        return self._moves.of(table, self._seen, counts) > self._seen

    def _stamp(
        self, connection: Connection, table: Table, version: int, bounds: VersionRange
    ) -> int:
        """The version since which the table has been as it is at ``version``, as far as it is known."""
        first = self._moves.since(connection, version, bounds[1])
        last = self._moves.of(table.id, first)
        return last if last <= version else version

    def _planned(
        self, connection: Connection, table: Table, version: int, bounds: VersionRange
    ) -> ScanPlan:
        """A plan made anew or, if only rows in the catalog changed, from the newest of the table.

        What went before the oldest version is no longer there to be seen going.
        """
        key = ("newest", table.id)
        plan = self._cached(key)
        if isinstance(plan, ScanPlan) and plan.table == table:
            self._moves.since(connection, plan.version, bounds[1])
            filed = self._moves.of(table.id, 0, lambda kind: kind not in conflicts.INLINED)
            if filed <= plan.version and bounds[0] <= plan.version <= version:
                plan = self._planner.advanced(connection, plan, version)
                self._keep(key, plan)
                return plan
        plan = self._planner.scan(connection, table, version)
        if plan.inlined.num_rows and not plan.files:
            self._keep(key, plan)
        return plan

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
