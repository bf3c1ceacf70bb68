"""What a refresh computes: part by part, in full or by deltas, each staged before the next reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from spark_trickle.compile import CompiledQuery, PartDelta, render
from spark_trickle.delta.change import difference
from spark_trickle.delta.needs import Need
from spark_trickle.delta.parts import delta_part
from spark_trickle.delta.segment import RESULT
from spark_trickle.ir.nodes import Scan
from spark_trickle.ir.types import Version
from spark_trickle.ir.walk import fresh_ids, scans
from spark_trickle.lower.query import lower, lower_delta
from spark_trickle.maintain.apply import Applied, Stored, apply_delta
from spark_trickle.maintain.matching import subtract
from spark_trickle.maintain.reserve import Moved, Reserve, fill, move
from spark_trickle.spark.spill import Rows, Spill
from spark_trickle.storage.catalog import Catalog
from spark_trickle.storage.reader import read_changes, read_scan
from spark_trickle.storage.records import WEIGHT, ChangePlan, ScanPlan, Table
from spark_trickle.storage.transaction import Transaction
from spark_trickle.storage.types import arrow_schema

if TYPE_CHECKING:
    from spark_trickle.spark.run import Run

FEW = 20_000
"""Deltas of up to this many rows are worked on in this process."""

Names = Callable[[str, Version], exp.Table]


@dataclass(frozen=True)
class Pinned:
    """A source of one refresh, at the two versions it moves between."""

    table: Table
    before: int
    after: int
    changes: ChangePlan | None
    """None: the change is not known, only a full run can tell."""

    @property
    def changed_rows(self) -> int:
        plan = self.changes
        return plan.inserted_rows + plan.deleted_rows if plan is not None else 0


@dataclass
class Computation:
    """One refresh at work. ``applied`` is what it did to each part."""

    catalog: Catalog
    tx: Transaction
    run: Run
    compiled: CompiledQuery
    sources: Mapping[str, Pinned]
    stored: Mapping[str, Stored]
    """By the name of the part."""
    reserve: Reserve | None = None
    """Set for a TopK; ``whole`` then says whether the reserve is all of its input."""
    whole: bool = False
    refilled: str | None = None
    """Why the reserve of a TopK was read from the query again, if it was: a code and a sentence."""
    applied: dict[str, Applied] = field(default_factory=dict)
    _deltas: dict[str, Rows] = field(default_factory=dict)

    @property
    def small(self) -> bool:
        """Whether the changes of every source are few."""
        return all(source.changed_rows <= FEW for source in self.sources.values())

    def full(self) -> None:
        """Every part anew; what is published is the difference to what is stored."""
        parts = self.compiled.segments if self.reserve else self.compiled.parts
        for part in parts:
            ids = fresh_ids(part.plan)
            own = Scan(part.name, tuple(map(ids.copy, part.columns)), Version.BEFORE)
            empty = self.tx.scan(self.stored[part.name].table).rows == 0
            plan = part.plan if empty else difference(part.plan, own)
            query = lower_delta(plan, self._names(), outputs=[c.name for c in part.columns])
            self._apply(part.name, self.run.small(self.run.spill(render(query)), FEW))
        if self.reserve is not None:
            self._refill(self.reserve)

    def differential(self) -> None:
        """The parts that change, by their deltas."""
        changed = self._read_changes()
        insert_only = frozenset(
            name
            for name in changed
            if (plan := self.sources[name].changes) is not None and plan.insert_only
        )
        for delta in self.compiled.delta(changed, insert_only).parts:
            if delta.part.name != RESULT or self.reserve is None:
                self._apply(delta.part.name, self._compute(delta))
        if self.reserve is not None:
            self._move(self.reserve, frozenset(changed) | self.applied.keys(), insert_only)

    def _compute(self, delta: PartDelta) -> Rows:
        read = {scan.source for scan in scans(delta.plan) if scan.version is Version.DELTA}
        if all(self._empty(source) for source in read):
            schema = self._schema(delta.part.name)
            return schema.empty_table()
        wanted = {(need.source, need.version): need for need in delta.needs}
        return self.run.fetch(render(delta.query(self._names(wanted))), FEW)

    def _empty(self, source: str) -> bool:
        rows = self._deltas.get(source)
        return rows is not None and not isinstance(rows, Spill) and rows.num_rows == 0

    def _move(self, reserve: Reserve, changed: frozenset[str], insert_only: frozenset[str]) -> None:
        """Apply the delta of a TopK's input to its reserve; read it again only if it runs dry."""
        plan = delta_part(reserve.part, changed, insert_only)
        if plan is None:
            return
        delta = self._compute(PartDelta(reserve.part, plan))
        if isinstance(delta, Spill):
            self.refilled = "LARGE_DELTA: the delta was larger than a reserve is good for"
            self._refill(reserve)
            return
        held = self._contents(reserve.part.name)
        moved = move(reserve, held, self._conform(reserve.part.name, delta), whole=self.whole)
        if moved.reserve is None:
            self.refilled = "RESERVE_DRY: the rows behind the result were used up"
            self._refill(reserve)
        else:
            self._publish(reserve, moved, moved.reserve, self._shown(moved))

    def _refill(self, reserve: Reserve) -> None:
        names = [column.name for column in reserve.part.columns]
        query = lower(reserve.first(), self._names(), outputs=names)
        rows = self.run.fetch(render(query), reserve.capacity + 1)
        assert not isinstance(rows, Spill)
        moved = fill(reserve, self._conform(reserve.part.name, rows))
        assert moved.reserve is not None
        self._publish(
            reserve,
            moved,
            subtract(moved.reserve, self._contents(reserve.part.name)),
            subtract(self._shown(moved), self._contents(RESULT)),
        )

    def _publish(self, reserve: Reserve, moved: Moved, kept: pa.Table, shown: pa.Table) -> None:
        self._apply(reserve.part.name, kept)
        self._apply(RESULT, shown)
        self.whole = moved.whole

    def _shown(self, moved: Moved) -> pa.Table:
        assert moved.result is not None
        names = [column.name for column in self.stored[RESULT].table.columns]
        return moved.result.rename_columns([*names, WEIGHT])

    def _contents(self, part: str) -> pa.Table:
        return self._conform(part, read_scan(self.tx.scan(self.stored[part].table)))

    def _read_changes(self) -> list[str]:
        """Read few changes here, so that their keys are known; the sources that really changed."""
        changed = []
        for name, source in self.sources.items():
            plan = source.changes
            if plan is None or plan.empty:
                continue
            if source.changed_rows <= FEW:
                rows = net(read_changes(plan), self._columns_read(name))
                self.run.note_read(source.changed_rows, plan.bytes)
                if rows.num_rows == 0:
                    continue
                self._deltas[name] = rows
            changed.append(name)
        return changed

    def _columns_read(self, name: str) -> list[str]:
        plans = [part.plan for part in self.compiled.parts]
        found = {c.name for p in plans for s in scans(p) if s.source == name for c in s.columns}
        table = self.sources[name].table
        return [column.name for column in table.columns if column.name in found]

    def _apply(self, part: str, rows: Rows) -> None:
        if not isinstance(rows, Spill):
            rows = self._conform(part, rows)
        self._deltas[part] = rows
        self.applied[part] = apply_delta(self.run, self.tx, self.stored[part], rows)

    def _schema(self, part: str) -> pa.Schema:
        fields = arrow_schema(self.stored[part].table.columns)
        return fields.append(pa.field(WEIGHT, pa.int64()))

    def _conform(self, part: str, rows: pa.Table) -> pa.Table:
        """Rows in the Arrow types of the part's table, so that equal values compare equal."""
        schema = self._schema(part)
        schema = pa.schema([schema.field(name).with_nullable(True) for name in rows.column_names])
        return rows.cast(schema)

    def _names(self, wanted: Mapping[tuple[str, Version], Need] | None = None) -> Names:
        known: dict[tuple[str, Version], str] = {}

        def name(source: str, version: Version) -> exp.Table:
            place = (source, version)
            if place not in known:
                known[place] = self._view(source, version, (wanted or {}).get(place))
            return exp.Table(this=exp.Identifier(this=known[place], quoted=True))

        return name

    def _view(self, source: str, version: Version, need: Need | None) -> str:
        if version is Version.DELTA:
            return self._delta_view(source)
        keep = self._keep(need)
        plan = self._scan(source, version)
        if keep:
            entries = [{n: values.to_pylist() for n, values in entry.items()} for entry in keep]
            files = {file.id for entry in entries for file in plan.prune(entry).files}
            plan = replace(plan, files=tuple(f for f in plan.files if f.id in files))
        return self.run.scan(plan, keep)

    def _scan(self, source: str, version: Version) -> ScanPlan:
        if source in self.stored:
            table = self.stored[source].table
            if version is Version.AFTER or table.id < 0:
                return self.tx.scan(table)
            return self.catalog.scan(table, self.tx.base)
        pinned = self.sources[source]
        return self.catalog.scan(
            pinned.table, pinned.after if version is Version.AFTER else pinned.before
        )

    def _delta_view(self, source: str) -> str:
        table = self.stored[source].table if source in self.stored else self.sources[source].table
        if source in self._deltas:
            return self.run.rows(table, self._deltas[source])
        plan = self.sources[source].changes
        assert plan is not None
        return self.run.changes(plan)

    def _keep(self, need: Need | None) -> list[dict[str, pa.Array]]:
        """The values that rows must have to be needed, where they are known here; [] if not."""
        if need is None or not need.keys:
            return []
        entries = []
        for keys in need.keys:
            entry = {}
            for column, origins in keys.items():
                values = [self._values_at(*origin) for origin in origins]
                if all(v is not None for v in values):
                    entry[column] = pa.chunked_array(
                        [chunk for v in values if v is not None for chunk in v.chunks]
                    ).unique()
            if not entry:
                return []
            entries.append(entry)
        return entries

    def _values_at(self, source: str, column: str) -> pa.ChunkedArray | None:
        rows = self._deltas.get(source)
        if rows is None or isinstance(rows, Spill) or column not in rows.column_names:
            return None
        values = rows.column(column)
        inexact = pa.types.is_nested(values.type) or pa.types.is_floating(values.type)
        return None if inexact or not values.num_chunks else values


def net(rows: pa.Table, columns: list[str]) -> pa.Table:
    """The changes of some columns, equal rows added up, without those that cancel out."""
    if not columns:
        total = sum(rows.column(WEIGHT).to_pylist())
        return pa.table({WEIGHT: pa.array([total] if total else [], pa.int64())})
    rows = rows.select([*columns, WEIGHT])
    if any(pa.types.is_nested(item.type) for item in rows.schema):
        return rows
    summed = rows.group_by(columns).aggregate([(WEIGHT, "sum")])
    summed = summed.rename_columns([*columns, WEIGHT])
    return summed.filter(pc.not_equal(summed.column(WEIGHT), 0))
