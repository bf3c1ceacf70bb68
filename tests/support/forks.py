"""Work in other processes that share the Spark of the test: to kill them, or to have them race.

A fork costs nothing beside a second Spark. The work runs in a thread of its own, because each
thread of PySpark talks to the JVM over a connection of its own, and the parent's must stay whole.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from spark_trickle.storage.faults import VARIABLE

PATIENCE = 240.0


class Forked:
    """A process at work. ``end`` waits for it: None if it was killed, else what it wrote."""

    def __init__(self, folder: Path, work: Callable[[], object], crash_at: str | None) -> None:
        self._note = folder / f"fork_{time.monotonic_ns()}.txt"
        self._pid = os.fork()
        if self._pid == 0:
            if crash_at is not None:
                os.environ[VARIABLE] = crash_at
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
