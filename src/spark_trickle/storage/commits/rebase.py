"""What a transaction has done so far, and how it moves onto a newer version: what it wrote stays, what
it reads is new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_trickle.errors import CommitConflictError
from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.catalog.structure import Structure
from spark_trickle.storage.commits import conflicts
from spark_trickle.storage.commits.commit import Record
from spark_trickle.storage.commits.conflicts import Claim, Others
from spark_trickle.storage.records import Table
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
) -> Others:
    """What others did since ``base``; CommitConflictError if it is in the way of what was staged."""
    claims = {
        table.id: Claim(
            str(table),
            writes=not work.empty,
            truncates=work.truncated,
            assumes=work.assumes,
        )
        for table in structure.tables.values()
        if (work := staged.get(table.id)) is not None
    }
    return conflicts.check(connection, base, claims)


Move = Callable[[Table, Staged], Staged]
"""The work on a table, on top of the newest version."""


def moved(progress: Progress, before: Structure, newest: Structure, move: Move) -> Progress:
    """What was done on top of ``before``, on top of the newest structure; nothing derived."""
    made = progress.structure
    if made == before:
        made = newest
    elif newest != before:
        raise CommitConflictError(
            "another transaction changed the structure of the lake, and so does this one",
            hint="run the transaction again",
        )
    there = {table.id: table for table in before.tables.values()}
    own = {i: move(there[i], work) if i in there else work for i, work in progress.own.items()}
    return Progress(made, own, records=progress.records)
