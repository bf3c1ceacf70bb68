"""A transaction moved onto a newer version: what it wrote stays, what it reads is new."""

from __future__ import annotations

from collections.abc import Mapping

from spark_trickle.errors import CommitConflictError
from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.catalog.structure import Structure
from spark_trickle.storage.versions import conflicts
from spark_trickle.storage.versions.conflicts import Claim
from spark_trickle.storage.versions.staging import Staged


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


def moved(made: Structure, before: Structure, newest: Structure) -> Structure:
    """The structure that the transaction made out of ``before``, over the newest one."""
    if made == before:
        return newest
    if newest == before:
        return made
    raise CommitConflictError(
        "another transaction changed the structure of the lake, and so does this one",
        hint="run the transaction again",
    )
