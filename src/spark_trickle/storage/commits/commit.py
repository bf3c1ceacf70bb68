"""The commit: conflict test and all writes under the catalog's write lock, all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from spark_trickle.settings import Settings
from spark_trickle.storage.catalog import ddl
from spark_trickle.storage.catalog.database import CHANNEL, Connection, now
from spark_trickle.storage.catalog.ids import CatalogIds
from spark_trickle.storage.catalog.structure import Structure
from spark_trickle.storage.commits import conflicts
from spark_trickle.storage.commits.conflicts import Claim, Others
from spark_trickle.storage.commits.dml import TableStats, TableWriter, inlined_tables
from spark_trickle.storage.commits.moving import Mover
from spark_trickle.storage.faults import reach
from spark_trickle.storage.records import Said, ScanPlan
from spark_trickle.storage.versions.planning import Planner
from spark_trickle.storage.versions.staging import Owned, Staged

_ASKED = 500
"""Tables that are asked about in one statement; any more, one by one."""
Record = Callable[[Connection, int], None]
"""Writes rows of the caller's own ``trickle_*`` tables; gets the version being committed."""


@dataclass(frozen=True)
class Work:
    """Everything a transaction wants committed."""

    base: int
    before: Structure
    after: Structure
    staged: Mapping[int, Staged]
    owned: Owned
    reads: frozenset[int] = frozenset()
    records: tuple[Record, ...] = ()
    said: Said = Said()
    late: Mapping[int, Staged] = field(default_factory=dict)
    """Work that was done under the write lock, on the newest version: nobody can be in its way."""
    seen: Mapping[int, ScanPlan] = field(default_factory=dict)
    """The tables at the base, as they were scanned."""

    @property
    def files(self) -> list[str]:
        """The data files that the version will have."""
        there = {table.id for table in self.after.tables.values()}
        every = (*self.staged.items(), *self.late.items())
        staged = [found for number, found in every if number in there]
        return [file.facts.path for found in staged for file in found.files]

    @property
    def changes_lake(self) -> bool:
        return self.before != self.after or any(not s.empty for s in self.staged.values())


@dataclass(frozen=True)
class Committer:
    """Writes work into the catalog; ``structure`` reads the structure at a version."""

    planner: Planner
    settings: Settings
    structure: Callable[[Connection, int], Structure]

    def on_newest(self, connection: Connection, work: Work) -> Work:
        """The work on top of the newest version; CommitConflictError if others got in its way."""
        latest = latest_ids(connection).version
        reach("locked")
        if latest == work.base:
            return work
        others = conflicts.check(connection, work.base, claims(work))
        return replace(work, staged=self._moved(connection, work, latest, others))

    def commit(self, connection: Connection, work: Work) -> int:
        """The new version; without changes to the lake, the version that is there.

        ``work``: on top of the newest version.
        """
        ids = latest_ids(connection)
        latest = ids.version
        if work.changes_lake:
            ids.version += 1
            self._write(connection, work, ids, latest)
        for record in work.records:
            record(connection, ids.version)
        reach("records-written")
        reach("before-commit")
        return ids.version

    def _moved(
        self, connection: Connection, work: Work, latest: int, others: Others
    ) -> dict[int, Staged]:
        """The work on top of the newest version."""
        moved = dict(work.staged)
        for table in work.before.tables.values():
            if table.id in moved and work.after.by_id(table.id) is not None:
                theirs = others.by_table.get(table.id, {})
                mover = Mover(connection, self.planner, table, work.base, latest, theirs)
                moved[table.id] = mover.moved(moved[table.id], work.seen.get(table.id))
        return moved

    def _write(self, connection: Connection, work: Work, ids: CatalogIds, latest: int) -> None:
        tables = {table.id: table for table in work.after.tables.values()}
        changes: list[str] = []
        if work.before != work.after:
            now_there = work.before if latest == work.base else self.structure(connection, latest)
            applied = ddl.apply(connection, work.before, work.after, now_there, ids)
            tables, changes = applied.tables, list(applied.changes)
        written = [
            (tables[number], staged)
            for number, staged in (*work.staged.items(), *work.late.items())
            if number in tables and not staged.empty
        ]
        stats = TableStats(connection)
        inlined = inlined_tables(connection, [table for table, _ in written][:_ASKED])
        for table, staged in written:
            tools = (ids, self.planner, self.settings, latest, work.owned, stats, inlined)
            changes += TableWriter(connection, table, *tools).write(staged)
            reach("first-table-written")
        stats.write()
        write_snapshot(connection, ids, changes, work.said)


def latest_ids(connection: Connection) -> CatalogIds:
    row = connection.execute(
        "SELECT snapshot_id, schema_version, next_catalog_id, next_file_id FROM ducklake_snapshot "
        "WHERE snapshot_id = (SELECT max(snapshot_id) FROM ducklake_snapshot)"
    )[0]
    return CatalogIds(*row)


def write_snapshot(connection: Connection, ids: CatalogIds, changes: list[str], said: Said) -> None:
    connection.execute(
        "INSERT INTO ducklake_snapshot VALUES (?, ?, ?, ?, ?)",
        (ids.version, now(), ids.schema_version, ids.catalog, ids.file),
    )
    connection.execute(
        "INSERT INTO ducklake_snapshot_changes VALUES (?, ?, ?, ?, ?)",
        (ids.version, ",".join(changes), said.author, said.message, said.extra),
    )
    if connection.kind == "postgres":
        connection.execute("SELECT pg_notify(?, ?)", (CHANNEL, str(ids.version)))
    reach("snapshot-row-written")


def claims(work: Work) -> dict[int, Claim]:
    """What the work did to each table, for the conflict matrix."""
    result: dict[int, Claim] = {}
    after = {t.id: t for t in work.after.tables.values()}
    for table in work.before.tables.values():
        staged = work.staged.get(table.id, Staged())
        gone = table.id not in after
        result[table.id] = Claim(
            str(table),
            writes=not staged.empty and not gone,
            truncates=staged.truncated and not gone,
            assumes=staged.assumes and not gone,
            alters=not gone and after[table.id] != table,
            drops=gone,
            reads=table.id in work.reads,
        )
    return result
