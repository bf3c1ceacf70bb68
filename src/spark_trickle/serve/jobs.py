"""Work that outlives a request: refreshes, verifications, queries. Pages look what became of it."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pyarrow as pa

from spark_trickle.errors import TrickleError

RUNNING, DONE, FAILED, CANCELLED = "RUNNING", "DONE", "FAILED", "CANCELLED"
_KEPT = 50
_AT_ONCE = 4
log = logging.getLogger("spark_trickle.serve")


@dataclass(frozen=True)
class JobOutcome:
    """What a job has to say."""

    words: str
    rows: pa.Table | None = None


@dataclass(frozen=True)
class Job:
    id: str
    what: str
    about: str
    """A stream table, or a query."""
    state: str = RUNNING
    outcome: JobOutcome = JobOutcome("")
    started_at: float = field(default_factory=time.time)
    seconds: float = 0.0


class Jobs:
    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_AT_ONCE, "trickle-serve")
        self.moves = 0
        """Grows whenever a job begins or ends."""

    def start(self, what: str, about: str, work: Callable[[Job], JobOutcome]) -> Job:
        job = Job(secrets.token_urlsafe(12), what, about)
        self._put(job)
        self._pool.submit(self._run, job, work)
        return job

    def find(self, id: str) -> Job | None:
        with self._lock:
            return self._jobs.get(id)

    def about(self, about: str) -> list[Job]:
        """The newest first."""
        with self._lock:
            return [job for job in reversed(self._jobs.values()) if job.about == about]

    def cancelled(self, id: str) -> bool:
        """Note that it was cancelled; False if it was over before."""
        with self._lock:
            job = self._jobs.get(id)
            if job is None or job.state != RUNNING:
                return False
            self._jobs[id] = replace(job, state=CANCELLED, outcome=JobOutcome("cancelled"))
            self.moves += 1
            return True

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, job: Job, work: Callable[[Job], JobOutcome]) -> None:
        began = time.perf_counter()
        try:
            state, outcome = DONE, work(job)
        except TrickleError as error:
            state, outcome = FAILED, JobOutcome(str(error))
        except Exception as error:
            log.exception("%s of %s failed", job.what, job.about)
            state, outcome = FAILED, JobOutcome(f"{type(error).__name__}: {error}")
        with self._lock:
            now = self._jobs.get(job.id, job)
        if now.state == RUNNING:
            seconds = time.perf_counter() - began
            self._put(replace(job, state=state, outcome=outcome, seconds=seconds))

    def _put(self, job: Job) -> None:
        with self._lock:
            self._jobs[job.id] = job
            self.moves += 1
            over = [id for id, known in self._jobs.items() if known.state != RUNNING]
            for id in over[: max(0, len(self._jobs) - _KEPT)]:
                del self._jobs[id]
