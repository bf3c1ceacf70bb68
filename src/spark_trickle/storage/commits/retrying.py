"""Work in a transaction of its own, done again when another writer got in the way.

Law: nobody loses for ever. Who lost thrice, or a second's work, and is quick enough, does it while other
writers wait.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from spark_trickle.errors import CommitConflictError, TransientError
from spark_trickle.settings import Settings
from spark_trickle.storage.versions.transaction import Transaction

T = TypeVar("T")
_PATIENCE, _SECONDS = 3, 1.0
"""So often, or so much, work may be lost before the others wait."""


def on_newest(tx: Transaction, _: object) -> None:
    """Commit on top of what others committed meanwhile."""
    tx.commit(newest=True)


def committed(
    begin: Callable[[], Transaction],
    work: Callable[[Transaction], T],
    settings: Settings,
    commit: Callable[[Transaction, T], object] = on_newest,
) -> T:
    """Do the work and commit it; what the work answered.

    ``commit``: how, unless the others wait already; it is given that answer.
    """
    attempt, seconds, lost = 0, 0.0, 0.0
    while True:
        began = time.monotonic()
        alone = (attempt >= _PATIENCE or lost > _SECONDS) and (
            seconds < settings.busy_timeout_seconds / 3
        )
        tx = begin()
        try:
            return _once(tx, work, commit, alone)
        except TransientError as error:
            tx.rollback()
            attempt += 1
            # Others may hold the lock for long while they compute what follows their commits.
            again = isinstance(error, CommitConflictError) or tx.notes
            if attempt > settings.commit_retries or not again:
                raise
            seconds = time.monotonic() - began
            lost += seconds
            # Losers come back at different moments.
            time.sleep(random.uniform(0, 0.01 * 2 ** min(attempt, 6)))
        except BaseException:
            tx.rollback()
            raise


def _once(
    tx: Transaction,
    work: Callable[[Transaction], T],
    commit: Callable[[Transaction, T], object],
    alone: bool,
) -> T:
    if not alone:
        answer = work(tx)
        commit(tx, answer)
        return answer
    answers: list[T] = []
    tx.commit(newest=True, alone=lambda: answers.append(work(tx)))
    return answers[0]
