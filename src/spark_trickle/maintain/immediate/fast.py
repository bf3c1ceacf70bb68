"""FAST_PATH: a commit's own changes folded into stored groups, under the catalog's write lock.

Under the lock nobody else can commit: the stored groups at the newest version plus what this commit
adds are the groups after it. So writers never conflict over a group and lose no update, and no Spark
is needed. What is eligible the compiler says (``delta/fast_path.py``); a stream table that another,
slower one has to follow in the same commit is kept like that one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa

from spark_trickle.delta.fast_path import FastPath, FastPlan, NoFastPath
from spark_trickle.errors import CommitConflictError, InvariantError, TrickleError
from spark_trickle.local.fold import Folder, GroupKey, Sums
from spark_trickle.maintain.immediate.followers import began_meanwhile, reached
from spark_trickle.maintain.immediate.memory import Memory, estimated_bytes
from spark_trickle.maintain.immediate.moved import MovedRows, moved_rows
from spark_trickle.maintain.records import own
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.behind import behind, behind_in
from spark_trickle.maintain.records.history import Refreshed, RefreshReport, add_histories
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.refresh.job import pinned_source
from spark_trickle.maintain.refresh.refresher import Refresher
from spark_trickle.sources.lake_table import LakeTable
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.commits.participants import Late
from spark_trickle.storage.read.reader import read_changes
from spark_trickle.storage.records import ChangePlan, Table
from spark_trickle.storage.versions.staging import Staged
from spark_trickle.storage.versions.transaction import Connection, Transaction

FAST_PATH = "FAST_PATH"
NOTE = "fast path"
REASON = "COMMIT: the changes of its source were folded into its groups"
_BEHIND = NoFastPath("BEHIND", "it lacks changes of its source; refresh it, and commits fold again")
RECHECKED = 1_000
"""After so many versions a stream table that was too large is measured again."""


@dataclass
class Follower:
    """A stream table that a transaction folds its changes into."""

    stream: StreamTable
    folder: Folder
    source: Table
    mark: Staged | None
    """The work on the source that is known so far, and what it changes."""
    changes: ChangePlan
    memory: Memory
    deltas: dict[GroupKey, Sums] | None = None
    """None: its source is folded too, and its changes are known under the lock only."""
    changed: int = 0
    """How many rows of the source changed."""
    started: float = field(default_factory=time.time)


class FastPaths:
    """The stream tables of a lake that are kept by folding."""

    def __init__(self, refresher: Refresher) -> None:
        self._refresher = refresher
        self._catalog = refresher.engine.catalog
        self._budget = refresher.engine.settings.fast_path_bytes
        self._limits = refresher.engine.settings.limits
        self._inlined = refresher.engine.settings.inline_row_limit
        self._folders: dict[str, tuple[object, Folder | NoFastPath]] = {}
        self._sources: dict[str, tuple[Table, Table]] = {}
        self._memories: dict[str, Memory] = {}
        self._too_large: dict[str, tuple[int, NoFastPath]] = {}

    # Before the lock

    def choose(
        self, tx: Transaction, streams: Sequence[StreamTable], refused: dict[str, NoFastPath]
    ) -> list[Follower]:
        """Those that the transaction's writes reach and that can be folded, in order.

        ``refused`` gets the reasons of those that could be folded and are not this time.
        """
        found: dict[str, Follower] = {}
        known: dict[object, ChangePlan] = {}
        wanted = reached(tx, [stream for stream in streams if stream.followed])
        late = behind(self._catalog, [stream.uuid for stream in wanted])
        for stream in wanted:
            if stream.uuid not in late:
                follower = self._follower(tx, stream, known)
                if isinstance(follower, Follower):
                    found[stream.uuid] = follower
                elif follower is not None:
                    refused[stream.uuid] = follower
        slower = [s for s in streams if s.follows and s.uuid not in found]
        for uuid, why in _held([follower.stream for follower in found.values()], slower).items():
            del found[uuid]
            refused[uuid] = why
        return list(found.values())

    def _follower(
        self,
        tx: Transaction,
        stream: StreamTable,
        known: dict[object, ChangePlan],
    ) -> Follower | NoFastPath | None:
        """``known``: what was found for others of its source, under the same names."""
        folder = self._folder(stream)
        if isinstance(folder, NoFastPath):
            return None
        read, result = tx.find(stream.sources[0].uuid), tx.find(stream.uuid)
        if read is None or result is None:
            return None
        source = self._source(stream, read, tx)
        named = source.uuid, *((column.id, column.name) for column in source.columns)
        if named not in known:
            known[named] = tx.changes(source)
        changes = known[named]
        rows = changes.inserted_rows + changes.deleted_rows
        if rows > self._limits.worked_rows or changes.bytes > self._limits.searched_bytes:
            reason = f"{rows} changed rows in {changes.bytes >> 20} MB of files are for Spark"
            return NoFastPath("MANY_CHANGES", reason)
        segment = tx.find(stream.segments[0].uuid)
        if segment is None:
            raise began_meanwhile(stream)
        memory = self._memory(stream, folder, segment, result, tx.base)
        if isinstance(memory, NoFastPath):
            return memory
        return Follower(stream, folder, source, tx.staged(source), changes, memory)

    def _folder(self, stream: StreamTable) -> Folder | NoFastPath:
        """The functions of a stream table's plan; made anew when its query was bound anew."""
        made_of = stream.generation, stream.query, stream.sources[0].bound if stream.sources else 0
        known = self._folders.get(stream.uuid)
        if known is None or known[0] != made_of:
            found: FastPath
            try:
                found = self._refresher.compile(stream).fast_path
            except TrickleError as error:
                found = NoFastPath("QUERY", error.message)
            known = made_of, Folder(found) if isinstance(found, FastPlan) else found
            self._folders[stream.uuid] = known
            self._memories.pop(stream.uuid, None)
            self._sources.pop(stream.uuid, None)
        return known[1]

    def _source(self, stream: StreamTable, table: Table, tx: Transaction) -> Table:
        """The source under the names that the query knows; SourceChangedError if it no longer fits."""
        known = self._sources.get(stream.uuid)
        if known is None or known[0] is not table:
            compiled = self._refresher.compile(stream)
            (read,) = stream.sources
            source = LakeTable(self._refresher.engine.catalog, read.uuid)
            known = table, pinned_source(stream, compiled, read, source, tx).table
            self._sources[stream.uuid] = known
        return known[1]

    def _memory(
        self, stream: StreamTable, folder: Folder, segment: Table, result: Table, version: int
    ) -> Memory | NoFastPath:
        """The groups in memory, unless they are too many, which is found out without reading them."""
        memory = self._memories.get(stream.uuid)
        if memory is None or (memory.segment, memory.result) != (segment, result):
            memory = Memory(folder, segment, result)
        refused = self._too_many(stream, memory, version)
        if refused is None:
            self._memories[stream.uuid] = memory
        else:
            self._memories.pop(stream.uuid, None)
        return refused or memory

    def _too_many(self, stream: StreamTable, memory: Memory, version: int) -> NoFastPath | None:
        if memory.version >= 0:
            count = len(memory.groups.at)
        else:  # nothing was read yet
            judged = self._too_large.get(stream.uuid)
            if judged is not None and version < judged[0] + RECHECKED:
                return judged[1]
            count = self._catalog.scan(memory.segment, version).rows
        needed = estimated_bytes(count, (memory.segment, memory.result))
        if needed <= self._budget:
            self._too_large.pop(stream.uuid, None)
            return None
        reason = (
            f"{count} groups take about {needed >> 20} MB, and {self._budget >> 20} MB are allowed"
        )
        refused = NoFastPath("CARDINALITY", reason)
        self._too_large[stream.uuid] = version, refused
        return refused

    def obstacles(self, streams: Sequence[StreamTable]) -> dict[str, NoFastPath]:
        """Why commits do not fold into those whose queries allow it, whoever committed until now."""
        followed = [stream for stream in streams if stream.followed]
        plain = {s.uuid for s in followed if isinstance(self._folder(s), NoFastPath)}
        deferred = [stream.uuid for stream in followed if not stream.follows]
        late = dict.fromkeys(behind(self._catalog, deferred), _BEHIND)
        found = {}
        for stream in followed:
            refused = None if stream.uuid in plain else self._measured(stream)
            if refused is not None:
                found[stream.uuid] = refused
        slower = [s for s in followed if s.follows and (s.uuid in plain or s.uuid in found)]
        return late | _held(followed, slower) | found

    def _measured(self, stream: StreamTable) -> NoFastPath | None:
        folder, result = self._folder(stream), self._catalog.find(stream.uuid)
        segment = self._catalog.find(stream.segments[0].uuid)
        if isinstance(folder, NoFastPath) or segment is None or result is None:
            return None
        known = self._memories.get(stream.uuid)
        if known is None or (known.segment, known.result) != (segment, result):
            known = Memory(folder, segment, result)
        return self._too_many(stream, known, self._catalog.version())

    def prepare(self, tx: Transaction, followers: Sequence[Follower]) -> None:
        """Compute what the changed rows add, as far as it is known before the lock."""
        folded = {follower.stream.uuid for follower in followers}
        known: dict[tuple[int, tuple[str, ...]], pa.Table] = {}
        for follower in followers:
            if follower.source.uuid in folded:
                continue
            with _told(follower.stream):
                if tx.staged(follower.source) is not follower.mark:  # it followed a slower one
                    follower.changes = tx.changes(follower.source)
                plan = follower.changes
                read = id(plan), tuple(column.name for column in follower.folder.plan.reads)
                if read not in known:
                    known[read] = read_changes(plan, read[1])
                changes = known[read]
                follower.changed = changes.num_rows
                follower.deltas = follower.folder.group_deltas(changes)

    # Under the lock

    def fold(
        self, followers: Sequence[Follower], connection: Connection, newest: int, keep: int
    ) -> Late:
        """Fold into the groups as they are at the newest version."""
        current = {stream.uuid: stream for stream in records.load(connection)}
        staged: dict[int, Staged] = {}
        moves: list[tuple[Memory, list[MovedRows]]] = []
        reports: list[tuple[StreamTable, RefreshReport]] = []
        shown: dict[str, pa.Table] = {}
        read = {follower.source.uuid for follower in followers}
        late = behind_in(connection, self._catalog, {f.stream.uuid for f in followers})
        breaches = _breaches(connection, self._catalog, followers, current)
        for follower in followers:
            stream = _still_there(follower.stream, current.get(follower.stream.uuid))
            if stream.uuid in late:
                if stream.follows:
                    raise _overtaken(stream)
                continue
            with _told(stream):
                deltas = _deltas(follower, shown)
                if deltas is None:
                    continue
                if stream.uuid in breaches:
                    raise breaches[stream.uuid]
                follower.memory.catch_up(self._catalog, connection, newest)
                fold = follower.folder.fold(follower.memory.stored(deltas), deltas)
                moved = moved_rows(connection, follower.folder, follower.memory, fold)
            if stream.uuid in read:
                shown[stream.uuid] = follower.folder.folded(fold).result
            staged |= {each.table.id: each.staged(self._inlined) for each in moved}
            moves.append((follower.memory, moved))
            reports.append((stream, _report(stream, follower, moved[1])))

        def final(stream: StreamTable, report: RefreshReport, version: int) -> Refreshed:
            moved = {source.name: (newest, version) for source in stream.sources}
            return stream.uuid, replace(report, version=version, sources=moved)

        def record(connection: Connection, version: int) -> None:
            """Frontier and history; nothing else of the record changes."""
            connection.execute_many(
                "UPDATE trickle_source SET version = ? WHERE stream_uuid = ?",
                [(version, stream.uuid) for stream, _ in reports],
            )
            add_histories(connection, [final(s, report, version) for s, report in reports], keep)

        def done(version: int, written: Mapping[int, Staged]) -> None:
            for memory, moved in moves:
                many = any(written[m.table.id].files for m in moved)
                after = -1 if many else version  # where rows are in a file, nobody here knows
                memory.moved(newest, after, [(m.rows, m.gone, m.come) for m in moved])

        return Late(staged, (record,), done)


def _held(streams: Iterable[StreamTable], slower: Sequence[StreamTable]) -> dict[str, NoFastPath]:
    """Those of the stream tables that slower ones read, which follow the same commits: what they
    become has to be known before the lock."""
    waiting, queue = {stream.uuid: stream for stream in streams}, list(slower)
    found = {}
    while queue:
        reader = queue.pop()
        for read in reader.sources:
            held = waiting.pop(read.uuid, None)
            if held is None:
                continue
            reason = f"stream table {reader.name} reads it and is not folded in the same commit"
            found[held.uuid] = NoFastPath("SLOWER_READER", reason)
            if held.follows:
                queue.append(held)
    return found


def _breaches(
    connection: Connection,
    catalog: Catalog,
    followers: Sequence[Follower],
    current: Mapping[str, StreamTable],
) -> dict[str, InvariantError]:
    """Of those whose groups somebody else wrote, what to say."""
    tables = {f.stream.uuid: (f.memory.result, f.memory.segment) for f in followers}
    known = {(f.stream.uuid, f.stream.generation) for f in followers}
    streams = [s for s in current.values() if (s.uuid, s.generation) in known]
    return own.breaches(connection, catalog, streams, lambda stream: tables[stream.uuid])


def _deltas(follower: Follower, shown: dict[str, pa.Table]) -> dict[GroupKey, Sums] | None:
    """The sums by which its groups change; None if its source, folded before it, did not."""
    if follower.deltas is None:
        changes = shown.get(follower.source.uuid)
        if changes is None:
            return None
        follower.changed = changes.num_rows
        follower.deltas = follower.folder.group_deltas(changes)
    return follower.deltas


def _still_there(seen: StreamTable, now: StreamTable | None) -> StreamTable:
    if now is None or not now.followed or now.generation != seen.generation:
        raise CommitConflictError(
            f"stream table {seen.name} was changed by somebody else meanwhile",
            hint="run the transaction again",
        )
    return now


def _overtaken(stream: StreamTable) -> CommitConflictError:
    return CommitConflictError(
        f"a source of stream table {stream.name} was written meanwhile by somebody who does not keep it",
        hint="run the transaction again; it computes the stream table anew",
    )


def _report(stream: StreamTable, follower: Follower, shown: MovedRows) -> RefreshReport:
    return RefreshReport(
        stream.name,
        FAST_PATH,
        REASON,
        stream.refresh_mode,
        rows_inserted=len(shown.come),
        rows_deleted=len(shown.gone),
        delta_rows={follower.stream.sources[0].name: follower.changed},
        engine="local",
        seconds=time.time() - follower.started,
        started_at=follower.started,
    )


@contextmanager
def _told(stream: StreamTable) -> Iterator[None]:
    """Errors say which stream table stands in the way of the write."""
    try:
        yield
    except TrickleError as error:
        error.message = f"stream table {stream.name} cannot follow the change: {error.message}"
        if isinstance(error, InvariantError):
            error.stream = stream.uuid
        raise
