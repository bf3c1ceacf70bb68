"""Points of a transaction to go back to, and steps that are done as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from spark_trickle.errors import UserError
from spark_trickle.storage.commits.rebase import Progress
from spark_trickle.storage.records import Savepoint
from spark_trickle.storage.versions.restructuring import Restructuring
from spark_trickle.storage.versions.state import WritableCatalog


class Savepoints(Restructuring):
    """The part of a transaction that goes back to what it was."""

    def __init__(self, lake: WritableCatalog, state: Progress) -> None:
        super().__init__(lake, state)
        self._savepoints: dict[int, Progress] = {}

    def savepoint(self) -> Savepoint:
        number = self._new_id()  # below those of earlier ones, and never given again
        self._savepoints[number] = self._state
        return Savepoint(number)

    def release(self, savepoint: Savepoint) -> None:
        """Forget the savepoint and later ones; what was done since stays."""
        self._savepoints = {n: s for n, s in self._savepoints.items() if n > savepoint.token}

    def rollback_to(self, savepoint: Savepoint) -> None:
        """Forget everything after the savepoint; it can be used again, later ones cannot.

        What was read stays in the read set: somebody knows it.
        """
        if savepoint.token not in self._savepoints:
            raise UserError("the savepoint is gone: an earlier one was rolled back to")
        self._savepoints = {n: s for n, s in self._savepoints.items() if n >= savepoint.token}
        found = self._savepoints[savepoint.token]
        self._state = replace(found, reads=found.reads | self._state.reads)


@contextmanager
def whole(tx: Savepoints) -> Iterator[None]:
    """What the block staged is forgotten if an error leaves it; the transaction goes on."""
    point = tx.savepoint()
    try:
        yield
    except BaseException:
        tx.rollback_to(point)
        raise
    finally:
        tx.release(point)
