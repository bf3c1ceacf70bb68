"""Who refreshes what: leases in the catalog, so that nothing is refreshed by two at once.

No two clocks are compared. A holder counts its heartbeats up; whoever sees a count stand still for
``Settings.lease_seconds`` of its own seconds, or knows the process to be gone, takes over. One that
was taken for dead and comes back commits nothing twice: a commit moves the frontier it has read.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from socket import gethostname

from spark_trickle.errors import TrickleError
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.catalog.database import Connection

TABLES = (
    """CREATE TABLE IF NOT EXISTS trickle_holder (
         holder VARCHAR PRIMARY KEY, machine VARCHAR NOT NULL, pid BIGINT NOT NULL,
         beat BIGINT NOT NULL, daemon BIGINT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS trickle_lease (
         stream_uuid VARCHAR PRIMARY KEY, holder VARCHAR, epoch BIGINT NOT NULL,
         tries BIGINT NOT NULL, failures BIGINT NOT NULL, generation BIGINT NOT NULL,
         seconds DOUBLE PRECISION NOT NULL)""",
)
_CLAIM = """INSERT INTO trickle_lease VALUES (?, ?, 1, 0, 0, 0, 0) ON CONFLICT (stream_uuid)
    DO UPDATE SET holder = excluded.holder, epoch = trickle_lease.epoch + 1"""
_OVER = """UPDATE trickle_lease SET tries = tries + 1,
    failures = CASE WHEN ? = 1 THEN 0 WHEN generation = ? THEN failures + 1 ELSE 1 END,
    generation = ?, seconds = CASE WHEN ? > 0 THEN ? ELSE seconds END
    WHERE stream_uuid = ? AND holder = ?"""
_FREE = "UPDATE trickle_lease SET holder = NULL WHERE stream_uuid = ? AND holder = ?"
BEATS = 3
"""Heartbeats in the time after which a silent holder is taken for dead."""


@dataclass(frozen=True)
class Lease:
    """One table's lease, and what is remembered of its refreshes."""

    uuid: str
    holder: str | None = None
    epoch: int = 0
    """How often it has changed hands."""
    tries: int = 0
    failures: int = 0
    """Failures in a row under this generation of the definition."""
    generation: int = 0
    seconds: float = 0.0
    """What the newest refresh that computed something took."""


@dataclass(frozen=True)
class Release:
    """How a lease is given back."""

    uuid: str
    ok: bool | None = None
    """Whether an attempt succeeded; None: there was none."""
    generation: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Holder:
    name: str
    machine: str
    pid: int
    beat: int
    daemon: bool = False

    @property
    def gone(self) -> bool:
        """Whether its process is known to be gone; only its own machine can tell."""
        if self.machine != this_machine():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return False


@cache
def this_machine() -> str:
    """Names the set of processes that a process id means something in."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return gethostname()


def create_tables(connection: Connection) -> None:
    for statement in TABLES:
        connection.execute(statement)


def load(connection: Connection) -> dict[str, Lease]:
    if not connection.has_table("trickle_lease"):
        return {}
    rows = connection.execute(
        "SELECT stream_uuid, holder, epoch, tries, failures, generation, seconds FROM trickle_lease"
    )
    return {row[0]: Lease(*row) for row in rows}


def holders(connection: Connection) -> dict[str, Holder]:
    if not connection.has_table("trickle_holder"):
        return {}
    rows = connection.execute("SELECT holder, machine, pid, beat, daemon FROM trickle_holder")
    return {r[0]: Holder(r[0], r[1], r[2], r[3], bool(r[4])) for r in rows}


class Watch:
    """Tells the living from the dead by one's own clock."""

    def __init__(self, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience = patience
        self._clock = clock
        self._seen: dict[str, tuple[int, float]] = {}

    def dead(self, known: Mapping[str, Holder]) -> set[str]:
        """Holders that are gone, or whose heart has not beaten for as long as patience lasts."""
        now = self._clock()
        found = set()
        for holder in known.values():
            beat, since = self._seen.get(holder.name, (None, now))
            if beat != holder.beat:
                self._seen[holder.name] = (holder.beat, now)
            elif now - since >= self._patience:
                found.add(holder.name)
            if holder.gone:
                found.add(holder.name)
        for name in self._seen.keys() - known.keys():
            del self._seen[name]
        return found


class Leases:
    """One process's part in the leases of a lake."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        daemon: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalog = catalog
        self._daemon = daemon
        self._patience = catalog.settings.lease_seconds
        self._watch = Watch(self._patience, clock)
        self._lock = threading.Lock()
        self._held: set[str] = set()
        self.holder = f"{gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"

    def holds(self, uuid: str) -> bool:
        """Whether the lease is ours, as far as we know."""
        return uuid in self._held

    def claim(self, wanted: Iterable[str], *, in_order: bool = False) -> set[str]:
        """Take those leases that are free, in one step; which ones.

        ``in_order``: stop at the first that is not free. Two that wait for each other's leases
        then wait in the same order, and one of them gets on.
        """
        names = sorted(set(wanted))
        with self._lock:
            with self._catalog.writing() as connection:
                create_tables(connection)  # nobody may have needed them before
                self._bury(connection)
                self._beat(connection)
                known = load(connection)
                got = []
                for name in names:
                    if known.get(name, Lease(name)).holder in (None, self.holder):
                        got.append(name)
                    elif in_order:
                        break
                connection.execute_many(_CLAIM, [(name, self.holder) for name in got])
            self._held |= set(got)
        return set(got)

    def release(
        self, uuid: str, *, ok: bool | None = None, generation: int = 0, seconds: float = 0.0
    ) -> int:
        """Give one lease back; the failures in a row."""
        return self.give_back([Release(uuid, ok, generation, seconds)])[uuid]

    def give_back(self, releases: Iterable[Release]) -> dict[str, int]:
        """Give leases back, in one step; the failures in a row of each.

        Failures under an earlier generation of the definition count no more.
        """
        given = list(releases)
        if not given:
            return {}
        over = [
            (int(r.ok), r.generation, r.generation, r.seconds, r.seconds, r.uuid, self.holder)
            for r in given
            if r.ok is not None
        ]
        with self._lock, self._catalog.writing() as connection:
            self._held -= {release.uuid for release in given}
            connection.execute_many(_OVER, over)
            connection.execute_many(_FREE, [(release.uuid, self.holder) for release in given])
            if len(given) == 1:
                row = connection.execute(
                    "SELECT failures FROM trickle_lease WHERE stream_uuid = ?", (given[0].uuid,)
                )
                return {given[0].uuid: int(row[0][0]) if row else 0}
            known = load(connection)
        return {r.uuid: known.get(r.uuid, Lease(r.uuid)).failures for r in given}

    def beat(self) -> None:
        """Show that this process lives, and free what the dead held."""
        with self._lock, self._catalog.writing() as connection:
            create_tables(connection)
            self._beat(connection)
            self._bury(connection)

    def leave(self) -> None:
        """Give everything back."""
        with self._lock, self._catalog.writing() as connection:
            create_tables(connection)
            _free(connection, self.holder)
            self._held.clear()

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Beat in the background as long as the block runs, then give everything back."""
        over = threading.Event()

        def work() -> None:
            pause = 0.0
            while not over.wait(pause):
                pause = self._patience / BEATS
                with suppress(TrickleError):  # a busy catalog: the next beat comes soon
                    self.beat()

        thread = threading.Thread(target=work, name="trickle-heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self.leave()

    def _beat(self, connection: Connection) -> None:
        rows = connection.execute(
            "SELECT beat FROM trickle_holder WHERE holder = ?", (self.holder,)
        )
        if rows:
            connection.execute(
                "UPDATE trickle_holder SET beat = beat + 1 WHERE holder = ?", (self.holder,)
            )
            return
        # New here, or taken for dead meanwhile: what was held is held no more.
        self._held.clear()
        connection.execute(
            "INSERT INTO trickle_holder VALUES (?, ?, ?, 1, ?)",
            (self.holder, this_machine(), os.getpid(), int(self._daemon)),
        )

    def _bury(self, connection: Connection) -> None:
        known = holders(connection)
        known.pop(self.holder, None)
        for name in self._watch.dead(known):
            _free(connection, name)
        held = connection.execute("SELECT DISTINCT holder FROM trickle_lease")
        for (name,) in held:  # by nobody that is known: left by one that was buried
            if name is not None and name not in known and name != self.holder:
                _free(connection, name)


def _free(connection: Connection, holder: str) -> None:
    connection.execute("UPDATE trickle_lease SET holder = NULL WHERE holder = ?", (holder,))
    connection.execute("DELETE FROM trickle_holder WHERE holder = ?", (holder,))
