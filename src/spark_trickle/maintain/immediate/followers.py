"""IMMEDIATE stream tables inside one transaction.

Law: at the version a transaction began from, the contents equal the query (unless somebody wrote a
source who does not keep stream tables: then the query is computed anew). So what the transaction
changed in the sources, net, gives what it has to change in the stream table. The work is done when
somebody reads, and at commit: many statements cost one computation. What was computed from an
earlier state of the transaction is forgotten, not corrected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from spark_trickle.errors import InvariantError, TrickleError
from spark_trickle.maintain.records import graph
from spark_trickle.maintain.records.behind import behind
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.records.streams import IMMEDIATE, StreamTable
from spark_trickle.maintain.refresh.filling import RefreshJob, fill
from spark_trickle.maintain.refresh.job import (
    Choice,
    Phases,
    first_report,
    pinned_source,
    source_size,
)
from spark_trickle.maintain.refresh.refresher import Refresher
from spark_trickle.maintain.watch import tracing
from spark_trickle.sources.lake_table import LakeTable
from spark_trickle.storage.records import Table
from spark_trickle.storage.versions.staging import Staged
from spark_trickle.storage.versions.transaction import Transaction

BY_DELTA = Choice("DIFFERENTIAL", "COMMIT", "its sources were written")
ANEW = Choice("FULL", "COMMIT", "more than half of its sources' rows were written")
RESYNC = Choice("FULL", "BEHIND", "its sources were written by somebody who does not keep it")
FEW = 1_000
"""So few changes are never worth computing the whole query."""


@dataclass(frozen=True)
class Kept:
    """What was staged for one stream table in a transaction."""

    marks: tuple[Staged | None, ...]
    """The work on each source that it follows from."""
    sources: tuple[Table, ...]
    stream: StreamTable
    """As it was read."""
    moved: StreamTable
    report: RefreshReport


@dataclass(frozen=True)
class Followers:
    """Keeps IMMEDIATE stream tables up to date in transactions."""

    refresher: Refresher

    def bring_up(
        self, tx: Transaction, streams: Sequence[StreamTable], wanted: str | None = None
    ) -> list[Kept]:
        """Stage what the transaction's writes change; only up to the table ``wanted``, if given."""
        tables = {table.uuid: table for table in tx.tables()}
        chosen = [s for s in streams if s.follows and s.uuid in tables]
        if wanted is not None:
            chosen = _upstream(chosen, wanted)
        found = []
        late = behind(self.refresher.engine.catalog, {stream.uuid for stream in chosen})
        breaches = self.refresher.breaches(chosen, tx)
        for level in graph.levels(chosen):
            for stream in level:
                kept = self._keep(tx, stream, tables, stream.uuid in late)
                if kept is not None and stream.uuid in breaches:
                    raise breaches[stream.uuid]
                if kept is not None:
                    found.append(kept)
        return found

    def _keep(
        self, tx: Transaction, stream: StreamTable, tables: dict[str, Table], late: bool
    ) -> Kept | None:
        sources = tuple(tables[source.uuid] for source in stream.sources)
        marks = tuple(tx.staged(table) for table in sources)
        kept: Kept | None = tx.notes.get(stream.uuid)
        if kept is not None and all(a is b for a, b in zip(kept.marks, marks, strict=True)):
            return kept
        if kept is None and not any(marks):
            return None
        for name in stream.tables:
            tx.derive(tx.table(name))
        with tracing.refreshing(stream.name):
            kept = self._staged(tx, stream, sources, marks, late) if any(marks) else None
        tx.note(stream.uuid, kept)
        return kept

    def _staged(
        self,
        tx: Transaction,
        stream: StreamTable,
        sources: tuple[Table, ...],
        marks: tuple[Staged | None, ...],
        late: bool,
    ) -> Kept:
        phases = Phases()
        catalog = self.refresher.engine.catalog
        before = catalog.at(tx.base)
        try:
            compiled = self.refresher.compile(stream)
            pinned = {}
            for read in stream.sources:
                source = LakeTable(catalog, read.uuid)
                found = pinned_source(stream, compiled, read, source, tx)
                changes = source.changes(found.table, before, tx)
                pinned[read.name] = replace(found, before=before, changes=changes)
            report = first_report(stream, IMMEDIATE, pinned, phases)
            changed = sum(report.delta_rows.values())
            choice = RESYNC if late else BY_DELTA
            if not late and changed > FEW and 2 * changed > source_size(pinned)[0]:
                choice = ANEW
            with self.refresher.running(stream, tx) as run:
                job = RefreshJob(stream, compiled, choice, pinned, phases, report)
                filled = fill(self.refresher.engine, job, tx, run)
        except TrickleError as error:
            error.message = f"stream table {stream.name} cannot follow the change: {error.message}"
            if isinstance(error, InvariantError):
                error.stream = stream.uuid
            raise
        report = replace(filled.report, effective_mode=IMMEDIATE, seconds=phases.total)
        return Kept(marks, sources, stream, filled.moved, report)


def _upstream(streams: Iterable[StreamTable], wanted: str) -> list[StreamTable]:
    """The stream table and those it reads, directly or through others."""
    by_uuid = {stream.uuid: stream for stream in streams}
    found: dict[str, StreamTable] = {}
    queue = [wanted]
    while queue:
        stream = by_uuid.get(queue.pop())
        if stream is not None and stream.uuid not in found:
            found[stream.uuid] = stream
            queue += [source.uuid for source in stream.sources]
    return list(found.values())
