"""Seconds for a piece of work: past them its Spark jobs are cancelled, and no more are begun.

Jobs are known by a tag of this thread in each session it uses, so others in the same session go on.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING
from uuid import uuid4

from spark_trickle.errors import TransientError
from spark_trickle.spark.sessions.classic import context

if TYPE_CHECKING:
    from spark_trickle.spark.sessions.session import SparkSession

_AGAIN_SECONDS = 0.2


class Overrun(TransientError):
    """The work took longer than it may."""


class Budget:
    """Used by one thread, as a ``with`` block around the work."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._tag = f"trickle-{uuid4()}"
        self._until = time.monotonic() + seconds
        self._sessions: list[SparkSession] = []
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._cancel, daemon=True)

    @property
    def over(self) -> bool:
        return time.monotonic() > self._until

    def use(self, session: SparkSession) -> None:
        """Work is about to be sent to a session; Overrun if it is too late."""
        if self.over:
            raise Overrun(f"it took longer than {self.seconds:.1f} s")
        if session not in self._sessions:
            found = context(session)
            session.addTag(self._tag) if found is None else found.addJobTag(self._tag)
            self._sessions.append(session)
            if len(self._sessions) == 1:  # work that needs no Spark pays for no thread
                self._watch.start()

    def __enter__(self) -> Budget:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._sessions:
            self._watch.join()
        for session in self._sessions:
            found = context(session)
            with suppress(Exception):  # a session that is gone has no tags
                session.removeTag(self._tag) if found is None else found.removeJobTag(self._tag)

    def _cancel(self) -> None:
        """Until the work is over: one job may follow another."""
        if self._ended.wait(max(0.0, self._until - time.monotonic())):
            return
        while not self._ended.wait(_AGAIN_SECONDS):
            for session in list(self._sessions):
                found = context(session)
                with suppress(Exception):  # it ended meanwhile
                    if found is None:
                        session.interruptTag(self._tag)
                    else:
                        found.cancelJobsWithTag(self._tag)
