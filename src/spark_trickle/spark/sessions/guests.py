"""Sessions for queries of guests: each query has one to itself, so that it can be cancelled alone, and
Spark reads no files by name there and puts nothing of the machine into a text."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from spark_trickle.spark.sessions.desks import derive
from spark_trickle.spark.sessions.facts import facts_of
from spark_trickle.spark.sessions.session import SessionHolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STRICT = {"spark.sql.runSQLOnFiles": "false", "spark.sql.variable.substitute": "false"}
_AGAIN_SECONDS = 0.2


class Guest:
    """A session while one query has it."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._over = threading.Event()

    def cancel(self) -> None:
        """Until the query is over: one job may follow another."""
        threading.Thread(target=self._cancel, name="trickle-cancel", daemon=True).start()

    def leave(self) -> None:
        self._over.set()

    def _cancel(self) -> None:
        while not self._over.is_set():
            with suppress(Exception):  # a session that is gone has no jobs
                self.spark.interruptAll()
            self._over.wait(_AGAIN_SECONDS)


class Guests:
    """Gives sessions out and takes them back."""

    def __init__(self, holder: SessionHolder) -> None:
        self._holder = holder
        self._idle: list[tuple[SparkSession, SparkSession]] = []
        self._lock = threading.Lock()

    @contextmanager
    def welcome(self) -> Iterator[Guest]:
        base = self._holder.spark
        guest = Guest(self._take(base))
        try:
            yield guest
        finally:
            guest.leave()
            with self._lock:
                self._idle.append((base, guest.spark))

    def _take(self, base: SparkSession) -> SparkSession:
        with self._lock:
            self._idle = [pair for pair in self._idle if pair[0] is base]
            if self._idle:
                return self._idle.pop()[1]
        return derive(base, {**facts_of(base), **_STRICT}, whole=False)
