"""What to refresh now: a pure function of the time, the stream tables and what happened to them.

Laws. A table is refreshed by its own schedule at most once in each interval, and before that only
because one that reads it is due. Whatever is due is refreshed together with what it reads, as far
as that has changed, so that all of them reflect one version. Ticks that were missed are made up
for by one refresh. What has not changed is not due.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from spark_trickle.maintain.records.graph import root, unite
from spark_trickle.maintain.records.streams import ACTIVE
from spark_trickle.maintain.schedule.schedules import ByHand, Calculated, Cron, Every, Schedule

NEVER = float("inf")
FIRST_PAUSE, LONGEST_PAUSE, JITTER = 1.0, 60.0, 0.25
"""Seconds to wait after a failure: doubled with each, up to the longest, a quarter more or less."""
FULL_LOAD = 0.95
"""A refresh may take this part of its interval; one that takes more has its interval doubled."""
UPSTREAM_SUSPENDED = "UPSTREAM_SUSPENDED"


@dataclass(frozen=True)
class Planned:
    """A stream table, as far as its schedule matters."""

    id: str
    name: str
    schedule: Schedule
    sources: tuple[str, ...] = ()
    """Ids of the tables it reads; those that are no stream tables do not matter here."""
    status: str = ACTIVE
    immediate: bool = False
    """Kept by every commit; nothing is left for a scheduler."""


@dataclass(frozen=True)
class Past:
    """What happened to a stream table; all moments by the clock of the one who asks."""

    tried_at: float = -NEVER
    """When the newest attempt began; if it failed, when it ended: a pause is counted from there."""
    seconds: float = 0.0
    """What the newest refresh that computed something took."""
    failures: int = 0
    """Failures in a row."""
    changed: bool = True
    """Whether a table it reads holds changes that the contents do not reflect."""
    busy: bool = False
    """Whether somebody is refreshing it."""


@dataclass(frozen=True)
class Skip:
    """Due, but not to be refreshed, for a reason that names what is in the way."""

    id: str
    reason: str


@dataclass(frozen=True)
class Decisions:
    refresh: frozenset[str] = frozenset()
    """One wave: what is due, and what it needs upstream."""
    skip: tuple[Skip, ...] = ()
    next_at: float = NEVER
    """When something more will be due if nothing happens until then."""


def due(now: float, tables: Iterable[Planned], history: Mapping[str, Past]) -> Decisions:
    """What to do at ``now``. A table without history has never been refreshed."""
    view = _View({table.id: table for table in tables}, history)
    chosen: set[str] = set()
    skipped: list[Skip] = []
    next_at = NEVER
    moments = {table.id: view.due_at(table) for table in view.tables.values()}
    _align(view, moments)
    for table in view.tables.values():
        at = moments[table.id]
        if at == NEVER:
            continue
        needed = view.needed(table)
        stuck = next((view.tables[i] for i in needed if view.tables[i].status != ACTIVE), None)
        if stuck is not None:
            if at <= now:
                reason = f"{UPSTREAM_SUSPENDED}: {stuck.name}, which it needs, is {stuck.status}"
                skipped.append(Skip(table.id, reason))
            continue
        at = max([at, *(view.retry_at(i) for i in needed)])
        if at > now:
            next_at = min(next_at, at)
        elif not any(view.past(i).busy for i in needed):
            chosen |= needed
    return Decisions(frozenset(chosen), tuple(skipped), next_at)


def _align(view: _View, moments: dict[str, float]) -> None:
    """Let tables of one schedule that read each other, or the same, be due at once.

    The first waits for the last, but no longer than half an interval; once they are refreshed
    together they stay so.
    """
    parents: dict[Hashable, Hashable] = {}
    groups: dict[Hashable, list[Planned]] = {}
    waiting = [
        table
        for table in view.tables.values()
        if isinstance(table.schedule, Every)
        and moments[table.id] != NEVER
        and not view.past(table.id).failures
    ]
    for table in waiting:
        for read in (table.id, *table.sources):
            unite(parents, table.id, (read, table.schedule))
    for table in waiting:
        groups.setdefault(root(parents, table.id), []).append(table)
    for group in groups.values():
        if len(group) > 1:
            found = [moments[table.id] for table in group]
            latest = min(found) + _half(group[0].schedule)
            shared = max(at for at in found if at <= latest)
            moments |= {t.id: shared for t in group if moments[t.id] <= latest}


def _half(schedule: Schedule) -> float:
    return schedule.seconds / 2 if isinstance(schedule, Every) else 0.0


def lags(now: float, tables: Iterable[Planned]) -> dict[str, float | None]:
    """By table: the seconds by which its contents may be late. None: no schedule says.

    CALCULATED is the shortest that those who read it need, directly or through others.
    """
    known = {table.id: table for table in tables}
    readers = _readers(known.values())
    found: dict[str, float | None] = {}

    def lag(table: Planned) -> float | None:
        if table.id not in found:
            match table.schedule:
                case _ if table.immediate:
                    found[table.id] = None
                case Every(seconds):
                    found[table.id] = seconds
                case Cron() as cron:
                    found[table.id] = cron.gap(now)
                case ByHand():
                    found[table.id] = None
                case Calculated():
                    needs = [lag(known[i]) for i in readers.get(table.id, ())]
                    found[table.id] = min((n for n in needs if n is not None), default=None)
        return found[table.id]

    for table in known.values():
        lag(table)
    return found


def next_due(
    now: float, tables: Iterable[Planned], history: Mapping[str, Past]
) -> dict[str, float]:
    """By table: when it may be refreshed next, provided that something changes until then."""
    known = {table.id: table for table in tables}
    view = _View(known, history)
    readers = _readers(known.values())
    found: dict[str, float] = {}

    def moment(table: Planned) -> float:
        if table.id not in found:
            own = view.allowed_at(table) if table.status == ACTIVE else NEVER
            asked = [moment(known[i]) for i in readers.get(table.id, ())]
            pulled = not isinstance(table.schedule, ByHand) and table.status == ACTIVE
            found[table.id] = min([own, *(asked if pulled else [])])
        return found[table.id]

    return {table.id: max(moment(table), now) for table in known.values()}


def stretched(period: float, seconds: float) -> float:
    """The interval of a table whose refresh takes so many seconds: doubled until it fits."""
    while seconds > FULL_LOAD * period:
        period *= 2
    return period


def pause(id: str, failures: int) -> float:
    """How long to wait after so many failures in a row; a little different for each table."""
    if failures <= 0:
        return 0.0
    share = zlib.crc32(f"{id}/{failures}".encode()) / 0xFFFFFFFF
    length = min(FIRST_PAUSE * 2.0 ** min(failures - 1, 30), LONGEST_PAUSE)
    return length * (1 + JITTER * (2 * share - 1))


@dataclass
class _View:
    tables: Mapping[str, Planned]
    history: Mapping[str, Past]
    _pending: dict[str, bool] = field(default_factory=dict)
    _needed: dict[str, frozenset[str]] = field(default_factory=dict)

    def past(self, id: str) -> Past:
        return self.history.get(id, Past())

    def due_at(self, table: Planned) -> float:
        """When its own schedule wants it refreshed; NEVER if nothing is there to do."""
        if table.status != ACTIVE or not self.pending(table.id):
            return NEVER
        return self.allowed_at(table)

    def allowed_at(self, table: Planned) -> float:
        """When its own schedule lets it be refreshed next."""
        past = self.past(table.id)
        if table.immediate:
            return NEVER
        match table.schedule:
            case Calculated() | ByHand():
                return NEVER
            case Every(seconds):
                at = past.tried_at + stretched(seconds, past.seconds)
            case Cron() as cron:
                at = past.tried_at if past.tried_at == -NEVER else cron.after(past.tried_at)
        return self.retry_at(table.id) if past.failures else at

    def retry_at(self, id: str) -> float:
        past = self.past(id)
        return past.tried_at + pause(id, past.failures) if past.failures else -NEVER

    def pending(self, id: str) -> bool:
        """Whether a refresh, after one of what it reads, would find changes."""
        if id not in self._pending:
            table = self.tables[id]
            upstream = (i for i in table.sources if self._pulled(i))
            own = self.past(id).changed and not table.immediate
            self._pending[id] = own or any(map(self.pending, upstream))
        return self._pending[id]

    def _pulled(self, id: str) -> bool:
        """Whether it is a stream table that moves when those that read it are due."""
        table = self.tables.get(id)
        return table is not None and (table.immediate or not isinstance(table.schedule, ByHand))

    def needed(self, table: Planned) -> frozenset[str]:
        """The table and all it reads that has changed, directly or through others."""
        if table.id not in self._needed:
            found = set() if table.immediate else {table.id}
            for i in table.sources:
                if self._pulled(i) and self.pending(i):
                    found |= self.needed(self.tables[i])
            self._needed[table.id] = frozenset(found)
        return self._needed[table.id]


def _readers(tables: Iterable[Planned]) -> dict[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for table in tables:
        for source in table.sources:
            found.setdefault(source, []).append(table.id)
    return dict(found)
