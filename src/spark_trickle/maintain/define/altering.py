"""Stream tables as users make and change them, each time from the record as it is then.

Law: what loses to another writer is done again, and comes to its end beside any number of them
(``retrying``). What was computed is a difference to the contents of one record, and right for no other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from spark_trickle.errors import CommitConflictError, CommitUnknownError, TrickleError
from spark_trickle.maintain.define.catching_up import Made
from spark_trickle.maintain.define.definer import Definer
from spark_trickle.maintain.define.definition import Definition, check
from spark_trickle.maintain.define.layout import needs_state
from spark_trickle.maintain.define.writing import definition_of, over_tables
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.behind import behind_in
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.refresh.job import Choice
from spark_trickle.maintain.watch import tracing
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.commits.commit import latest_ids
from spark_trickle.storage.records import TableName
from spark_trickle.storage.versions.transaction import Connection, Transaction

NEW_MODE = Choice("FULL", "NEW_MODE", "from now on it is kept by deltas, which need private state")
NEW_QUERY = Choice("FULL", "NEW_QUERY", "the query changed")
REPAIR = Choice("FULL", "REPAIR", "a repair was asked for")
RESYNC = Choice("FULL", "RESYNC", "from now on it follows every commit")
FIRST = Choice("FULL", "INITIALIZE", "the stream table has no contents yet")

Change = Callable[[StreamTable], StreamTable]
"""What is asked for, done to a record; the generation grows without it."""


@dataclass(frozen=True)
class Alterer:
    """Changes stream tables of one lake."""

    catalog: Catalog
    definer: Definer
    get: Callable[[str | TableName], StreamTable]

    def create(self, wanted: Definition) -> RefreshReport | None:
        def work(tx: Transaction) -> Made:
            return self.definer.create(wanted, self._all(), tx)

        return tracing.traced(str(wanted.name), lambda: self.definer.committed(work))

    def alter(
        self, stream: StreamTable, change: Change, query: str | None, dialect: str | None
    ) -> None:
        """Give a stream table other settings, or another query."""
        changed = change(stream)

        def redefined(changed: StreamTable, tx: Transaction) -> Made:
            wanted = definition_of(changed, query=query, dialect=dialect)
            with over_tables(self.catalog, wanted) as over:
                return self.definer.redefine(changed, over, self._all(), NEW_QUERY, tx)

        if query is not None:
            self._remade(stream, change, redefined)
        elif replace(changed, populated=True).follows and not stream.follows:
            self._rebuilt(stream, change, RESYNC)
        elif needs_state(stream, changed, self.definer.refresher.compile):
            self._rebuilt(stream, change, NEW_MODE)
        else:
            self._set(stream, changed)

    def turn_into(self, there: StreamTable, wanted: Definition) -> RefreshReport | None:
        """Change a stream table into what is asked for, as far as it differs."""
        same = (wanted.query.strip(), wanted.dialect) == (there.query.strip(), there.dialect)
        same = same and self.definer.means_the_same(there)

        def change(stream: StreamTable) -> StreamTable:
            return replace(
                stream,
                schedule=wanted.schedule,
                refresh_mode=wanted.refresh_mode,
                fast_path=wanted.fast_path,
            )

        def redefined(changed: StreamTable, tx: Transaction) -> Made:
            return self.definer.redefine(changed, wanted, self._all(), NEW_QUERY, tx)

        changed = change(there)
        if not same:
            return self._remade(there, change, redefined)
        if changed.follows and not there.follows:
            return self._rebuilt(there, change, RESYNC)
        if needs_state(there, changed, self.definer.refresher.compile):
            return self._rebuilt(there, change, NEW_MODE)
        if changed != there:
            self._set(there, changed)
        return None

    def repair(self, stream: StreamTable) -> RefreshReport | None:
        """Build contents and private state anew, at the newest version of the sources."""
        return self._rebuilt(
            stream, lambda now: replace(now, status=records.ACTIVE, populated=False), REPAIR
        )

    def first(self, stream: StreamTable) -> RefreshReport | None:
        """Fill one that was made without data, and follow from then on."""
        try:
            return self._rebuilt(stream, lambda now: now, FIRST)
        except (CommitConflictError, CommitUnknownError):
            raise
        except TrickleError as error:
            self.definer.refresher.note_failure(stream, stream.refresh_mode, error)
            raise

    def empty(self, stream: StreamTable) -> None:
        """Take all rows out and stop following, until it is made ACTIVE again."""

        def work(tx: Transaction) -> None:
            now = replace(self._begun(stream, tx), status=records.SUSPENDED, populated=False)
            self.definer.empty(_next(now), tx)

        self.definer.committed(work)

    def rename(self, stream: StreamTable, to: TableName) -> None:
        def work(tx: Transaction) -> None:
            self.definer.rename(self._begun(stream, tx), to, tx)

        self.definer.committed(work)

    def _rebuilt(self, stream: StreamTable, change: Change, choice: Choice) -> RefreshReport | None:
        def rebuilt(changed: StreamTable, tx: Transaction) -> Made:
            wanted = definition_of(changed)
            if choice is NEW_MODE:
                wanted = replace(wanted, initialize=changed.populated)
            return self.definer.rebuild(changed, wanted, self._all(), choice, tx)

        return self._remade(stream, change, rebuilt)

    def _remade(
        self,
        stream: StreamTable,
        change: Change,
        make: Callable[[StreamTable, Transaction], Made],
    ) -> RefreshReport | None:
        def work(tx: Transaction) -> Made:
            return make(_next(change(self._begun(stream, tx))), tx)

        return tracing.traced(stream.name, lambda: self.definer.committed(work))

    def _begun(self, stream: StreamTable, tx: Transaction) -> StreamTable:
        """The record at the version that a transaction without work begins from: it was read before
        that version, and is the same after it."""
        now = self.get(stream.name)
        tx.rebase()
        if self.get(stream.name) != now:
            raise _changed_meanwhile(stream)
        return now

    def _set(self, stream: StreamTable, changed: StreamTable) -> None:
        """Give a stream table other settings."""
        if (changed.refresh_mode, changed.fast_path) != (stream.refresh_mode, stream.fast_path):
            check(definition_of(changed), self.definer.refresher.compile(stream))
        with self.catalog.writing() as connection:
            fresh = _unchanged(connection, stream, changed)
            current = not behind_in(connection, self.catalog, {stream.uuid})
            if stream.follows and current:  # every commit up to now kept it up to date
                fresh = fresh.at(latest_ids(connection).version)
            records.save(connection, fresh)

    def _all(self) -> list[StreamTable]:
        with self.catalog.reading() as connection:
            return records.load(connection)


def _next(stream: StreamTable) -> StreamTable:
    return replace(stream, generation=stream.generation + 1)


def _unchanged(connection: Connection, seen: StreamTable, changed: StreamTable) -> StreamTable:
    """New settings on the record as it is now: a refresh may have moved the frontier meanwhile."""
    known = [table for table in records.load(connection) if table.uuid == seen.uuid]
    if not known or known[0].generation != seen.generation:
        raise _changed_meanwhile(seen)
    return replace(
        known[0],
        schedule=changed.schedule,
        refresh_mode=changed.refresh_mode,
        status=changed.status if changed.status != seen.status else known[0].status,
        generation=seen.generation + 1,
        fast_path=changed.fast_path,
    )


def _changed_meanwhile(stream: StreamTable) -> CommitConflictError:
    return CommitConflictError(
        f"stream table {stream.name} was changed by somebody else meanwhile", hint="try again"
    )
