"""Stream tables in every transaction: what may not be done to them, and what they do themselves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spark_trickle.delta.fast_path import NoFastPath
from spark_trickle.errors import CommitConflictError
from spark_trickle.maintain.immediate.fast import NOTE
from spark_trickle.maintain.immediate.followers import Kept
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.refresh.job import save_refreshes
from spark_trickle.storage.commits.commit import Record
from spark_trickle.storage.commits.participants import Late
from spark_trickle.storage.records import Table, TableName
from spark_trickle.storage.versions.transaction import Connection, Transaction

if TYPE_CHECKING:
    from spark_trickle.maintain.service import StreamTables


@dataclass(frozen=True)
class StreamTableParticipant:
    """Takes part in all transactions of a lake; the service is made on first need."""

    service: Callable[[], StreamTables]

    def before_write(self, tx: Transaction, action: Any) -> None:
        """Refuse what would break a stream table."""
        guard = self.service().guard(tx)
        if isinstance(action, TableName):
            guard.writes(action)
        else:
            guard.check(action)

    def before_read(self, tx: Transaction, table: Table) -> None:
        """An IMMEDIATE stream table shows what the transaction wrote."""
        if table.id >= 0 and tx.writes:
            streams = self.service().followed()
            follows = any(stream.uuid == table.uuid and stream.follows for stream in streams)
            if follows or table.uuid in tx.notes:  # computed when it still followed
                self.service().followers.bring_up(tx, streams, table.uuid)

    def before_commit(self, tx: Transaction) -> Sequence[Record]:
        """Keep IMMEDIATE stream tables up to date with what is about to be committed.

        What was computed holds only for the sources as they were read: they are put in the read set,
        so that a change by another writer to any of them, whether or not we write it too, is noticed.
        """
        if not tx.writes:
            return ()
        service, written = self.service(), _written(tx)
        if not (tx.notes.keys() - {NOTE}) and not _reached(tx, written):
            tx.note(NOTE, [])
            return (_recorder((), set(), written, service),)
        streams = service.followed()
        refused: dict[str, NoFastPath] = {}
        folded = service.fast.choose(tx, streams, refused)
        for follower in folded:  # what was computed for a read is done anew under the lock
            for table in (follower.memory.segment, follower.memory.result):
                if tx.staged(table) is not None:
                    tx.derive(table)
        late = {follower.stream.uuid for follower in folded}
        kept = service.followers.bring_up(tx, [s for s in streams if s.uuid not in late])
        kept = [_with_reason(each, refused.get(each.stream.uuid)) for each in kept]
        service.fast.prepare(tx, folded)
        tx.note(NOTE, folded)
        for each in kept:
            for table in each.sources:
                if table.id >= 0:
                    tx.read(table)
        return (_recorder(kept, late, _written(tx), service),)

    def under_lock(self, tx: Transaction, connection: Connection, newest: int) -> Late:
        """Fold the changes into the groups of those stream tables that are kept so."""
        folded = tx.notes.get(NOTE)
        if not folded:
            return Late()
        service = self.service()
        return service.fast.fold(folded, connection, newest, service.history_rows)


def _written(tx: Transaction) -> dict[str, str]:
    return {table.uuid: str(table) for table in tx.written()}


def _reached(tx: Transaction, written: Collection[str]) -> bool:
    """Whether a commit that writes these tables has any stream table to bring up to date."""
    with tx.reading() as connection:
        streams = records.definitions(connection)
    return any(s.uuid in written for each in streams if each.followed for s in each.sources)


def _with_reason(kept: Kept, refused: NoFastPath | None) -> Kept:
    """Say why a stream table that could be folded was not."""
    if refused is None:
        return kept
    return replace(kept, report=replace(kept.report, reason=f"{refused.code}: {refused.reason}"))


def _recorder(
    kept: Sequence[Kept], late: set[str], written: dict[str, str], service: StreamTables
) -> Record:
    """Writes frontiers and history, if these are all IMMEDIATE stream tables that were to be kept."""
    ours = late | {each.stream.uuid for each in kept}

    def record(connection: Connection, version: int) -> None:
        some = connection.has_table("trickle_stream_table")
        for uuid, stream, source in connection.execute(_READERS) if some else ():
            if uuid not in ours and source in written:
                raise CommitConflictError(
                    f"stream table {stream} began to follow {written[source]} meanwhile",
                    hint="run the transaction again",
                )
        finals = []
        for each in kept:
            before = {name: (b, version) for name, (b, _) in each.report.sources.items()}
            report = replace(each.report, version=version, sources=before)
            finals.append((each.stream, each.moved.at(version), report))
        save_refreshes(connection, finals, service.history_rows)
        if kept and service.distinct.unsaved:
            service.distinct.save(connection)

    return record


_READERS = (
    "SELECT t.uuid, t.name, s.source_uuid FROM trickle_stream_table t "
    "JOIN trickle_source s ON s.stream_uuid = t.uuid "
    f"WHERE t.refresh_mode = 'IMMEDIATE' AND t.status = '{records.ACTIVE}' AND t.populated = 1"
)
