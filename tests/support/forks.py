"""Work in other processes that share the Spark of the test: to kill them, or to have them race.

A fork costs nothing beside a second Spark. The work runs in a thread of its own, because each
thread of PySpark talks to the JVM over a connection of its own, and the parent's must stay whole.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from spark_trickle import CommitConflictError, Lake
from spark_trickle.storage.faults import arm
from spark_trickle.transaction import LakeTransaction

PATIENCE = 240.0


class Forked:
    """A process at work. ``end`` waits for it: None if it was killed, else what it wrote."""

    def __init__(self, folder: Path, work: Callable[[], object], crash_at: str | None) -> None:
        self._note = folder / f"fork_{time.monotonic_ns()}.txt"
        self._pid = os.fork()
        if self._pid == 0:
            gc.freeze()  # what the parent left to collect has threads that are not here
            if crash_at is not None:
                arm(crash_at)
            thread = threading.Thread(target=self._run, args=(work,))
            thread.start()
            thread.join()
            os._exit(0)

    def _run(self, work: Callable[[], object]) -> None:
        try:
            text = str(work())
        except BaseException:
            text = traceback.format_exc()
        self._note.write_text(text)

    def end(self) -> str | None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
                return None if killed else self._note.read_text()
            time.sleep(0.02)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        raise AssertionError(f"the process was not done after {PATIENCE} seconds")


def forked(folder: Path, work: Callable[[], object], crash_at: str | None = None) -> Forked:
    """Start ``work`` in another process; with ``crash_at`` it dies when it reaches that point."""
    return Forked(folder, work, crash_at)


class Writer:
    """A connection in another process, which does what it is told, one statement at a time."""

    def __init__(self, connect: Callable[[], Lake]) -> None:
        self._pipe, theirs = Pipe()
        self._pid = os.fork()
        if self._pid == 0:
            gc.freeze()  # what the parent left to collect has threads that are not here
            thread = threading.Thread(target=_obey, args=(connect, theirs))
            thread.start()
            thread.join()
            os._exit(0)

    def transaction(self, level: str) -> Writer:
        """Begin one; ``sql`` and ``commit`` are then of it."""
        return self._tell("begin", level)

    def sql(self, statement: str) -> Writer:
        return self._tell("sql", statement)

    def commit(self) -> Writer:
        return self._tell("commit", "")

    def close(self) -> None:
        self._pipe.send(("end", ""))
        os.waitpid(self._pid, 0)

    def _tell(self, *order: str) -> Writer:
        self._pipe.send(order)
        answer = self._pipe.recv()
        if answer == "conflict":
            raise CommitConflictError("in the other process")
        assert answer == "done", answer
        return self


def _obey(connect: Callable[[], Lake], pipe: Connection) -> None:
    with connect() as lake:
        tx: LakeTransaction | None = None
        while True:
            word, text = pipe.recv()
            if word == "end":
                return
            try:
                if word == "begin":
                    tx = lake.transaction(text)
                else:
                    assert tx is not None
                    tx.sql(text) if word == "sql" else tx.commit()
                pipe.send("done")
            except CommitConflictError:
                pipe.send("conflict")
            except BaseException:
                pipe.send(traceback.format_exc())
