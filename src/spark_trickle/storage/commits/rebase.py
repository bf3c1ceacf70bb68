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
from spark_trickle.storage.records import HIDDEN_SCHEMA, Table
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
            f"another transaction changed the structure {_told(before, newest)}, and this one "
            "changes structure, too",
            hint="run the transaction again",
        )
    there = {table.id: table for table in before.tables.values()}
    own = {i: move(there[i], work) if i in there else work for i, work in progress.own.items()}
    return Progress(made, own, records=progress.records)


def _told(before: Structure, newest: Structure) -> str:
    """The tables that are not as they were; views and schemas are not told one by one."""
    old, new = ({t.id: t for t in each.tables.values()} for each in (before, newest))
    moved = (new.get(i) or old[i] for i in old.keys() | new.keys() if old.get(i) != new.get(i))
    names = sorted(str(table) for table in moved if table.schema != HIDDEN_SCHEMA)
    return f"of {', '.join(names)}" if names else "of the lake"
