"""``refresh_all``: a wave that somebody asked for and waits for."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from spark_trickle.errors import RefreshError
from spark_trickle.maintain.immediate.followers import Followers
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.history import MEASURED, RefreshReport
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.schedule.leases import Leases, Release
from spark_trickle.maintain.schedule.select import selected
from spark_trickle.maintain.schedule.skips import BUSY
from spark_trickle.maintain.schedule.wave import Spent, Told, Wave
from spark_trickle.storage.catalog.catalog import Catalog

_LOOK_AGAIN = 0.1


@dataclass(frozen=True)
class _Asked:
    """Refreshes what it holds a lease of."""

    leases: Leases
    held: set[str]

    def barred(self, stream: StreamTable) -> str | None:
        busy = stream.uuid not in self.held
        return f"{BUSY}: another process is refreshing it" if busy else None

    def stopped(self, _: Sequence[StreamTable]) -> str | None:
        return None

    def settle(self, told: Sequence[Told], spent: Spent) -> None:
        self.leases.give_back(releases(told, spent))


def refresh_all(
    followers: Followers, select: str | Iterable[str] | None = None, *, wait: bool = True
) -> list[RefreshReport]:
    """All stream tables, or those selected, at one version of the base tables."""
    engine = followers.refresher.engine
    names = {} if select is None else {t.uuid: str(t) for t in engine.catalog.tables()}
    chosen = selected(_load(engine.catalog), select, names)
    if not chosen:
        return []
    leases = Leases(engine.catalog)
    with leases.beating():
        held = _acquire(leases, chosen, wait=wait)
        # Loaded again: others may have refreshed while we waited.
        tables = [table for table in _load(engine.catalog) if table.uuid in chosen]
        wave = Wave(tables, engine.catalog.version(), followers, _Asked(leases, held))
        with ThreadPoolExecutor(engine.settings.parallel_refreshes) as pool:
            return wave.run(pool)


def raise_failed(reports: list[RefreshReport]) -> None:
    """An error that tells of all, if any could not be refreshed."""
    failed = [report for report in reports if report.failed]
    if not failed:
        return
    told = "; ".join(f"{report.name}: {report.reason}" for report in failed)
    raise RefreshError(
        f"{len(failed)} of {len(reports)} stream tables could not be refreshed: {told}",
        reports=tuple(reports),
        hint="the reports of all are in the error's .reports",
    )


def releases(told: Iterable[Told], spent: Spent) -> Iterator[Release]:
    """What became of the attempts, for the leases."""
    for stream, mode in ((each.stream, each.report.effective_mode) for each in told):
        ok = None if mode == "SKIPPED" else mode != "ERROR"
        seconds = spent.seconds if mode in MEASURED else 0.0
        yield Release(stream.uuid, ok, stream.generation, seconds)


def _acquire(leases: Leases, wanted: set[str], *, wait: bool) -> set[str]:
    held = leases.claim(wanted, in_order=wait)
    while wait and held != wanted:
        time.sleep(_LOOK_AGAIN)
        held |= leases.claim(wanted - held, in_order=True)
    return held


def _load(catalog: Catalog) -> list[StreamTable]:
    with catalog.reading() as connection:
        return records.load(connection)
