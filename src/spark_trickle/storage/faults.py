"""Crash points: a test names one in the environment, and the process dies there."""

from __future__ import annotations

import os
import signal

VARIABLE = "SPARK_TRICKLE_CRASH_AT"

POINTS: tuple[str, ...] = (
    "file-written",
    "files-synced",
    "locked",
    "snapshot-row-written",
    "first-table-written",
    "inlined-rows-written",
    "delete-file-written",
    "deletes-written",
    "records-written",
    "before-commit",
    "after-commit",
    "compaction-file-written",
    "compaction-swapped",
    "compaction-before-commit",
    "compaction-after-commit",
    "expiry-marked",
    "expiry-before-commit",
    "expiry-after-commit",
    "removal-half-done",
    "refresh-pinned",
    "refresh-query-sent",
    "refresh-computed",
    "refresh-before-commit",
    "refresh-recorded",
    "refresh-committed",
)


_armed = os.environ.get(VARIABLE)


def arm(point: str | None) -> None:
    """Have this process, begun without one in its environment, die at a point."""
    global _armed
    _armed = point


def reach(point: str) -> None:
    """Kill this process with SIGKILL at the point that its environment named; else do nothing."""
    if _armed == point:
        os.kill(os.getpid(), signal.SIGKILL)
