"""Who has a say in transactions: asked by the transaction, not wired into what writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.commits.commit import Record
from spark_trickle.storage.records import Table
from spark_trickle.storage.versions.staging import Staged

if TYPE_CHECKING:
    from spark_trickle.storage.versions.transaction import Transaction


@dataclass(frozen=True)
class Late:
    """What was done under the write lock."""

    staged: Mapping[int, Staged] = field(default_factory=dict)
    """By table, on top of the newest version."""
    records: Sequence[Record] = ()
    done: Callable[[int, Mapping[int, Staged]], None] | None = None
    """Told the version once it is committed, and what was staged late, as it was written."""


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

    def under_lock(self, tx: Transaction, connection: Connection, newest: int) -> Late:
        """What can only be done when nobody else can commit: every other commit is ``newest`` or older."""
