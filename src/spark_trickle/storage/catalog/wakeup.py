"""Tells whoever waits that a lake has a new version: inside this process, and through PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Waiting = Callable[[], None]

CHANNEL = "trickle_commit"
"""What PostgreSQL notifies on, in the transaction that commits a version."""

_waiting: dict[str, list[Waiting]] = {}
_lock = threading.Lock()


def tell(lake: str) -> None:
    """A version was committed by this process."""
    with _lock:
        waiting = list(_waiting.get(lake, ()))
    for callback in waiting:
        callback()


@contextmanager
def told(lake: str, callback: Waiting) -> Iterator[None]:
    """Have ``callback`` called after each commit of this process, as long as the block runs."""
    with _lock:
        _waiting.setdefault(lake, []).append(callback)
    try:
        yield
    finally:
        with _lock:
            _waiting[lake].remove(callback)
