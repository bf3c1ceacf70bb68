"""The change of a source that is read through temporal filters: of the table, and of the clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from spark_trickle.compile import render
from spark_trickle.ir.nodes import Negate, Node, Scan, UnionAll
from spark_trickle.ir.types import Column, Side
from spark_trickle.ir.walk import ColumnIds
from spark_trickle.lower.query import lower_delta
from spark_trickle.maintain.refresh.job import Pinned
from spark_trickle.maintain.timed.clocks import TimedSource, ranges
from spark_trickle.storage.read.column_cache import Taken
from spark_trickle.storage.read.ranges import inside
from spark_trickle.storage.read.reader import net, read_changes
from spark_trickle.storage.read.search import search
from spark_trickle.storage.records import WEIGHT, ChangePlan, ScanPlan

if TYPE_CHECKING:
    from spark_trickle.spark.run import Run
    from spark_trickle.spark.writing.spill import Rows


@dataclass(frozen=True)
class TimedDelta:
    """p and q are the filters at the clock before and after: p of the change of the table, plus
    q without p and minus p without q of the table as it is after."""

    run: Run
    source: Pinned
    shown: TimedSource
    columns: Sequence[Column]
    """Those that are read."""

    def rows(self) -> Rows:
        """Net, with weights; large ones stay with Spark."""
        crossed = self.shown.crossed(self.source.relation())
        limits = self.run.limits
        few = self._changes.empty or self.source.few(limits)
        if crossed:
            few = few and sum(plan.bytes for _, plan in crossed) <= limits.delta_bytes
            few = few and sum(len(plan.files) for _, plan in crossed) <= limits.read_files
        found = self._here(crossed) if few else None
        return self._on_spark(crossed) if found is None else found

    @property
    def _names(self) -> list[str]:
        read = {column.name for column in self.columns}
        return [column.name for column in self.source.table.columns if column.name in read]

    def _here(self, crossed: Sequence[tuple[int, ScanPlan]]) -> pa.Table | None:
        """Read in this process; None if it is too much."""
        taken = Taken()
        parts = [self._changed(taken)]
        for weight, plan in crossed:
            found = search(plan, self._names, [{}], taken, self.run.limits.delta_rows)
            if found is None:
                return None
            weights = pa.repeat(pa.scalar(weight, pa.int64()), found.num_rows)
            parts.append(found.append_column(WEIGHT, weights).cast(parts[0].schema))
        self.run.note_read(taken.rows, taken.bytes)
        return net(pa.concat_tables(parts), self._names)

    @property
    def _changes(self) -> ChangePlan:
        """Those that the filters may have let through before."""
        plan = self.source.changes
        assert plan is not None
        if self.shown.before is None:
            return replace(plan, files=(), inlined=plan.inlined.slice(0, 0))
        return plan

    def _changed(self, taken: Taken) -> pa.Table:
        before = self.shown.before or {}
        names = [*self._names, *(name for name in before if name not in self._names)]
        rows = read_changes(self._changes, names, taken)
        rows = rows.filter(pa.array(inside(rows, ranges(before))))
        return rows.select([*self._names, WEIGHT])

    def _on_spark(self, crossed: Sequence[tuple[int, ScanPlan]]) -> Rows:
        ids = ColumnIds()
        read = {column.name: column for column in self.columns}
        own = [read[name] for name in self._names]
        changes = self._changes
        self.run.reads(changes.bytes + sum(plan.bytes for _, plan in crossed))
        views: list[str] = []
        terms: list[Node] = []

        def term(view: str, version: Side) -> Node:
            views.append(view)
            return Scan(str(len(views) - 1), tuple(map(ids.copy, own)), version)

        if not changes.empty:
            within = ranges(self.shown.before or {})
            terms.append(term(self.run.changes(changes, within), Side.DELTA))
        for weight, plan in crossed:
            scan = term(self.run.scan(plan), Side.AFTER)
            terms.append(scan if weight > 0 else Negate(scan))

        def name(source: str, _: Side) -> exp.Table:
            return exp.Table(this=exp.Identifier(this=views[int(source)], quoted=True))

        whole = UnionAll(tuple(terms), tuple(map(ids.copy, own)))
        query = lower_delta(whole, name, outputs=self._names)
        return self.run.small(self.run.spill(render(query)), self.run.limits.delta_rows)


def only_inserted(rows: Rows) -> bool:
    """Whether no row goes, as far as is known here."""
    return isinstance(rows, pa.Table) and all(w > 0 for w in rows.column(WEIGHT).to_pylist())
