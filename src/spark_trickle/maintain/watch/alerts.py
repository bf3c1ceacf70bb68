"""What somebody should know of: alerts and health, as pure functions of the state."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from spark_trickle.maintain.records.streams import ERROR, SUSPENDED
from spark_trickle.maintain.schedule.due import stretched
from spark_trickle.maintain.watch.facts import Facts, Observed

OK, WARNING, CRITICAL = "OK", "WARNING", "CRITICAL"
LATE = 2.0
"""So many times its target a stream table may be late before it is told."""
_EXPECTED_FULL = ("ASKED", "INITIALIZE", "NEW_MODE", "NEW_QUERY", "REPAIR", "REMEASURE")
_REFILLS = ("RESERVE_DRY", "LARGE_DELTA")


@dataclass(frozen=True)
class Alert:
    kind: str
    """STALE, SUSPENDED, QUARANTINED, FAILING, FALLING_BEHIND, RESERVE_REFILLED, FULL_UNDER_AUTO."""
    name: str
    severity: str
    """WARNING or CRITICAL."""
    message: str
    action: str
    """What to do about it."""

    def to_dict(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True)
class Health:
    """One finding; the worst of all is how the lake is."""

    name: str
    """A stream table, or ``lake``."""
    status: str
    """OK, WARNING or CRITICAL."""
    reason: str
    action: str


def alerts(state: Observed) -> list[Alert]:
    """Everything that is so now; the worst first."""
    found = [alert for table in state.tables for alert in _of(table)]
    return sorted(found, key=lambda a: (a.severity, a.kind, a.name))


def health(state: Observed) -> list[Health]:
    """All findings, the worst first; one line that all is well if there is none."""
    found = [Health(a.name, a.severity, f"{a.kind}: {a.message}", a.action) for a in alerts(state)]
    late = [t for t in state.tables if t.target is not None and t.pending_versions]
    if late and not state.daemons:
        found.append(
            Health(
                "lake",
                WARNING,
                f"NO_SCHEDULER: {len(late)} stream tables have changes waiting, but no scheduler "
                "has been seen",
                "start one: trickle run LAKE, or with lake.scheduler():",
            )
        )
    if not found:
        count = len(state.tables)
        tables = "stream table is" if count == 1 else "stream tables are"
        found.append(Health("lake", OK, f"{count} {tables} as fresh as asked for", ""))
    return sorted(found, key=lambda h: ((CRITICAL, WARNING, OK).index(h.status), h.name))


def _of(table: Facts) -> list[Alert]:
    stream, name = table.stream, table.stream.name
    found = []
    if stream.status == ERROR:
        message = f"out of service: {stream.last_error}"
        action = f"lake.repair_stream_table({name!r})"
        found.append(Alert("QUARANTINED", name, CRITICAL, message, action))
    elif stream.status == SUSPENDED:
        message = stream.last_error or "suspended by hand"
        action = f"mend the cause, then ALTER STREAM TABLE {name} RESUME"
        found.append(Alert("SUSPENDED", name, CRITICAL, message, action))
    elif _failures(table):
        message = f"{_failures(table)} failures in a row, the newest: {stream.last_error}"
        action = "it is tried again; mend the cause before it is suspended"
        found.append(Alert("FAILING", name, WARNING, message, action))
    if table.target is not None and table.staleness > LATE * table.target:
        message = f"{table.staleness:.0f} s behind; its schedule allows {table.target:g} s"
        action = "see trickle.refresh_history for what holds it up, and trickle.health"
        found.append(Alert("STALE", name, WARNING, message, action))
    return [*found, *_of_refreshes(table)]


def _of_refreshes(table: Facts) -> list[Alert]:
    name, newest = table.stream.name, table.newest
    found = []
    seconds = table.lease.seconds
    if table.target is not None and seconds > table.target:
        message = (
            f"a refresh takes {seconds:.1f} s, longer than its interval of {table.target:g} s; "
            f"it is refreshed every {stretched(table.target, seconds):g} s instead"
        )
        action = f"give it a longer schedule, or see lake.recommend({name!r})"
        found.append(Alert("FALLING_BEHIND", name, WARNING, message, action))
    if newest is None:
        return found
    code = newest.reason.split(":")[0]
    if newest.effective_mode == "TOPK" and code in _REFILLS:
        message = f"the newest refresh sorted its input again: {newest.reason}"
        action = "a larger LIMIT keeps a larger reserve; fewer deletes of top rows need fewer"
        found.append(Alert("RESERVE_REFILLED", name, WARNING, message, action))
    full = (newest.asked_mode, newest.effective_mode) == ("AUTO", "FULL")
    if full and code not in _EXPECTED_FULL:
        message = f"the newest refresh recomputed everything: {newest.reason}"
        action = f"see lake.explain({name!r}) for what would make it incremental"
        found.append(Alert("FULL_UNDER_AUTO", name, WARNING, message, action))
    return found


def _failures(table: Facts) -> int:
    return table.lease.failures if table.lease.generation == table.stream.generation else 0
