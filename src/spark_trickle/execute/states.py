"""Where statements read: one version of the lake, or a transaction with its own writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from spark_trickle.errors import BindError, NotFoundError
from spark_trickle.statements.text.cursor import Name
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import DEFAULT_SCHEMA, Condition, ScanPlan, Table, TableName
from spark_trickle.storage.versions.history import committed_by
from spark_trickle.storage.versions.transaction import Transaction

Conditions = Sequence[Mapping[str, Condition]]


class StatementState(Protocol):
    """One consistent state of all tables."""

    catalog: Catalog

    def table(self, name: TableName) -> Table:
        """NotFoundError if there is none."""

    def scan(self, table: Table, conditions: Conditions = ()) -> ScanPlan:
        """The files that may hold rows that meet all conditions."""


class SnapshotState:
    """The lake at one version."""

    def __init__(self, catalog: Catalog, version: int) -> None:
        self.catalog = catalog
        self.version = version

    def table(self, name: TableName) -> Table:
        return self.catalog.table(name, self.version)

    def scan(self, table: Table, conditions: Conditions = ()) -> ScanPlan:
        return self.catalog.scan(table, self.version, conditions)


class TransactionState:
    """The lake as a transaction sees it; ``check_reads`` puts every scanned table in the read set."""

    def __init__(self, catalog: Catalog, tx: Transaction, *, check_reads: bool = False) -> None:
        self.catalog = catalog
        self.tx = tx
        self.check_reads = check_reads

    def table(self, name: TableName) -> Table:
        return self.tx.table(name)

    def scan(self, table: Table, conditions: Conditions = ()) -> ScanPlan:
        if self.check_reads and table.id >= 0:
            self.tx.read(table)
        for participant in self.tx.participants:
            participant.before_read(self.tx, table)
        return met(self.tx.scan(table), conditions)


def met(plan: ScanPlan, conditions: Conditions) -> ScanPlan:
    """The plan without files that hold no row that meets all conditions."""
    for condition in conditions:
        plan = plan.prune(condition)
    return plan


def table_name(name: Name) -> TableName:
    """A one- or two-part name of a statement."""
    if len(name.parts) > 2:
        raise NotFoundError(
            f"there is no table {name}", hint="a table's name has one or two parts: schema.table"
        )
    schema = name.parts[0] if len(name.parts) == 2 else DEFAULT_SCHEMA
    return TableName(schema, name.parts[-1])


def version_at(catalog: Catalog, moment: datetime) -> int:
    """The newest version that was committed at or before ``moment``."""
    with catalog.reading() as connection:
        found = committed_by(connection, moment)
    if found is not None:
        return found
    raise BindError(
        f"the lake has no version as old as {moment.isoformat(sep=' ')}",
        hint=f"the oldest version that can be read is {catalog.oldest_version()}",
    )
