"""The questions that a refresh asks of what a stream table reads, whatever that is."""

from __future__ import annotations

from typing import Protocol, TypeVar

from spark_trickle.storage.records import ChangePlan, ScanPlan, Table


class Position(Protocol):
    """Where a source is. Only the source knows what it means; a frontier keeps its number."""

    @property
    def version(self) -> int: ...


P = TypeVar("P", bound=Position, contravariant=True)


class Source(Protocol[P]):
    """Law: the relation at ``after`` is the one at ``before`` and the changes between them."""

    @property
    def identity(self) -> str:
        """Stays when the source is renamed, and never becomes another's."""

    def schema(self, at: P) -> Table | None:
        """Its name, columns and keys; None if it is not there."""

    def changes(self, shown: Table, before: P, after: P) -> ChangePlan:
        """The net change of the columns shown; SourceChangedError if it can no longer be told."""

    def relation(self, shown: Table, at: P) -> ScanPlan:
        """All rows of the columns shown."""
