"""A stream table that was filled while others wrote: what they committed since comes in as a delta.

Law: one that follows commits is right at the version below the one that makes it. Its sources are in the
read set, at the version that it reflects; nobody waits while it is filled. Where filling took long, what
came meanwhile is brought in before the lock too, each time less; under the lock the rest is.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace

from spark_trickle.compile import CompiledQuery
from spark_trickle.errors import NoticeWarning
from spark_trickle.maintain.define.holding import nobody_else
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.refresh.filling import RefreshJob, fill
from spark_trickle.maintain.refresh.job import Choice, Phases, Pinned
from spark_trickle.maintain.refresh.refresher import Refresher
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.commits import conflicts
from spark_trickle.storage.versions.transaction import Transaction

_MEANWHILE = Choice("DIFFERENTIAL", "MEANWHILE", "its sources were written while it was filled")
_QUICK, _ROUNDS = 1.0, 5
"""Who took more seconds has missed more than others should wait for; after so many rounds they do."""


@dataclass
class Made:
    """A stream table that a transaction is about to commit."""

    stream: StreamTable
    compiled: CompiledQuery
    pinned: Mapping[str, Pinned]
    there: StreamTable | None
    """Its record as it was read, the generation one more; None if it is new."""
    report: RefreshReport | None
    seconds: float
    """What the last step took."""

    def warn(self) -> None:
        """Tell what a new query says that is not kept."""
        if self.there is None or self.there.query != self.stream.query:
            for notice in self.compiled.warnings:
                hint = f"; {notice.hint}" if notice.hint else ""
                told = f"stream table {self.stream.name}: {notice.message}{hint}"
                warnings.warn(told, NoticeWarning, stacklevel=10)

    def commit(self, refresher: Refresher, tx: Transaction) -> None:
        if not self.stream.follows:
            tx.commit()
            return
        for _ in range(_ROUNDS):
            if self.seconds < _QUICK or not self._caught_up(refresher, tx):
                break
        tx.commit(alone=lambda: self._caught_up(refresher, tx))

    def _caught_up(self, refresher: Refresher, tx: Transaction) -> bool:
        """Bring in what others committed to its sources; whether there was anything."""
        catalog, began = refresher.engine.catalog, time.monotonic()
        if self.report is None or not self._moved(catalog, tx.base):
            return False
        before = catalog.at(tx.base)
        tx.rebase()
        after = catalog.at(tx.base)

        def moved(pinned: Pinned) -> Pinned:
            changes = pinned.source.changes(pinned.table, before, after)
            return replace(pinned, before=before, after=after, changes=changes)

        self.pinned = {name: moved(pinned) for name, pinned in self.pinned.items()}
        self.hold(tx)
        with refresher.running(self.stream, tx) as run:
            job = RefreshJob(
                self.stream, self.compiled, _MEANWHILE, self.pinned, Phases(), self.report
            )
            filled = fill(refresher.engine, job, tx, run)
        self.stream = filled.moved
        self.report = _both(self.report, filled.report, tx.base)
        self.seconds = time.monotonic() - began
        return True

    def hold(self, tx: Transaction) -> None:
        """Who writes a source from now on would not know of it."""
        if self.stream.follows:
            for source in self.pinned.values():
                tx.read(source.table)

    def _moved(self, catalog: Catalog, base: int) -> bool:
        """CommitConflictError if the stream table itself has moved: it follows, or was refreshed."""
        with catalog.reading() as connection:
            if self.there is not None:
                nobody_else(connection, self.there)
            others = conflicts.since(connection, base).by_table
        sources = (source.table.id for source in self.pinned.values())
        return any(others[table].keys() & set(conflicts.MOVED) for table in sources)


def _both(first: RefreshReport, then: RefreshReport, version: int) -> RefreshReport:
    """The report of a fill and of what came after it."""
    return replace(
        first,
        sources=dict.fromkeys(first.sources, (version, version)),
        rows_inserted=first.rows_inserted + then.rows_inserted,
        rows_deleted=first.rows_deleted + then.rows_deleted,
        rows_read=first.rows_read + then.rows_read,
        bytes_read=first.bytes_read + then.bytes_read,
        spark_queries=first.spark_queries + then.spark_queries,
        source_rows=then.source_rows,
        engine="spark" if "spark" in (first.engine, then.engine) else "local",
    )
