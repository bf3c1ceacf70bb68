"""Who has a say in transactions: asked by the transaction, not wired into what writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from spark_trickle.storage.records import Table
from spark_trickle.storage.versions.commit import Record

if TYPE_CHECKING:
    from spark_trickle.storage.versions.transaction import Transaction


class Participant(Protocol):
    """Takes part in every transaction of a lake."""

    def before_write(self, tx: Transaction, action: object) -> None:
        """A statement, or the name of a table that gets rows; raises to refuse it."""

    def before_read(self, tx: Transaction, table: Table) -> None:
        """The table is about to be read inside the transaction."""

    def before_commit(self, tx: Transaction) -> Sequence[Record]:
        """Stages what belongs into the same commit, and what is to be recorded with it.

        May be called more than once: after the first time, only what changed since is staged anew.
        """
