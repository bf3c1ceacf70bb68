"""What a transaction has done so far, and how it moves onto a newer version: what it wrote stays, what
it reads is new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_trickle.errors import CommitConflictError
from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.catalog.structure import Structure
from spark_trickle.storage.versions import conflicts
from spark_trickle.storage.versions.commit import Record
from spark_trickle.storage.versions.conflicts import Claim
from spark_trickle.storage.versions.staging import Staged


@dataclass(frozen=True)
class Progress:
    """Everything that savepoints go back to."""

    structure: Structure
    staged: dict[int, Staged] = field(default_factory=dict)
    reads: frozenset[int] = frozenset()
    records: tuple[Record, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    derived: frozenset[int] = frozenset()
    """Tables whose work participants computed from the rest."""

    @property
    def own(self) -> dict[int, Staged]:
        return {i: staged for i, staged in self.staged.items() if i not in self.derived}


def check(
    connection: Connection, base: int, structure: Structure, staged: Mapping[int, Staged]
) -> None:
    """CommitConflictError if what others did since ``base`` is in the way of what was staged.

    New rows fit any version of a table with the same columns; deleted rows must still be where
    they were.
    """
    claims = {
        table.id: Claim(
            str(table),
            deletes=work.deletes,
            alters=True,
            files=tuple(file for file in work.dead if file >= 0),
        )
        for table in structure.tables.values()
        if (work := staged.get(table.id)) is not None and not work.empty
    }
    conflicts.check(connection, base, claims)


def moved(progress: Progress, before: Structure, newest: Structure) -> Progress:
    """What was done on top of ``before``, on top of the newest structure; nothing derived."""
    made = progress.structure
    if made == before:
        made = newest
    elif newest != before:
        raise CommitConflictError(
            "another transaction changed the structure of the lake, and so does this one",
            hint="run the transaction again",
        )
    return Progress(made, progress.own, records=progress.records)
