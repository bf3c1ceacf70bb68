"""The catalog of a lake: opens it, reads tables and plans, begins transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

from spark_trickle.errors import (
    CatalogError,
    NotFoundError,
    ReadOnlyError,
    SourceChangedError,
    TransientError,
    UserError,
)
from spark_trickle.settings import Settings
from spark_trickle.storage.catalog import bootstrap, places, structure
from spark_trickle.storage.catalog.database import (
    Connection,
    Database,
    SqliteDatabase,
    tell_committed,
)
from spark_trickle.storage.catalog.postgres import PostgresDatabase
from spark_trickle.storage.catalog.structure import Structure
from spark_trickle.storage.commits import conflicts
from spark_trickle.storage.commits.commit import Committer
from spark_trickle.storage.commits.participants import Participant
from spark_trickle.storage.files.filesystem import (
    FileSystem,
    as_folder,
    check_for_spark,
    checked,
    same_folder,
)
from spark_trickle.storage.manifest.distinct import DistinctCounts
from spark_trickle.storage.read.column_cache import COLUMNS
from spark_trickle.storage.read.pruning import by_column
from spark_trickle.storage.records import (
    ChangePlan,
    Condition,
    ScanPlan,
    Table,
    TableName,
    View,
)
from spark_trickle.storage.versions.feed import Plans
from spark_trickle.storage.versions.planning import Planner
from spark_trickle.storage.versions.staging import Staged
from spark_trickle.storage.versions.state import TableLike
from spark_trickle.storage.versions.transaction import Transaction


class Catalog:
    """One open lake. Safe for use from several threads; each read is one database transaction."""

    files: FileSystem
    """The way to the data files."""
    settings: Settings

    def __init__(self, database: Database, files: FileSystem, settings: Settings) -> None:
        self.settings = settings
        self.files = files
        self.database = database
        self.planner = Planner(self.reading)
        self.last_moves = conflicts.LastMoves()
        self._plans = Plans(self.planner, self.last_moves)
        self.distinct = DistinctCounts(self.reading)
        self.participants: list[Participant] = []
        """Take part in every transaction."""
        self.tending: list[Callable[[Mapping[int, Staged]], None]] = []
        """Told what each commit did, by table, when it is over and the lock is free."""
        self._structures: dict[int, Structure] = {}
        self.closed = False

    @classmethod
    def open(
        cls,
        location: str,
        data_path: str | None = None,
        settings: Settings | None = None,
        *,
        create: bool = True,
    ) -> Catalog:
        """A folder (made on first use) or a ``postgresql://`` URL together with ``data_path``.

        Without ``create`` the lake must be there: NotFoundError if it is not.
        """
        if data_path is not None:
            places.check_data_path(data_path)
        own = settings or Settings()
        COLUMNS.resize(own.cache_bytes)
        database: Database
        usual = None
        if location.startswith(("postgresql://", "postgres://")):
            database = PostgresDatabase(location, own.busy_timeout_seconds)
        else:
            folder = places.folder(location)
            if not create and not (folder / "catalog.sqlite").is_file():
                raise places.no_lake(str(folder))
            FileSystem().make_folder(str(folder))
            usual = str(folder / "data")
            database = SqliteDatabase(folder / "catalog.sqlite", own.busy_timeout_seconds)
        try:
            return cls(database, _prepared(database, (data_path, usual), own, create), own)
        except BaseException:
            database.close()
            raise

    @property
    def data_path(self) -> str:
        """Folder or URI of the data files, ending in ``/``."""
        return self.files.root

    def close(self) -> None:
        self.closed = True
        self.database.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading

    def at(self, version: int | None = None) -> Snapshot:
        """The state of all tables at a version (default: the newest)."""
        return Snapshot(self, self.version() if version is None else version)

    def version(self) -> int:
        """The newest version."""
        with self.reading() as connection:
            return self._bounds(connection)[1]

    def oldest_version(self) -> int:
        """The oldest version that can still be read."""
        with self.reading() as connection:
            return self._bounds(connection)[0]

    def table(self, name: TableLike, version: int | None = None) -> Table:
        """NotFoundError if there is no such table at that version."""
        with self.reading() as connection:
            return self.structure_in(connection, self._checked(connection, version)).table(name)

    def find(self, uuid: str, version: int | None = None) -> Table | None:
        """The table with that identity, whatever it is called then."""
        with self.reading() as connection:
            return self.structure_in(connection, self._checked(connection, version)).find(uuid)

    def tables(self, version: int | None = None) -> list[Table]:
        with self.reading() as connection:
            found = self.structure_in(connection, self._checked(connection, version))
        return sorted(found.tables.values(), key=lambda t: t.full_name.key)

    def views(self, version: int | None = None) -> list[View]:
        with self.reading() as connection:
            found = self.structure_in(connection, self._checked(connection, version))
        return sorted(found.views.values(), key=lambda v: v.full_name.key)

    def view(self, name: TableName, version: int | None = None) -> View | None:
        """The view of that name, or None."""
        with self.reading() as connection:
            at = self._checked(connection, version)
            return self.structure_in(connection, at).views.get(name.key)

    def schemas(self, version: int | None = None) -> list[str]:
        with self.reading() as connection:
            found = self.structure_in(connection, self._checked(connection, version))
        return sorted(s.name for s in found.schemas.values())

    def scan(
        self,
        table: TableLike,
        version: int | None = None,
        conditions: Sequence[Mapping[str, Condition]] = (),
    ) -> ScanPlan:
        """What to read for the table at the version (default: newest): its rows that meet all conditions,
        and what else is in their files."""
        try:
            plan = self._scan(table, version, conditions)
        except CatalogError:
            if not conditions:
                raise
            plan = self._scan(table, version, ())  # statistics that the database cannot compare
        for condition in conditions:
            plan = plan.prune(condition)
        return plan

    def _scan(
        self,
        table: TableLike,
        version: int | None,
        conditions: Sequence[Mapping[str, Condition]],
    ) -> ScanPlan:
        with self.reading() as connection:
            bounds = self._bounds(connection)
            at = _inside(bounds, version)
            own = self.structure_in(connection, at).own(table)
            wanted = [by_column(own, condition) for condition in conditions]
            return self._plans.scan(connection, own, at, bounds, wanted)

    def changes(self, table: TableLike, before: int, after: int | None = None) -> ChangePlan:
        """The net change of the table in the window (before, after].

        A table that is younger than ``before`` was empty then. SourceChangedError if ``before``
        has expired or names another table of the same name.
        """
        with self.reading() as connection:
            oldest, newest = self._bounds(connection)
            at = newest if after is None else self._checked(connection, after)
            own = self.structure_in(connection, at).own(table)
            self._check_window(connection, own, before, at, oldest)
            window = (connection, own, before, at)
            if self.structure_in(connection, before).by_id(own.id) is None:
                return self._plans.changes_of_new(*window)
            return self._plans.changes(*window, (oldest, newest))

    def _check_window(
        self, connection: Connection, table: Table, before: int, after: int, oldest: int
    ) -> None:
        if before < oldest:
            raise SourceChangedError(
                f"version {before} of table {table} has expired; the oldest kept is {oldest}",
                hint="reinitialise what was built on that version",
            )
        if before > after:
            raise NotFoundError(f"the window from version {before} to {after} runs backwards")
        old = self.structure_in(connection, before)
        if old.by_id(table.id) is None and table.full_name.key in old.tables:
            raise SourceChangedError(
                f"table {table} was dropped and made anew after version {before}",
                hint="reinitialise what was built on the earlier table",
            )

    def structure(self, version: int) -> Structure:
        with self.reading() as connection:
            return self.structure_in(connection, version)

    def next_column(self, table_id: int) -> int:
        """The first column id that the table has never used."""
        with self.reading() as connection:
            rows = connection.execute(
                "SELECT max(column_id) FROM ducklake_column WHERE table_id = ?", (table_id,)
            )
        return int(rows[0][0] or 0) + 1

    # Writing

    def begin(self) -> Transaction:
        return Transaction(self, self.version(), self.participants)

    def reading(self) -> AbstractContextManager[Connection]:
        """One consistent read transaction, for the caller's own ``trickle_*`` tables."""
        self._must_be_open()
        context: AbstractContextManager[Connection] = self.database.reading()
        return context

    def writing(self) -> AbstractContextManager[Connection]:
        """One write transaction on the caller's own tables that makes no new version."""
        self._must_be_open()
        context: AbstractContextManager[Connection] = self.database.writing()
        return context

    def _must_be_open(self) -> None:
        if self.closed:
            raise UserError(
                "the lake is closed", hint="open it again with spark_trickle.connect(…)"
            )

    def committer(self) -> Committer:
        return Committer(self.planner, self.settings, self.structure_in)

    def committed(self, written: Mapping[int, Staged]) -> None:
        """Tell those who wait for a new version, and those who look after tables."""
        tell_committed(self.database.name)
        for tend in self.tending:
            tend(written)

    # Inside

    def _bounds(self, connection: Connection) -> tuple[int, int]:
        oldest, newest = structure.version_range(connection)
        self._plans.see(connection, newest)
        return oldest, newest

    def _checked(self, connection: Connection, version: int | None) -> int:
        return _inside(self._bounds(connection), version)

    def structure_in(self, connection: Connection, version: int) -> Structure:
        rows = connection.execute(
            "SELECT schema_version FROM ducklake_snapshot WHERE snapshot_id = ?", (version,)
        )
        if not rows:
            raise NotFoundError(f"version {version} does not exist")
        key = rows[0][0]
        if key not in self._structures:
            self._structures[key] = structure.load(connection, version, self.files)
        return self._structures[key]


@dataclass(frozen=True)
class Snapshot:
    """The lake at one version."""

    catalog: Catalog
    version: int

    def table(self, name: TableLike) -> Table:
        return self.catalog.table(name, self.version)

    def find(self, uuid: str) -> Table | None:
        return self.catalog.find(uuid, self.version)

    def scan(self, table: TableLike) -> ScanPlan:
        return self.catalog.scan(table, self.version)


def _inside(bounds: tuple[int, int], version: int | None) -> int:
    """The version, by default the newest; NotFoundError if there is none such."""
    oldest, newest = bounds
    if version is None:
        return newest
    if version < oldest:
        raise NotFoundError(
            f"version {version} has expired; the oldest kept is {oldest}",
            hint="name a version that is kept; a transaction that reads this one has to be made anew",
        )
    if version > newest:
        raise NotFoundError(f"version {version} does not exist; the newest is {newest}")
    return version


def _prepared(
    database: Database, paths: tuple[str | None, str | None], settings: Settings, create: bool
) -> FileSystem:
    """Make the catalog if there is none; the way to its data files.

    ``paths``: the one that was asked for, and where they are unless something is said.
    """
    storage = checked(settings.storage)
    data_path, usual = paths
    with database.reading() as connection:
        fresh = not connection.has_table("ducklake_metadata")
    if fresh and not create:
        raise places.no_lake(database.name)
    if fresh:
        with database.writing() as connection:
            if not connection.has_table("ducklake_metadata"):
                _refuse_foreign(connection, database.name)
                bootstrap.create(connection, _needed(database, data_path or usual, storage))
                bootstrap.add_indexes(connection)
    with database.reading() as connection:
        stored = bootstrap.check(connection, database.name)
        slow = bootstrap.lacks_indexes(connection)
    if slow:  # who may not, or must not wait, does without
        with suppress(ReadOnlyError, TransientError), database.writing() as connection:
            bootstrap.add_indexes(connection)
    folder = as_folder(places.data_folder(stored, data_path, usual))
    if not same_folder(folder, stored):
        with suppress(ReadOnlyError), database.writing() as connection:
            bootstrap.move(connection, folder)
    return FileSystem(folder, storage)


def _needed(database: Database, data_path: str | None, storage: Mapping[str, str]) -> str:
    if data_path is None:
        raise CatalogError(
            f"a new lake in {database.name} needs a data_path", hint="give data_path=…"
        )
    folder = as_folder(data_path)
    check_for_spark(folder)
    files = FileSystem(folder, storage)
    if files.list(folder + "main"):
        raise UserError(
            f"{folder} holds data files already, and no catalog here knows them",
            hint="give an empty folder, or the place of the catalog that they belong to",
        )
    files.make_folder(folder)
    return folder


def _refuse_foreign(connection: Connection, name: str) -> None:
    if connection.kind == "sqlite" and connection.execute("SELECT 1 FROM sqlite_master LIMIT 1"):
        raise CatalogError(
            f"{name} is an SQLite database of something else, not a DuckLake catalog",
            hint="give an empty folder to make a new lake",
        )
