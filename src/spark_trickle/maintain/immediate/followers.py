"""IMMEDIATE stream tables inside one transaction.

Law: at the version a transaction began from, the contents equal the query (unless somebody wrote a
source who does not keep stream tables: then the query is computed anew). So what the transaction
changed in the sources, net, gives what it has to change in the stream table. Of one that began to
follow after that version this is not known: conflict. The work is done when somebody reads, and at
commit: many statements cost one computation. What was computed from an earlier state of the
transaction, or for a stream table that follows no more, is forgotten, not corrected.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from spark_trickle.errors import CommitConflictError, InvariantError, TrickleError
from spark_trickle.maintain.records import graph, own
from spark_trickle.maintain.records.behind import behind_in
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
from spark_trickle.storage.versions.savepoints import whole
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
        _forget_others(tx, {stream.uuid for stream in streams})
        chosen = reached(tx, [stream for stream in streams if stream.follows])
        if wanted is not None:
            needed = _upstream(chosen, wanted)
            chosen = [stream for stream in chosen if stream.uuid in needed]
        if not chosen:
            return []
        found = []
        uuids = {stream.uuid for stream in chosen}
        catalog = self.refresher.engine.catalog
        with catalog.reading() as connection:
            late = behind_in(connection, catalog, uuids)
            younger = own.younger(connection, uuids, tx.base)
        breaches = self.refresher.breaches(chosen, tx)
        for stream in chosen:
            known = stream.uuid not in younger and seen_by(tx, stream)
            kept = self._keep(tx, stream, known, stream.uuid in late)
            if kept is not None and stream.uuid in breaches:
                raise breaches[stream.uuid]
            if kept is not None:
                found.append(kept)
        return found

    def _keep(self, tx: Transaction, stream: StreamTable, known: bool, late: bool) -> Kept | None:
        """``known``: at the version that the transaction began from, the contents were right."""
        kept: Kept | None = tx.notes.get(stream.uuid)
        there = (tx.find(source.uuid) for source in stream.sources)
        sources = tuple(table for table in there if table is not None)
        marks = tuple(tx.staged(table) for table in sources)
        if kept is None and not any(marks):
            return None
        if not known:
            raise began_meanwhile(stream)
        same = kept is not None and kept.stream.generation == stream.generation
        if kept is not None and same and all(map(operator.is_, kept.marks, marks)):
            return kept
        for name in stream.tables:
            tx.derive(tx.table(name))
        tx.note(stream.uuid, None)
        if not any(marks):
            return None
        with tracing.refreshing(stream.name), whole(tx):
            kept = self._staged(tx, stream, sources, marks, late)
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


def reached(tx: Transaction, streams: Iterable[StreamTable]) -> list[StreamTable]:
    """Those that the transaction's writes may change, directly or through others, in order: what was
    computed for others of its writes counts, too."""
    moved = {table.uuid for table in tx.written()}
    found = []
    for stream in (stream for level in graph.levels(streams) for stream in level):
        touched = stream.uuid in tx.notes or any(s.uuid in moved for s in stream.sources)
        if touched and tx.find(stream.uuid) is not None:
            moved.add(stream.uuid)
            found.append(stream)
    return found


def seen_by(tx: Transaction, stream: StreamTable) -> bool:
    """Whether the tables of a stream table are there in the transaction, under their names of now."""
    wanted = zip((stream.uuid, *(s.uuid for s in stream.segments)), stream.tables, strict=True)
    found = ((tx.find(uuid), name) for uuid, name in wanted)
    return all(table is not None and table.full_name.key == name.key for table, name in found)


def began_meanwhile(stream: StreamTable) -> CommitConflictError:
    return CommitConflictError(
        f"stream table {stream.name} began to follow meanwhile, or was made anew",
        hint="run the transaction again",
    )


def _forget_others(tx: Transaction, followed: Collection[str]) -> None:
    """Drop what was computed for stream tables that follow no more: they stay as they are."""
    for uuid, kept in tx.notes.items():
        if isinstance(kept, Kept) and uuid not in followed:
            for name in kept.stream.tables:
                tx.derive(tx.table(name))
            tx.note(uuid, None)


def _upstream(streams: Iterable[StreamTable], wanted: str) -> Collection[str]:
    """The stream table and those it reads, directly or through others."""
    by_uuid = {stream.uuid: stream for stream in streams}
    found: set[str] = set()
    queue = [wanted]
    while queue:
        stream = by_uuid.get(queue.pop())
        if stream is not None and stream.uuid not in found:
            found.add(stream.uuid)
            queue += [source.uuid for source in stream.sources]
    return found
