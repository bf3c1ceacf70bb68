"""The sources of a refresh at their pinned versions, shown as the query knows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_trickle.compile import CompiledQuery
from spark_trickle.errors import NotFoundError, SourceChangedError
from spark_trickle.ir.types import Side
from spark_trickle.maintain.define.compiling import columns_used
from spark_trickle.maintain.records.streams import Dependency, StreamTable
from spark_trickle.sources.protocol import Position, Source
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import ChangePlan, ScanPlan, Table, TableName
from spark_trickle.storage.versions.state import State

CHANGES = 200_000
"""Changes of a source of up to this many rows are read in this process."""

CHANGE_BYTES = 512 << 20
"""And of up to about this many bytes."""


@dataclass(frozen=True)
class Pinned:
    """A source of one refresh, at the two positions it moves between."""

    source: Source[Any]
    table: Table
    before: Position
    after: Position
    changes: ChangePlan | None
    """None: the change is not known, only a full run can tell."""
    name: str
    """What the source is called now; ``table`` shows it as the query knows it."""

    def relation(self, side: Side = Side.AFTER) -> ScanPlan:
        """Its rows before or after."""
        return self.source.relation(self.table, self.before if side is Side.BEFORE else self.after)

    @property
    def changed_rows(self) -> int:
        plan = self.changes
        return plan.inserted_rows + plan.deleted_rows if plan is not None else 0

    @property
    def few(self) -> bool:
        """Whether the changes may be read in this process."""
        bytes = self.changes.row_bytes if self.changes is not None else 0
        return self.changed_rows <= CHANGES and bytes <= CHANGE_BYTES


def pinned_source(
    stream: StreamTable,
    compiled: CompiledQuery,
    read: Dependency,
    source: Source[State],
    state: State,
) -> Pinned:
    """A source in one state; SourceChangedError if it no longer fits."""
    table = source.schema(state)
    if table is None:
        raise _gone(stream, read, state)
    faults = read.bound.retyped(table)
    faults += [
        f"column {name} was dropped"
        for name in read.bound.lacking(table, columns_used(compiled, read))
    ]
    if faults:
        raise SourceChangedError(
            f"{table}, which stream table {stream.name} reads, changed: {', '.join(faults)}",
            hint=f"run repair_stream_table({stream.name!r}) if the query still has a meaning, or "
            f"give it another one with ALTER STREAM TABLE {stream.name} AS SELECT …",
        )
    return Pinned(source, read.bound.show(read.name, table), state, state, None, str(table))


def _gone(stream: StreamTable, read: Dependency, state: State) -> SourceChangedError:
    try:
        state.table(read.name)
    except NotFoundError:
        return SourceChangedError(
            f"{read.name}, which stream table {stream.name} reads, is gone",
            hint=f"give it another query with ALTER STREAM TABLE {stream.name} AS SELECT …",
        )
    return SourceChangedError(
        f"{read.name} is not the table that stream table {stream.name} was made over",
        hint=f"run repair_stream_table({stream.name!r})",
    )


class PinnedState:
    """The pinned sources as a state of the lake that a query can read."""

    def __init__(self, catalog: Catalog, pinned: Mapping[str, Pinned]) -> None:
        self.catalog = catalog
        self._pinned = {source.table.full_name.key: source for source in pinned.values()}

    def table(self, name: TableName) -> Table:
        source = self._pinned.get(name.key)
        if source is None:
            raise NotFoundError(f"there is no table {name}")
        return source.table

    def scan(self, table: Table) -> ScanPlan:
        source = self._pinned[table.full_name.key]
        return source.source.relation(table, source.after)


def source_size(pinned: Mapping[str, Pinned]) -> tuple[int, int]:
    """The rows and the bytes of all sources."""
    plans = [source.relation() for source in pinned.values()]
    return sum(plan.rows for plan in plans), sum(plan.bytes for plan in plans)
