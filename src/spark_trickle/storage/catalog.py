"""The catalog of a lake: opens it, reads tables and plans, begins transactions."""

from __future__ import annotations

from contextlib import AbstractContextManager

from spark_trickle.settings import Settings
from spark_trickle.storage.records import ChangePlan, ScanPlan, Table, TableName
from spark_trickle.storage.transaction import Connection, Transaction

TableLike = str | TableName | Table


class Catalog:
    """One open lake. Safe for use from several threads; each read is one database transaction."""

    data_path: str
    """Folder or URI of the data files, ending in ``/``."""
    settings: Settings

    @classmethod
    def open(
        cls, location: str, data_path: str | None = None, settings: Settings | None = None
    ) -> Catalog:
        """A folder (made on first use) or a ``postgresql://`` URL together with ``data_path``."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def version(self) -> int:
        """The newest version."""
        raise NotImplementedError

    def oldest_version(self) -> int:
        """The oldest version that can still be read."""
        raise NotImplementedError

    def table(self, name: TableLike, version: int | None = None) -> Table:
        """NotFoundError if there is no such table at that version."""
        raise NotImplementedError

    def tables(self, version: int | None = None) -> list[Table]:
        raise NotImplementedError

    def schemas(self, version: int | None = None) -> list[str]:
        raise NotImplementedError

    def scan(self, table: TableLike, version: int | None = None) -> ScanPlan:
        """What to read for the table at the version (default: newest)."""
        raise NotImplementedError

    def changes(self, table: TableLike, before: int, after: int | None = None) -> ChangePlan:
        """The net change of the table in the window (before, after].

        SourceChangedError if ``before`` has expired or names another table of the same name.
        """
        raise NotImplementedError

    def begin(self) -> Transaction:
        raise NotImplementedError

    def reading(self) -> AbstractContextManager[Connection]:
        """One consistent read transaction, for the caller's own ``trickle_*`` tables."""
        raise NotImplementedError

    def writing(self) -> AbstractContextManager[Connection]:
        """One write transaction on the caller's own tables that makes no new version."""
        raise NotImplementedError
