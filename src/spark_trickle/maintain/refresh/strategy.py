"""FULL or DIFFERENTIAL: a choice by cost, from what earlier refreshes of the same table took.

Seconds grow as a power of the size, by deltas with the changed rows, in full with the rows of the
sources plus those to write. Each power law is a line through the logarithms of the recorded
refreshes by the mode that really ran, those of a similar size first, drawn to a prior where little
was measured: a changed row costs as much as PRIOR_FACTOR rows of a full run, for its group is read
before and after.

What a delta costs depends on *which* sources changed: one row of a dimension may move half of the facts.
So deltas teach about deltas of the same sources only, and of sources that never changed alone the
share of all bytes that the delta has to read says what to expect.

No measurement is believed for ever. A size that was never measured by deltas is tried where it may
pay, and the dearer way is run again when what that may lose is a small part of what refreshes of
this size have taken since its last run. A delta chosen here has a budget: past OVERRUN times what a
full run takes it is cancelled, so a trial loses no more than that. One that failed is tried again at
once, then ever more rarely, but always after some time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import exp, log

from spark_trickle.compile import CompiledQuery
from spark_trickle.delta.keys.needs import Need
from spark_trickle.ir.types import Side
from spark_trickle.maintain.gather.finding import Distinct, domain
from spark_trickle.maintain.records.history import RefreshReport, measured
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.refresh.job import Choice, Pinned, delta_mode, source_size
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import ScanPlan

PRIOR_SECONDS = 0.3
PRIOR_FACTOR = 3.5
PRIOR_POWER = 1.0
NOISE, PRIOR_NOISE, POWER_NOISE = 0.2, 1.5, 1.5
"""How far off, as logarithms, are a measurement, the prior of the seconds and that of the power."""
NEAR = 1.5
"""The dearer way may be the cheaper one by chance up to this factor."""
DOUBT_ONCE, DOUBT = 1 / 3, 1 / 20
"""The part of what was spent that measuring a full run may lose, after one measurement and after more."""
OVERRUN = 1.5
"""Past so many times the seconds of a full run a delta is cancelled."""
LEAST_BUDGET = 3.0
"""Seconds: what is over sooner is not worth cancelling, for a busy machine is reason enough."""
AGAIN = (0.0, 2.0, 5.0, 10.0, 20.0)
"""A delta that was dearer so many times in a row is tried again once refreshes took so many times what
the trial may lose; the last holds for all more."""
UNSEEN = 5.0
"""The same for one that was never measured but promises to be dear."""
READ_TWICE = 2.0
"""What a delta reads it reads before and after."""
MOST_LOST = 60.0
"""Seconds: no measurement is worth more."""
WINDOW = 50
FADE = 0.9
FEW_CHANGED, FEW_ROWS = 100.0, 100_000.0
"""Below these, changed and in the sources, a refresh takes as long as for none."""
LIKE = 2.0
"""Sizes are alike when they differ by less than this factor."""
LEAST_SECONDS = 0.001
QUICK = 0.35
"""Seconds that nobody waits for: what is measured below them differs by chance."""
BY_DELTA = ("DIFFERENTIAL", "TOPK")
CANCELLED = "cancelled"
"""The phase of a refresh in which a delta ran that was cancelled."""


@dataclass(frozen=True)
class Estimate:
    """Seconds each way; None where nothing is known yet."""

    differential: float
    full: float | None


Changed = int | Mapping[str, int]
"""Changed rows, by source; a bare number: of whichever sources."""


@dataclass(frozen=True)
class RefreshWork:
    """What a refresh has to do, in rows."""

    changed: float
    source_rows: float
    sources: frozenset[str] | None = None
    """Those that changed; None: whichever."""

    @classmethod
    def of(cls, changed: Changed, source_rows: float) -> RefreshWork:
        if isinstance(changed, int):
            return cls(changed, source_rows)
        return cls(sum(changed.values()), source_rows, frozenset(changed))

    def size(self, by_delta: bool) -> float:
        """What the seconds of this way depend on."""
        if by_delta:
            return FEW_CHANGED + self.changed
        return max(FEW_ROWS, self.source_rows) + self.changed

    def alike(self, other: RefreshWork, by_delta: bool) -> bool:
        near = abs(log(self.size(by_delta) / other.size(by_delta))) <= log(LIKE)
        return near and (not by_delta or self.same_sources(other))

    def same_sources(self, other: RefreshWork) -> bool:
        return self.sources is None or other.sources is None or self.sources == other.sources


@dataclass(frozen=True)
class PastRun:
    """A refresh that was measured."""

    work: RefreshWork
    by_delta: bool
    seconds: float


def choose(
    history: Sequence[RefreshReport],
    changed: Changed,
    source_rows: int,
    reads: float | None = None,
) -> Choice:
    """The cheaper way, or the dearer one where it is due for a measurement.

    ``reads``: about how much a delta has to read, as a share of all bytes of the sources.
    """
    expected = estimate(history, changed, source_rows, reads)
    runs, work = _runs(history, source_rows), RefreshWork.of(changed, source_rows)
    told = f"about {expected.differential:.2f} s for {work.changed:.0f} changed rows"
    if expected.full is None:
        return Choice("DIFFERENTIAL", "FULL_UNMEASURED", f"{told}, no full run measured yet")
    told = f"{told} against {expected.full:.2f} s in full"
    budget = max(LEAST_BUDGET, OVERRUN * expected.full)
    if max(expected.differential, expected.full) <= QUICK:
        text = f"{told}; a delta reads and publishes least"
        return Choice("DIFFERENTIAL", "QUICK", text, budget)
    if expected.differential <= expected.full:
        if why := _doubt_full(runs, work, expected.differential, expected.full):
            return Choice("FULL", "REMEASURE", f"{told}; {why}")
        return Choice("DIFFERENTIAL", "CHEAPER", told, budget)
    if why := _doubt_delta(runs, work, expected.differential, expected.full):
        return Choice("DIFFERENTIAL", "REMEASURE", f"{told}; {why}", budget)
    return Choice("FULL", "CHEAPER", told)


def estimate(
    history: Sequence[RefreshReport],
    changed: Changed,
    source_rows: int,
    reads: float | None = None,
) -> Estimate:
    """Expected seconds of both ways; ``history`` is newest first."""
    runs, work = _runs(history, source_rows), RefreshWork.of(changed, source_rows)
    in_full = [run for run in runs if not run.by_delta]
    by_delta = [run for run in runs if run.by_delta and run.work.same_sources(work)]
    full, per_row = None, 0.0
    if in_full:
        full = exp(_line(_points(in_full, work)))
        per_row = min(run.seconds / run.work.size(by_delta=False) for run in in_full[:3])
    grows = PRIOR_FACTOR * per_row * work.changed
    if full is not None and reads is not None:
        grows = max(grows, READ_TWICE * reads * full)
    prior = log(PRIOR_SECONDS + grows)
    points = [(0.0, prior, (NOISE / PRIOR_NOISE) ** 2), *_points(by_delta, work)]
    return Estimate(exp(_line(points)), full)


def _runs(history: Sequence[RefreshReport], source_rows: int) -> list[PastRun]:
    """The refreshes that did something, without the seconds that starting Spark took.

    A full run that came after a delta was cancelled says of that delta that it took so long at least.
    """
    runs = []
    for report in history:
        if report.effective_mode in (*BY_DELTA, "FULL"):
            work = RefreshWork.of(report.delta_rows, report.source_rows or source_rows)
            lost = report.phases.get(CANCELLED, 0.0)
            seconds = report.seconds - report.phases.get("start", 0.0) - lost
            by_delta = report.effective_mode in BY_DELTA
            runs.append(PastRun(work, by_delta, max(seconds, LEAST_SECONDS)))
            if lost:
                runs.append(PastRun(work, True, lost))
    return runs


def _doubt_full(runs: Sequence[PastRun], work: RefreshWork, cheaper: float, dearer: float) -> str:
    """Why a full run is to be measured although it seems dearer, or nothing.

    What was measured once is doubted sooner: a first full run had a cold Spark. What proved dearer
    several times is doubted ever more rarely, and never for more than the cheaper way itself takes.
    """
    seen = [
        place for place, run in enumerate(runs) if not run.by_delta and run.work.alike(work, False)
    ]
    spent = _spent(runs[: seen[0]] if seen else runs, work)
    again = min(cheaper, spent * DOUBT * 2 / max(2, len(seen)))
    may_lose = min(MOST_LOST, spent * DOUBT_ONCE if len(seen) <= 1 else again)
    return "not measured lately" if dearer - cheaper < may_lose else ""


def _doubt_delta(runs: Sequence[PastRun], work: RefreshWork, dearer: float, full: float) -> str:
    """Why a delta is to be tried although it seems dearer than a full run, or nothing."""
    seen = [place for place, run in enumerate(runs) if run.by_delta and run.work.alike(work, True)]
    if not seen and dearer <= NEAR * full:
        return "no delta of this size measured"
    failed = len(list(takewhile(lambda place: runs[place].seconds > full, seen)))
    spent = _spent(runs[: seen[0]] if seen else runs, work)
    may_lose = dearer - full if dearer <= OVERRUN * full else OVERRUN * full
    patience = AGAIN[min(failed, len(AGAIN)) - 1] if seen else UNSEEN
    return "not measured lately" if spent >= patience * may_lose else ""


def _spent(runs: Sequence[PastRun], work: RefreshWork) -> float:
    return sum(run.seconds for run in runs if run.work.alike(work, by_delta=True))


def _points(runs: Sequence[PastRun], work: RefreshWork) -> list[tuple[float, float, float]]:
    """Logarithms of sizes, relative to this work, and of seconds, with a weight: the newer and the
    nearer in size, the more."""
    points = []
    for age, run in enumerate(runs[:WINDOW]):
        distance = log(run.work.size(run.by_delta) / work.size(run.by_delta))
        points.append((distance, log(run.seconds), FADE**age / (1 + (2 * distance) ** 4)))
    return points


def _line(points: Sequence[tuple[float, float, float]]) -> float:
    """Weighted least squares: the height at 0 of a line whose slope is drawn to PRIOR_POWER.

    Without that pull small refreshes, which differ by chance, would promise anything for a large one.
    """
    total = sum(weight for _, _, weight in points)
    mean_x = sum(weight * x for x, _, weight in points) / total
    mean_y = sum(weight * y for _, y, weight in points) / total
    spread = sum(weight * (x - mean_x) ** 2 for x, _, weight in points)
    together = sum(weight * (x - mean_x) * (y - mean_y) for x, y, weight in points)
    pull = (NOISE / POWER_NOISE) ** 2
    slope = max(0.0, (together + pull * PRIOR_POWER) / (spread + pull))
    return mean_y - slope * mean_x


def cheapest(
    catalog: Catalog,
    stream: StreamTable,
    compiled: CompiledQuery,
    pinned: Mapping[str, Pinned],
    report: RefreshReport,
    distinct: Distinct,
) -> Choice:
    """The way that AUTO goes."""
    with catalog.reading() as connection:
        history = measured(connection, stream.uuid)
    reads = share_read(compiled, pinned, distinct)
    choice = choose(history, report.delta_rows, source_size(pinned)[0], reads)
    if choice.mode != "DIFFERENTIAL":
        return choice
    return Choice(delta_mode(compiled), choice.code, choice.text, choice.budget)


def share_read(
    compiled: CompiledQuery, pinned: Mapping[str, Pinned], distinct: Distinct
) -> float | None:
    """About what a delta reads of all bytes of the sources, from metadata; None: nobody knows.

    The largest scan of the delta counts: of a source that equalities tie to changed rows as much
    as if values were spread evenly, of others all of it.
    """
    plans = {name: source.relation() for name, source in pinned.items()}
    total = sum(plan.bytes for plan in plans.values())
    changed = frozenset(name for name, source in pinned.items() if source.changed_rows)
    if not total or not changed or compiled.timed:
        return None
    only = frozenset(n for n in changed if (c := pinned[n].changes) is not None and c.insert_only)
    most = 0.0
    for delta in compiled.delta(changed, only).parts:
        for need in delta.needs:
            plan = plans.get(need.source)
            if plan is not None and need.side is not Side.DELTA:
                rows = _Tied(delta.needs, plans, pinned, distinct).rows(need)
                most = max(most, plan.bytes * rows / max(1, plan.rows))
    return most / total


@dataclass(frozen=True)
class _Tied:
    """The scans of a delta, tied to each other by equalities."""

    needs: tuple[Need, ...]
    plans: Mapping[str, ScanPlan]
    pinned: Mapping[str, Pinned]
    distinct: Distinct

    def rows(self, need: Need, above: frozenset[int] = frozenset()) -> float:
        """About how many rows a scan needs; ``above``: the scans that it is asked for."""
        if need.side is Side.DELTA:
            changed = self.pinned.get(need.source)
            return 1.0 if changed is None else float(changed.changed_rows)
        plan = self.plans.get(need.source)
        if plan is None:  # a part that is stored: as small as what ties to it
            return 1.0
        shares = [1.0]
        for column, bounds in need.keys.items():
            for origins in bounds:
                scans = {number for number, _ in origins}
                if not scans & above:
                    values = sum(self.rows(self.needs[n], above | {n}) for n in scans)
                    shares.append(values / domain(plan, column, self.distinct))
        return plan.rows * min(shares)
