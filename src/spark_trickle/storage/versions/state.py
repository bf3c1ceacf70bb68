"""A state of the lake that can be read: a version, or an open transaction with its own writes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from spark_trickle.settings import Settings
from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.catalog.structure import Structure
from spark_trickle.storage.commits.commit import Committer
from spark_trickle.storage.files.filesystem import FileSystem
from spark_trickle.storage.records import ScanPlan, Table, TableName
from spark_trickle.storage.versions.planning import Planner
from spark_trickle.storage.versions.staging import Staged

TableLike = str | TableName | Table


class State(Protocol):
    """One consistent state of all tables."""

    @property
    def version(self) -> int:
        """The version shown; of an open transaction the one it began from."""

    def table(self, name: TableLike) -> Table:
        """NotFoundError if there is none."""

    def find(self, uuid: str) -> Table | None:
        """The table with that identity, whatever it is called."""

    def scan(self, table: TableLike) -> ScanPlan:
        """The rows of the table of a name; of a record with its own columns, found by its id."""


class WritableCatalog(Protocol):
    """What a transaction needs of its catalog."""

    settings: Settings
    files: FileSystem
    planner: Planner

    def structure(self, version: int) -> Structure: ...

    def scan(self, table: TableLike, version: int | None = None) -> ScanPlan: ...

    def writing(self) -> AbstractContextManager[Connection]: ...

    def committer(self) -> Committer: ...

    def committed(self, written: Mapping[int, Staged]) -> None: ...

    def next_column(self, table_id: int) -> int: ...

    def version(self) -> int: ...

    def reading(self) -> AbstractContextManager[Connection]: ...
