"""States of the lake that can be read: a version, or an open transaction with its own writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from spark_trickle.storage.records import ScanPlan, Table, TableName

TableLike = str | TableName | Table


class State(Protocol):
    """One consistent state of all tables."""

    @property
    def version(self) -> int:
        """The version shown; of an open transaction the one it began from."""

    def table(self, name: TableLike) -> Table:
        """NotFoundError if there is none."""

    def scan(self, table: TableLike) -> ScanPlan: ...


class Versions(Protocol):
    """What has a state for each version: the catalog."""

    def table(self, name: TableLike, version: int | None = None) -> Table: ...

    def scan(self, table: TableLike, version: int | None = None) -> ScanPlan: ...


@dataclass(frozen=True)
class Snapshot:
    """The lake at one version."""

    catalog: Versions
    version: int

    def table(self, name: TableLike) -> Table:
        return self.catalog.table(name, self.version)

    def scan(self, table: TableLike) -> ScanPlan:
        return self.catalog.scan(table, self.version)
