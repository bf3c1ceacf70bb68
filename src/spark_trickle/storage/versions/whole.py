"""Steps of a transaction that are done as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_trickle.storage.versions.transaction import Transaction


@contextmanager
def whole(tx: Transaction) -> Iterator[None]:
    """What the block staged is forgotten if an error leaves it; the transaction goes on."""
    point = tx.savepoint()
    try:
        yield
    except BaseException:
        tx.rollback_to(point)
        raise
    finally:
        tx.release(point)
