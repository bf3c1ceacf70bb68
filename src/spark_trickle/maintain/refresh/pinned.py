"""The sources of a refresh at their pinned versions, as a state of the lake that a query can read."""

from __future__ import annotations

from collections.abc import Mapping

from spark_trickle.errors import NotFoundError
from spark_trickle.maintain.refresh.compute import Pinned
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import ScanPlan, Table, TableName


class PinnedSource:
    """The pinned sources as a state of the lake that a query can read."""

    def __init__(self, catalog: Catalog, pinned: Mapping[str, Pinned]) -> None:
        self.catalog = catalog
        self._pinned = {source.table.full_name.key: source for source in pinned.values()}

    def table(self, name: TableName) -> Table:
        source = self._pinned.get(name.key)
        if source is None:
            raise NotFoundError(f"there is no table {name}")
        return source.table

    def scan(self, table: Table) -> ScanPlan:
        return self._pinned[table.full_name.key].after.scan(table)
