"""FULL or DIFFERENTIAL: a choice by cost, from what earlier refreshes of the same table took.

Seconds grow as a power of the size, by deltas with the changed rows, in full with the rows of the
sources plus those to write. Each power law is a line through the logarithms of the recorded
refreshes by the mode that really ran, those of a similar size first, drawn to a prior where little
was measured: a changed row costs as much as PRIOR_FACTOR rows of a full run, for its group is read
before and after.

No measurement is believed for ever. A size that was never measured by deltas is tried where it may
pay, and the dearer way is run again when what that may lose is a small part of what refreshes of
this size have taken since its last run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from spark_trickle.maintain.records.streams import RefreshReport

PRIOR_SECONDS = 0.3
PRIOR_FACTOR = 3.5
PRIOR_POWER = 1.0
NOISE, PRIOR_NOISE, POWER_NOISE = 0.2, 1.5, 1.5
"""How far off, as logarithms, are a measurement, the prior of the seconds and that of the power."""
NEAR = 1.5
"""The dearer way may be the cheaper one by chance up to this factor."""
DOUBT_ONCE, DOUBT = 1 / 3, 1 / 20
"""The part of what was spent that measuring may lose, after one measurement and after more."""
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


@dataclass(frozen=True)
class Estimate:
    """Seconds each way; None where nothing is known yet."""

    differential: float
    full: float | None


@dataclass(frozen=True)
class Choice:
    """What to run and why: a stable code and a sentence."""

    mode: str
    code: str
    text: str

    @property
    def reason(self) -> str:
        return f"{self.code}: {self.text}"


@dataclass(frozen=True)
class RefreshWork:
    """What a refresh has to do, in rows."""

    changed: float
    source_rows: float

    def size(self, by_delta: bool) -> float:
        """What the seconds of this way depend on."""
        if by_delta:
            return FEW_CHANGED + self.changed
        return max(FEW_ROWS, self.source_rows) + self.changed

    def alike(self, other: RefreshWork, by_delta: bool) -> bool:
        return abs(log(self.size(by_delta) / other.size(by_delta))) <= log(LIKE)


@dataclass(frozen=True)
class PastRun:
    """A refresh that was measured."""

    work: RefreshWork
    by_delta: bool
    seconds: float


def choose(history: Sequence[RefreshReport], changed_rows: int, source_rows: int) -> Choice:
    """The cheaper way, or the dearer one where it is due for a measurement."""
    expected = estimate(history, changed_rows, source_rows)
    told = f"about {expected.differential:.2f} s for {changed_rows} changed rows"
    if expected.full is None:
        return Choice("DIFFERENTIAL", "FULL_UNMEASURED", f"{told}, no full run measured yet")
    told = f"{told} against {expected.full:.2f} s in full"
    if max(expected.differential, expected.full) <= QUICK:
        return Choice("DIFFERENTIAL", "QUICK", f"{told}; a delta reads and publishes least")
    runs, work = _runs(history, source_rows), RefreshWork(changed_rows, source_rows)
    modes = "DIFFERENTIAL", "FULL"
    cheaper, dearer = modes if expected.differential <= expected.full else modes[::-1]
    costs = sorted((expected.differential, expected.full))
    if why := _doubt(runs, work, dearer == "DIFFERENTIAL", *costs):
        return Choice(dearer, "REMEASURE", f"{told}; {why}")
    return Choice(cheaper, "CHEAPER", told)


def estimate(history: Sequence[RefreshReport], changed_rows: int, source_rows: int) -> Estimate:
    """Expected seconds of both ways; ``history`` is newest first."""
    runs, work = _runs(history, source_rows), RefreshWork(changed_rows, source_rows)
    in_full = [run for run in runs if not run.by_delta]
    by_delta = [run for run in runs if run.by_delta]
    full, per_row = None, 0.0
    if in_full:
        full = exp(_line(_points(in_full, work)))
        per_row = min(run.seconds / run.work.size(by_delta=False) for run in in_full[:3])
    prior = log(PRIOR_SECONDS + PRIOR_FACTOR * per_row * changed_rows)
    points = [(0.0, prior, (NOISE / PRIOR_NOISE) ** 2), *_points(by_delta, work)]
    return Estimate(exp(_line(points)), full)


def _runs(history: Sequence[RefreshReport], source_rows: int) -> list[PastRun]:
    """The refreshes that did something, without the seconds that starting Spark took."""
    return [
        PastRun(
            RefreshWork(sum(report.delta_rows.values()), report.source_rows or source_rows),
            report.effective_mode in BY_DELTA,
            max(report.seconds - report.phases.get("start", 0.0), LEAST_SECONDS),
        )
        for report in history
        if report.effective_mode in (*BY_DELTA, "FULL")
    ]


def _doubt(
    runs: Sequence[PastRun], work: RefreshWork, by_delta: bool, cheaper: float, dearer: float
) -> str:
    """Why the dearer way is to be run, or nothing.

    What was measured once is doubted sooner: a first full run had a cold Spark, and one delta may
    have met a busy machine. That explains a small distance, not a large one. What proved dearer
    several times is doubted ever more rarely, and never for more than the cheaper way itself takes.
    """
    seen = [
        place
        for place, run in enumerate(runs)
        if run.by_delta == by_delta and run.work.alike(work, by_delta)
    ]
    near = dearer <= NEAR * cheaper
    if by_delta and near and not seen:
        return "no delta of this size measured"
    since = runs[: seen[0]] if seen else runs
    spent = sum(run.seconds for run in since if run.work.alike(work, by_delta=True))
    once = len(seen) <= 1 and (near or not by_delta)
    again = min(cheaper, spent * DOUBT * 2 / max(2, len(seen)))
    may_lose = min(MOST_LOST, spent * DOUBT_ONCE if once else again)
    return "not measured lately" if dearer - cheaper < may_lose else ""


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
