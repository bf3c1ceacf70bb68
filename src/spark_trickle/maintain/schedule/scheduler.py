"""The loop above ``due``: looks, decides, claims, refreshes, tells. All of it by metadata until
something has to be refreshed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from spark_trickle import errors
from spark_trickle.errors import TrickleError
from spark_trickle.execute.engine import Engine
from spark_trickle.maintain.immediate.followers import Followers
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.history import RefreshReport, history
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.schedule import skips
from spark_trickle.maintain.schedule.due import NEVER, Decisions, due, stretched
from spark_trickle.maintain.schedule.leases import Lease, Leases, create_tables
from spark_trickle.maintain.schedule.lookout import Known, Lookout
from spark_trickle.maintain.schedule.refreshing import releases
from spark_trickle.maintain.schedule.schedules import Cron, Every, parsed
from spark_trickle.maintain.schedule.skips import BUSY, skipped
from spark_trickle.maintain.schedule.upkeep import UPKEEP, Upkeep
from spark_trickle.maintain.schedule.wave import Spent, Told, Wave
from spark_trickle.maintain.watch import tracing
from spark_trickle.storage.catalog.database import told_of_commits

log = logging.getLogger("spark_trickle.scheduler")
_PASSING = (errors.ExecutionError, errors.CatalogError, errors.StorageFullError)
"""User errors that may be gone when the machine is well again; the others come again."""
ALARM_SECONDS = 5.0
"""How often it is looked whether there is something to be told."""
_BREATH = 0.05
"""Seconds between two looks, however fast commits come."""


class Scheduler:
    """Refreshes what is due, in the background: ``with lake.scheduler():``."""

    def __init__(
        self,
        followers: Followers,
        restless: Callable[[StreamTable], bool],
        alarm: Callable[[Known], object] = lambda _: None,
        reconcile: Callable[[StreamTable], bool] = lambda _: True,
    ) -> None:
        engine = followers.refresher.engine
        self._engine = engine
        self._followers = followers
        self._settings = engine.settings
        self._lookout = Lookout(engine.catalog, restless)
        self._leases = Leases(engine.catalog, daemon=True)
        self._upkeep = Upkeep(engine, reconcile)
        self._alarm = alarm
        self._alarmed_at = -NEVER
        self._wake, self._over = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(engine.settings.parallel_refreshes, "trickle-refresh")
        self._threads: list[threading.Thread] = []
        self._noted: dict[str, str] = {}
        self._seen: tuple[Any, ...] | None = None
        self._next_at = -NEVER
        self._waiting = True
        self._running: set[str] = set()
        self._stack = ExitStack()
        self._loop: threading.Thread | None = None

    # Life

    def start(self) -> Scheduler:
        """Begin; returns at once."""
        with self._engine.catalog.writing() as connection:
            records.create_tables(connection)
            create_tables(connection)
        name = self._engine.catalog.database.name
        self._stack.enter_context(self._leases.beating())
        self._stack.enter_context(told_of_commits(name, self._wake.set))
        database = self._engine.catalog.database
        self._spawn(lambda: database.listen(self._wake.set, self._over), "trickle-listen")
        self._loop = threading.Thread(target=self._run, name="trickle-scheduler", daemon=True)
        self._loop.start()
        _tell("started", holder=self._leases.holder)
        return self

    def stop(self, grace: float = 60.0) -> bool:
        """Begin nothing more and wait for what runs; whether it was done within ``grace`` seconds.

        What is not done by then is abandoned: it commits as a whole or not at all.
        """
        self._over.set()
        self._wake.set()
        until = time.monotonic() + grace
        if self._loop is not None:  # first: what it begins last is waited for, too
            self._loop.join(max(0.0, until - time.monotonic()))
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        done = not any(thread.is_alive() for thread in self._threads)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._stack.close()
        _tell("stopped", holder=self._leases.holder, abandoned=not done)
        return done

    def __enter__(self) -> Scheduler:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def once(self) -> list[RefreshReport]:
        """Refresh what is due now, and nothing more; what was done."""
        known = self._lookout.look()
        decided = due(time.time(), known.planned, known.past)
        with self._leases.beating():
            self._skip(known, decided)
            wave = self._claim(known, decided)
            return wave.run(self._pool) if wave is not None else []

    # The loop

    def _run(self) -> None:
        pause = self._settings.poll_seconds
        while not self._over.is_set():
            try:
                self._step()
                wait = min(self._settings.poll_seconds, max(0.0, self._next_at - time.time()))
                pause = self._settings.poll_seconds
            except TrickleError as error:
                # The catalog does not answer: no fault of any stream table.
                log.warning("the catalog cannot be asked: %s", error.message)
                wait = pause = min(2 * pause, 60.0)
            except Exception:
                log.exception("a fault in the scheduler")
                wait = pause = min(2 * pause, 60.0)
            self._wake.wait(max(wait, _BREATH))
            if self._wake.is_set():
                self._over.wait(_BREATH)
                self._wake.clear()

    def _step(self) -> None:
        now = time.time()
        seen = self._lookout.signature()
        moved = seen != self._seen or now >= self._next_at or self._upkeep.overdue
        alarm = time.monotonic() - self._alarmed_at >= ALARM_SECONDS
        if not moved and not (alarm and self._waiting):
            return
        known = self._lookout.look()
        if alarm:
            # As long as something waits, time alone may bring an alert.
            self._waiting = any(past.changed for past in known.past.values())
            self._alarmed_at = time.monotonic()
            self._spawn(lambda: self._alarm(known), "trickle-alarm")
        decided = due(now, known.planned, known.past)
        self._seen, self._next_at = seen, decided.next_at
        self._give_back(known)
        self._skip(known, decided)
        wave = self._claim(known, decided)
        if wave is not None:
            self._spawn(lambda: self._ride(wave), "trickle-wave")
        upkeep = known.leases.get(UPKEEP, Lease(UPKEEP))
        if self._upkeep.due(upkeep.tries) and upkeep.holder is None and UPKEEP not in self._running:
            self._running.add(UPKEEP)
            self._spawn(lambda: self._keep_up(known), "trickle-upkeep")
        self._threads = [thread for thread in self._threads if thread.is_alive()]

    def _claim(self, known: Known, decided: Decisions) -> Wave | None:
        """A wave of all that is due, but for what others hold and what would need that."""
        if not decided.refresh:
            return None
        held = self._leases.claim(decided.refresh)
        with self._engine.catalog.reading() as connection:
            now = {table.uuid: table for table in records.load(connection)}
        # Between the look and the claim others may have been at work.
        unmoved = {t.uuid for t in known.tables if now.get(t.uuid) == t}
        able = _closed(known, held & unmoved, decided.refresh)
        for uuid in held - able:
            self._leases.release(uuid)
        if able != decided.refresh:
            self._seen = None
        if not able:
            return None
        self._running |= able
        through = {t.uuid for t in known.tables if t.follows}
        tables = [t for t in known.tables if t.uuid in able | through]
        return Wave(tables, known.version, self._followers, self)

    def _ride(self, wave: Wave) -> None:
        try:
            wave.run(self._pool)
        except (RuntimeError, CancelledError):
            if not self._over.is_set():  # the pool is closed when the scheduler has stopped
                raise
        except TrickleError as error:
            log.warning("a wave was given up: %s", error.message)
        finally:
            self._running -= {table.uuid for table in wave.tables}
            self._seen, self._waiting = None, True
            self._wake.set()

    def _give_back(self, known: Known) -> None:
        """A lease of ours that nothing runs for: the catalog did not answer when it was over."""
        for uuid, lease in known.leases.items():
            if lease.holder == self._leases.holder and uuid not in self._running:
                self._leases.release(uuid)
                self._seen = None

    # What becomes of it

    def barred(self, _: StreamTable) -> str | None:
        return None

    def stopped(self, group: Sequence[StreamTable]) -> str | None:
        held = all(self._leases.holds(table.uuid) for table in group if not table.follows)
        if self._over.is_set() or not held:
            return f"{BUSY}: the scheduler stops, or another has taken over"
        return None

    def settle(self, told: Sequence[Told], spent: Spent) -> None:
        """Give the leases back, and say and do what follows from failures."""
        ours = [each for each in told if not each.stream.follows]
        for stream, mode in ((each.stream, each.report.effective_mode) for each in ours):
            if mode != "SKIPPED":
                ended = spent.began + spent.seconds
                self._lookout.note_attempt(stream.uuid, ended if mode == "ERROR" else spent.began)
                self._noted.pop(stream.uuid, None)
        try:
            failures = self._leases.give_back(releases(ours, spent))
        except TrickleError as error:
            names = ", ".join(each.stream.name for each in ours)
            log.warning("%s cannot be settled: %s", names, error.message)
            return
        finally:
            self._running -= {each.stream.uuid for each in ours}
        for each in ours:
            with tracing.under(each.report.refresh_id):
                self._told(each.stream, each.report, failures[each.stream.uuid])

    def _told(self, stream: StreamTable, report: RefreshReport, failures: int) -> None:
        if report.effective_mode == "SKIPPED":
            _tell("skipped", **tracing.facts_of(report))
        if report.effective_mode != "ERROR":
            self._pace(stream, report)
            return
        _tell("failed", logging.WARNING, failures=failures, **tracing.facts_of(report))
        if permanent(report) or failures >= self._settings.failures_allowed:
            times = (
                "an error that would come again" if permanent(report) else f"{failures} failures"
            )
            reason = f"suspended after {times}: {report.reason}"
            if suspend(self._engine, stream, reason):
                _tell("suspended", logging.ERROR, table=stream.name, reason=reason)

    def _pace(self, stream: StreamTable, report: RefreshReport) -> None:
        """Say so when a refresh takes longer than its interval."""
        interval = interval_of(stream)
        if interval is not None and report.seconds > interval:
            stretch = stretched(interval, report.seconds)
            facts = {"seconds": round(report.seconds, 3), "interval": interval, "now": stretch}
            _tell("FALLING_BEHIND", logging.WARNING, table=stream.name, **facts)

    def _skip(self, known: Known, decided: Decisions) -> None:
        """Write down what is skipped, once for each reason."""
        tables = {table.uuid: table for table in known.tables}
        for skip in decided.skip:
            # What is in a wave has its own line to come: written before it, this one would be hidden.
            if skip.id in self._running or self._noted.get(skip.id) == skip.reason:
                continue
            self._noted[skip.id] = skip.reason
            with self._engine.catalog.reading() as connection:
                newest = history(connection, skip.id, most=1)
            if not newest or newest[0].reason != skip.reason:
                skips.note(self._engine, tables[skip.id], skipped(tables[skip.id], skip.reason))
                _tell("skipped", table=tables[skip.id].name, reason=skip.reason)

    def _keep_up(self, known: Known) -> None:
        try:
            if self._leases.claim([UPKEEP]) == {UPKEEP}:
                self._kept_up(known)
        except TrickleError as error:
            log.warning("upkeep failed: %s", error.message)
        finally:
            self._running.discard(UPKEEP)

    def _kept_up(self, known: Known) -> None:
        done = False
        try:
            _tell("upkeep", **self._upkeep.run(known))
            done = True
        finally:  # held on to, nobody would keep up again
            self._leases.release(UPKEEP, ok=done)

    def _spawn(self, work: Callable[[], object], name: str) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()


def _closed(known: Known, held: set[str], wanted: frozenset[str]) -> set[str]:
    """Of what is held, those whose sources within the wave are all held too."""
    able = set(held)
    sources = {t.uuid: {s.uuid for s in t.sources} for t in known.tables}
    while True:
        lame = {uuid for uuid in able if (sources[uuid] & wanted) - able}
        if not lame:
            return able
        able -= lame


def interval_of(stream: StreamTable) -> float | None:
    """The seconds between two refreshes that the table's own schedule asks for."""
    match parsed(stream.schedule):
        case Every(seconds):
            return seconds
        case Cron() as cron:
            return cron.gap(time.time())
        case _:
            return None


def permanent(report: RefreshReport) -> bool:
    """Whether the same refresh would fail again: an error of the request, not of the moment."""
    kind = getattr(errors, report.reason.split(":")[0], None)
    if not isinstance(kind, type) or issubclass(kind, _PASSING):
        return False
    return issubclass(kind, errors.UserError | errors.SourceChangedError)


def suspend(engine: Engine, stream: StreamTable, reason: str) -> bool:
    """Take a stream table out of the schedule, unless somebody changed it meanwhile."""
    with engine.catalog.writing() as connection:
        known = [t for t in records.load(connection) if t.uuid == stream.uuid]
        fits = [t for t in known if (t.generation, t.status) == (stream.generation, records.ACTIVE)]
        for found in fits:
            changed = replace(
                found,
                status=records.SUSPENDED,
                last_error=reason,
                generation=found.generation + 1,
            )
            records.save(connection, changed)
    return bool(fits)


def _tell(what: str, level: int = logging.INFO, **facts: Any) -> None:
    tracing.tell(log, what, level, **facts)
