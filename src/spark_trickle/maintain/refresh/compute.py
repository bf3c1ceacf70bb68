"""What a refresh computes: part by part, in full or by deltas, each staged before the next reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from spark_trickle.compile import CompiledQuery, PartDelta, render
from spark_trickle.delta.reserve import TOGETHER, Reserve
from spark_trickle.delta.segment import RESULT, Part
from spark_trickle.delta.views import viewed
from spark_trickle.errors import ExecutionError
from spark_trickle.ir.types import Column, Side
from spark_trickle.ir.walk import scans
from spark_trickle.lower.query import lower
from spark_trickle.maintain.apply.delta import Applied, StoredPart, apply_delta, one_row
from spark_trickle.maintain.apply.locating import subtract
from spark_trickle.maintain.gather.finding import ScanFinder, pruned
from spark_trickle.maintain.gather.near_views import NearViews
from spark_trickle.maintain.gather.nearby import (
    Nearby,
    columns_read,
    countable,
    nearby,
    told,
)
from spark_trickle.maintain.refresh import locally
from spark_trickle.maintain.refresh.job import Pinned
from spark_trickle.maintain.refresh.reserve import MovedReserve, check, fill, in_memory, move
from spark_trickle.maintain.refresh.whole import compared, difference, few
from spark_trickle.maintain.timed.change import TimedDelta, only_inserted
from spark_trickle.maintain.timed.clocks import TimedSource
from spark_trickle.spark.writing.spill import Rows, Spill
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.files.types import arrow_schema
from spark_trickle.storage.read.column_cache import Taken
from spark_trickle.storage.read.reader import net, read_changes, read_scan
from spark_trickle.storage.read.search import Restriction
from spark_trickle.storage.records import WEIGHT, ScanPlan, Table
from spark_trickle.storage.versions.transaction import Transaction

if TYPE_CHECKING:
    from spark_trickle.spark.run import Run

TINY = 50_000
"""Up to this many rows Spark is not worth compiling for."""

TableOf = Callable[[str, Side], exp.Table]
ViewOf = Callable[[str, Side], str]


@dataclass
class Computation:
    """One refresh at work. ``applied`` is what it did to each part."""

    catalog: Catalog
    tx: Transaction
    run: Run
    compiled: CompiledQuery
    sources: Mapping[str, Pinned]
    stored: Mapping[str, StoredPart]
    """By the name of the part."""
    reserve: Reserve | None = None
    """Set for a TopK; ``whole`` then says whether the reserve is all of its input."""
    whole: bool = False
    timed: Mapping[str, TimedSource] = field(default_factory=dict)
    """The sources that are scanned through temporal filters, by the names of these scans."""
    idle: bool = False
    """Whether it went by deltas and there were none."""
    refilled: str | None = None
    """Why the reserve of a TopK was read from the query again, if it was: a code and a sentence."""
    applied: dict[str, Applied] = field(default_factory=dict)
    _deltas: dict[str, Rows] = field(default_factory=dict)
    _aside: dict[str, Rows] = field(default_factory=dict)
    """Deltas of views that came beside those of their segments."""
    _before: dict[str, ScanPlan] = field(default_factory=dict)
    """Parts that are the transaction's own work, as they were before their deltas."""

    def full(self) -> None:
        """Every part anew; what is published is the difference to what is stored."""
        for part in self.compiled.parts:
            if self.reserve is None or part.name not in TOGETHER:
                self._apply(part.name, self._whole(part))
        if self.reserve is not None:
            self._refill(self.reserve)

    def _whole(self, part: Part) -> Rows:
        """The difference to all rows of a part; few of them are worked on here, if that is proven."""
        names = [column.name for column in part.columns]
        here, stored = None, self.tx.scan(self.stored[part.name].table)
        tables, settings = locally.ScannedTables(self._scan), self.catalog.settings
        proven = self.compiled.unproven is None
        if proven and few(stored, settings.limits) and tables.few(part.plan, settings):
            here = locally.whole(part.plan, names, tables, ansi=self.compiled.ansi)
        if here is not None:
            here = compared(self.run, stored, here)
            if not locally.doubted():
                self.run.note_read(tables.taken.rows, tables.taken.bytes)
                return here
        query = lower(part.plan, self._names(), outputs=names)
        there = difference(self.run, stored, self.run.query(render(query)))
        if here is not None and not isinstance(there, Spill):
            locally.check(part.name, here, self._conform(part.name, there))
        return there

    def differential(self) -> None:
        """The parts that change, by their deltas."""
        changed = self._read_changes()
        self.idle = not changed
        insert_only = frozenset(filter(self._insert_only, changed))
        for delta in self.compiled.delta(changed, insert_only).parts:
            stored = self.stored[delta.part.name]
            if stored.single:
                one_row(stored.table, self._scan(delta.part.name, Side.BEFORE).rows)
            if self.reserve is None or delta.part.name not in TOGETHER:
                self._apply(delta.part.name, self._exactly(self._of_moved(delta, insert_only)))
        if self.reserve is not None:
            self._move(self.reserve, frozenset(changed) | self.applied.keys(), insert_only)

    def _insert_only(self, name: str) -> bool:
        if name in self.timed:
            return only_inserted(self._deltas[name])
        plan = self.sources[name].changes
        return plan is not None and plan.insert_only

    def _of_moved(self, delta: PartDelta, insert_only: frozenset[str]) -> PartDelta:
        """The delta without terms of parts that might have changed and did not."""
        known = {n: rows for n, rows in self._deltas.items() if isinstance(rows, pa.Table)}
        idle = {name for name in delta.changed & known.keys() if not known[name].num_rows}
        if not idle:
            return delta
        moved = delta.changed - idle
        return self.compiled.part_delta(delta.part, moved, insert_only & moved) or delta

    def _exactly(self, delta: PartDelta) -> Rows:
        """The delta of a part; by recomputing its groups where a sum over the changes overflows:
        the sum of the group may still fit, and if not, the error is Spark's own."""
        try:
            return self._compute(delta)
        except ExecutionError:
            if delta.recomputed is None:
                raise
            return self._compute(delta.recomputed)

    def _compute(self, delta: PartDelta) -> Rows:
        """The delta of a part; if there is a view of it, the view's is put aside."""
        if delta.part.name in self._aside:
            return self._aside.pop(delta.part.name)
        if not any(self._moved(scan.source) for scan in scans(delta.part.plan)):
            return self._schema(delta.part.name).empty_table()
        near = self._nearby(delta)
        if near is not None:
            return self._compute_nearby(delta, near)

        restrictions = {
            (scan.source, scan.side): told(delta.needs, self._deltas, scan.source, scan.side)
            for scan in scans(delta.plan)
        }
        self._reads(restrictions)

        def view(source: str, side: Side) -> str:
            return self._view(source, side, restrictions.get((source, side), ()))

        return self.run.fetch(render(delta.query(self._names(view))), self.run.limits.delta_rows)

    def _reads(self, restrictions: Mapping[tuple[str, Side], Sequence[Restriction]]) -> None:
        """Tell the run how many bytes a query over these reads."""
        total = 0
        for (source, side), keep in restrictions.items():
            if side is not Side.DELTA:
                plan = self._scan(source, side)
                total += (pruned(plan, keep) if keep else plan).bytes
            elif source not in self._deltas and (known := self.sources[source].changes) is not None:
                total += known.bytes
        self.run.reads(total)

    def _compute_nearby(self, delta: PartDelta, near: Mapping[str, Nearby]) -> Rows:
        beside = self._view_of(delta.part)
        rows = self._here(delta, near, beside)
        if rows is None:
            rows = self._on_spark(delta, near, beside)
        if beside is None:
            return rows
        if not isinstance(rows, Spill):
            self._aside[beside.name] = locally.of_view(rows, beside)
        return rows.select([*(column.name for column in delta.part.columns), WEIGHT])

    def _here(
        self, delta: PartDelta, near: Mapping[str, Nearby], beside: Part | None
    ) -> pa.Table | None:
        """The delta computed in this process; None if it is for Spark."""
        changed = {s.source for s in scans(delta.nearby) if s.side is Side.DELTA}
        alone = {n: rows for n in changed if isinstance(rows := self._deltas.get(n), pa.Table)}
        rows, most = locally.Near(near, alone), self.catalog.settings.local_rows
        if self.compiled.unproven is not None or not most or rows.rows > most:
            return None
        found = locally.compute(delta, beside, rows, ansi=self.compiled.ansi)
        if found is not None and locally.doubted():
            there = self._on_spark(delta, near, beside)
            if not isinstance(there, Spill):
                locally.check(delta.part.name, found, there)
        return found

    def _on_spark(self, delta: PartDelta, near: Mapping[str, Nearby], beside: Part | None) -> Rows:
        views = NearViews(near, lambda name, rows: self.run.rows(self._table(name), rows))

        def view(source: str, side: Side) -> str:
            if side is Side.DELTA and source not in near:
                return self._delta_view(source)
            return views.view(source, side)

        known = [found.rows for found in near.values()]
        tiny = sum(rows.num_rows for rows in known) <= TINY
        self.run.reads(sum(rows.nbytes for rows in known), tiny=tiny)
        query = views.complete(delta.query(self._names(view), nearby=True, view=beside))
        return self.run.fetch(render(query), self.run.limits.delta_rows)

    def _view_of(self, part: Part) -> Part | None:
        """What is made row by row of a part, and shown or reserved."""
        view = self.reserve.part if self.reserve is not None else self.compiled.result
        if viewed(view) != part.name:
            return None
        if any(pa.types.is_nested(item.type) for item in self._schema(view.name)):
            return None
        # Inside of nested values -0.0 becomes 0.0 on the way into the segment, and a text may tell.
        inside = (str(f.type) for f in self._schema(part.name) if pa.types.is_nested(f.type))
        return None if any("double" in kind or "float" in kind for kind in inside) else view

    def _nearby(self, delta: PartDelta) -> dict[str, Nearby] | None:
        """The rows near the changes, if these are known here and few."""
        changed = {s.source for s in scans(delta.nearby) if s.side is Side.DELTA}
        changed |= {s.source for s in scans(delta.plan) if s.side is Side.DELTA}
        if not all(isinstance(self._deltas.get(name), pa.Table) for name in changed):
            return None
        read = columns_read(delta)
        # What a part stores itself is staged only when its delta is known: until then it is before.
        plans = {name: self._scan(name, Side.AFTER) for name in read}
        columns = {
            name: tuple(c.name for c in plans[name].table.columns if c.name in wanted)
            for name, wanted in read.items()
        }
        if not all(countable(plans[name].table, columns[name]) for name in read):
            return None
        known = {n: rows for n, rows in self._deltas.items() if isinstance(rows, pa.Table)}
        finder = ScanFinder(self.run, plans, columns, self.catalog.distinct)
        return nearby(read, delta.needs, known, finder, self.run.limits.near_rows)

    def _moved(self, source: str) -> bool:
        """Whether the delta of a source or part has rows. It need not be read: a scalar aggregate
        reads its input as it is after."""
        rows = self._deltas.get(source)
        if rows is None:
            return source in self.sources and not self.sources[source].few(self.run.limits)
        return isinstance(rows, Spill) or rows.num_rows > 0

    def _move(self, reserve: Reserve, changed: frozenset[str], insert_only: frozenset[str]) -> None:
        """Apply the delta of a TopK's input to its reserve; read it again only if it runs dry."""
        moving = self.compiled.part_delta(reserve.part, changed, insert_only)
        if moving is None:
            return
        delta = self._compute(moving)
        if isinstance(delta, Spill):
            self.refilled = "LARGE_DELTA: the delta was larger than a reserve is good for"
            self._refill(reserve)
            return
        held = self._contents(reserve.part.name)
        check(reserve, held.num_rows, self._scan(RESULT, Side.BEFORE).rows)
        moved = move(reserve, held, self._conform(reserve.part.name, delta), whole=self.whole)
        if moved.reserve is None:
            self.refilled = "RESERVE_DRY: the rows behind the result were used up"
            self._refill(reserve)
        else:
            self._publish(reserve, moved, moved.reserve, self._shown(moved))

    def _refill(self, reserve: Reserve) -> None:
        names = [column.name for column in reserve.part.columns]
        self._reads({(scan.source, scan.side): () for scan in scans(reserve.part.plan)})
        query = lower(reserve.first(), self._names(), outputs=names)
        rows = self.run.fetch(render(query), reserve.capacity + 1)
        moved = fill(reserve, self._conform(reserve.part.name, in_memory(rows)))
        assert moved.reserve is not None
        self._publish(
            reserve,
            moved,
            subtract(moved.reserve, self._contents(reserve.part.name)),
            subtract(self._shown(moved), self._contents(RESULT)),
        )

    def _publish(
        self, reserve: Reserve, moved: MovedReserve, kept: pa.Table, shown: pa.Table
    ) -> None:
        self._apply(reserve.part.name, kept)
        self._apply(RESULT, shown)
        self.whole = moved.whole

    def _shown(self, moved: MovedReserve) -> pa.Table:
        assert moved.result is not None
        names = [column.name for column in self.stored[RESULT].table.columns]
        return moved.result.rename_columns([*names, WEIGHT])

    def _contents(self, part: str) -> pa.Table:
        return self._conform(part, read_scan(self.tx.scan(self.stored[part].table)))

    def _read_changes(self) -> list[str]:
        """Read few changes here, so that their keys are known; the sources that really changed."""
        changed = []
        through = {shown.source for shown in self.timed.values()}
        for name, source in self.sources.items():
            plan = source.changes
            if plan is None or plan.empty or (name in through and not self._scanned(name)):
                continue
            if source.few(self.run.limits):
                read = {column.name for column in self._scanned(name)}
                columns = [c.name for c in source.table.columns if c.name in read]
                taken = Taken()
                rows = net(read_changes(plan, columns, taken), columns)
                self.run.note_read(taken.rows, taken.bytes)
                if rows.num_rows == 0:
                    continue
                self._deltas[name] = rows
            changed.append(name)
        for name, shown in self.timed.items():
            source = self.sources[shown.source]
            timed = TimedDelta(self.run, source, shown, self._scanned(name)).rows()
            if isinstance(timed, Spill) or timed.num_rows:
                self._deltas[name] = timed
                changed.append(name)
        return changed

    def _scanned(self, name: str) -> list[Column]:
        """The columns that are read of a source or part."""
        plans = [part.plan for part in self.compiled.parts]
        return [c for plan in plans for s in scans(plan) if s.source == name for c in s.columns]

    def _apply(self, part: str, rows: Rows) -> None:
        if not isinstance(rows, Spill):
            rows = self._conform(part, rows)
        self._deltas[part] = rows
        table = self.stored[part].table
        if table.id < 0 or self.tx.staged(table) is not None:
            self._before[part] = self.tx.scan(table)
        self.applied[part] = apply_delta(self.run, self.tx, self.stored[part], rows)

    def _schema(self, part: str) -> pa.Schema:
        fields = arrow_schema(self.stored[part].table.columns)
        return fields.append(pa.field(WEIGHT, pa.int64()))

    def _conform(self, part: str, rows: pa.Table) -> pa.Table:
        """Rows in the Arrow types of the part's table, so that equal values compare equal."""
        schema = self._schema(part)
        schema = pa.schema([schema.field(name).with_nullable(True) for name in rows.column_names])
        return rows.cast(schema)

    def _names(self, view: ViewOf | None = None) -> TableOf:
        known: dict[tuple[str, Side], str] = {}

        def name(source: str, side: Side) -> exp.Table:
            place = (source, side)
            if place not in known:
                known[place] = (view or self._view)(source, side)
            return exp.Table(this=exp.Identifier(this=known[place], quoted=True))

        return name

    def _view(self, source: str, side: Side, keep: Sequence[Restriction] = ()) -> str:
        if side is Side.DELTA:
            return self._delta_view(source)
        plan = self._scan(source, side)
        return self.run.scan(pruned(plan, keep) if keep else plan, keep)

    def _scan(self, source: str, side: Side) -> ScanPlan:
        if source in self.stored:
            table = self.stored[source].table
            if side is Side.AFTER or source not in self.applied:
                return self.tx.scan(table)
            if source in self._before:
                return self._before[source]
            return self.catalog.scan(table, self.tx.base)
        shown = self.timed.get(source)
        pinned = self.sources[source if shown is None else shown.source]
        plan = pinned.relation(side)
        return plan if shown is None else shown.scan(plan, after=side is Side.AFTER)

    def _delta_view(self, source: str) -> str:
        if source in self._deltas:
            return self.run.rows(self._table(source), self._deltas[source])
        plan = self.sources[source].changes
        assert plan is not None
        return self.run.changes(plan)

    def _table(self, source: str) -> Table:
        if source in self.stored:
            return self.stored[source].table
        return self.sources[self.timed[source].source if source in self.timed else source].table
