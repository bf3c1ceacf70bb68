"""Tables and stream tables of the lake as sources: a position is a state of the lake."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import ChangePlan, ScanPlan, Table
from spark_trickle.storage.versions.state import State
from spark_trickle.storage.versions.transaction import Transaction


@dataclass(frozen=True)
class LakeTable:
    """The table with a uuid, whatever it is called."""

    catalog: Catalog
    identity: str

    def at(self, version: int) -> State:
        """The position that a frontier keeps as a number."""
        return self.catalog.at(version)

    def reached(self, version: int, tx: Transaction | None) -> State:
        """The position to move to: what a transaction has staged for it, or else a version."""
        own = tx is not None and tx.staged_in(self.identity)
        return tx if own and tx is not None else self.at(version)

    def schema(self, at: State) -> Table | None:
        return at.find(self.identity)

    def changes(self, shown: Table, before: State, after: State) -> ChangePlan:
        if not isinstance(after, Transaction):
            return self.catalog.changes(shown, before.version, after.version)
        if before.version == after.base:
            return after.changes(shown)
        return self.catalog.changes(shown, before.version, after.base).then(after.changes(shown))

    def relation(self, shown: Table, at: State) -> ScanPlan:
        return at.scan(shown)
