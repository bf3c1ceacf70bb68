"""FULL or DIFFERENTIAL: a choice by cost, from what earlier refreshes of the same table took.

seconds(DIFFERENTIAL) = a + b * changed rows, seconds(FULL) = c * source rows. Both lines are fitted
to the recorded refreshes by the mode that really ran. What was never measured has a prior: reading
one changed row costs as much as PRIOR_FACTOR rows of a full run, for its group is read before and after.
An estimate that has not met a measurement for REMEASURE_AFTER refreshes is put to the test when the
two are near each other, so that one bad measurement is not believed for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_trickle.maintain.records import RefreshReport

PRIOR_FACTOR = 2.5
PRIOR_SECONDS = 0.3
PRIOR_WEIGHT = 0.1
NOISE = 0.2
"""How far a measurement is off, as a part of it."""
PRIOR_SPREAD = 3.0
"""How far the prior of the slope may be off, as a part of it."""
REMEASURE_AFTER = 20
NEAR = 2.0
COLD_FACTOR = 5.0
COLD_SECONDS = 60.0
WINDOW = 50
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


def estimate(history: Sequence[RefreshReport], changed_rows: int, source_rows: int) -> Estimate:
    """Expected seconds of both ways; ``history`` is newest first."""
    full = _full_seconds(history, source_rows)
    slope = PRIOR_FACTOR * full / max(1, source_rows) if full is not None else 0.0
    points = [(0.0, PRIOR_SECONDS, PRIOR_WEIGHT)]
    by_delta = [report for report in history if report.effective_mode in BY_DELTA]
    for age, report in enumerate(by_delta[:WINDOW]):
        points.append((_changed(report), _spent(report), 0.9**age))
    fixed, per_row = _line(points, slope)
    return Estimate(fixed + per_row * changed_rows, full)


def choose(history: Sequence[RefreshReport], changed_rows: int, source_rows: int) -> Choice:
    """The cheaper way, or the one whose estimate is due for a measurement."""
    expected = estimate(history, changed_rows, source_rows)
    told = f"about {expected.differential:.2f} s for {changed_rows} changed rows"
    if expected.full is None:
        return Choice("DIFFERENTIAL", "FULL_UNMEASURED", f"{told}, no full run measured yet")
    told = f"{told} against {expected.full:.2f} s in full"
    near = expected.full < NEAR * expected.differential < NEAR * NEAR * expected.full
    ran = [report.effective_mode for report in history]
    modes = [mode for mode in ran if mode == "FULL" or mode in BY_DELTA][:REMEASURE_AFTER]
    if near and len(modes) == REMEASURE_AFTER and len(set(modes)) == 1:
        other = "FULL" if modes[0] != "FULL" else "DIFFERENTIAL"
        return Choice(other, "REMEASURE", f"{told}; not measured for {REMEASURE_AFTER} refreshes")
    if _cold(history, expected.full):
        return Choice("FULL", "REMEASURE", f"{told}; measured only once, when it was new")
    if expected.differential <= expected.full:
        return Choice("DIFFERENTIAL", "CHEAPER", told)
    return Choice("FULL", "CHEAPER", told)


def _cold(history: Sequence[RefreshReport], full: float) -> bool:
    """Whether the one full run is due again: it was the first thing a cold Spark did, and deltas
    have cost COLD_FACTOR times as much since."""
    runs = [place for place, report in enumerate(history) if report.effective_mode == "FULL"]
    if len(runs) != 1 or full > COLD_SECONDS:
        return False
    spent = sum(_spent(r) for r in history[: runs[0]] if r.effective_mode in BY_DELTA)
    return spent >= COLD_FACTOR * full


def _spent(report: RefreshReport) -> float:
    """Seconds of a refresh, without those that starting Spark took."""
    return report.seconds - report.phases.get("start", 0.0)


def _full_seconds(history: Sequence[RefreshReport], source_rows: int) -> float | None:
    """The median of the newest full runs, scaled to the size the sources have now."""
    runs = [r for r in history if r.effective_mode == "FULL"][:3]
    if not runs:
        return None
    scaled = sorted(_spent(r) * _scale(r, source_rows) for r in runs)
    return scaled[(len(scaled) - 1) // 2]


def _scale(report: RefreshReport, source_rows: int) -> float:
    return source_rows / report.source_rows if report.source_rows and source_rows else 1.0


def _changed(report: RefreshReport) -> float:
    return float(sum(report.delta_rows.values()))


def _line(points: Sequence[tuple[float, float, float]], prior: float) -> tuple[float, float]:
    """Least squares of relative errors: (x, y, weight) -> intercept and slope, neither negative.

    The slope is drawn to its prior until measurements of large deltas say otherwise: small ones
    differ by chance, and a line through them would promise anything for a large one.
    """
    weights = [weight / max(y, 1e-3) ** 2 for _, y, weight in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _, _) in zip(weights, points, strict=True)) / total
    mean_y = sum(w * y for w, (_, y, _) in zip(weights, points, strict=True)) / total
    spread = sum(w * (x - mean_x) ** 2 for w, (x, _, _) in zip(weights, points, strict=True))
    covariance = sum(
        w * (x - mean_x) * (y - mean_y) for w, (x, y, _) in zip(weights, points, strict=True)
    )
    pull = (NOISE / (PRIOR_SPREAD * prior)) ** 2 if prior > 0 else 0.0
    if spread + pull <= 0:
        return mean_y, 0.0
    slope = max(0.0, (covariance + pull * prior) / (spread + pull))
    return max(0.0, mean_y - slope * mean_x), slope
