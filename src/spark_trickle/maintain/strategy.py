"""FULL or DIFFERENTIAL: a choice by cost, from what earlier refreshes of the same table took.

seconds(DIFFERENTIAL) = a + b * changed rows, seconds(FULL) = c * source rows + d * changed rows, for
a full run also has to write what changed. Both lines are fitted to the recorded refreshes by the
mode that really ran, those of a similar size first. What was never measured has a prior: a changed
row costs as much as FULL_FACTOR rows of a full run to write, and PRIOR_FACTOR to compute and write,
for its group is read before and after. Where the two are near each other, the one that was not
measured at that size, or not for REMEASURE_AFTER refreshes, is put to the test: neither one bad
measurement nor a line drawn too far is believed for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from spark_trickle.maintain.records import RefreshReport

FULL_FACTOR = 1.0
PRIOR_FACTOR = 3.5
PRIOR_SECONDS = 0.3
PRIOR_WEIGHT = 0.1
NOISE = 0.2
"""How far a measurement is off, as a part of it."""
PRIOR_SPREAD = 3.0
"""How far the prior of the slope may be off, as a part of it."""
REMEASURE_AFTER = 20
NEAR = 2.0
WORTH_A_TRY = 1.5
COLD_FACTOR = 3.0
COLD_SECONDS = 60.0
WINDOW = 50
FADE = 0.8
FEW_ROWS = 100.0
"""Differences of sizes below this say nothing."""
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
    runs = [r for r in history if r.effective_mode == "FULL"][:WINDOW]
    full, per_source_row = None, 0.0
    if runs:
        sizes = [(_changed(r), _spent(r) * _scale(r, source_rows)) for r in runs]
        per_source_row = min(seconds for _, seconds in sizes[:3]) / max(1, source_rows)
        points = _weighted(sizes, changed_rows)
        fixed, per_row = _line(points, FULL_FACTOR * per_source_row)
        full = fixed + per_row * changed_rows
    by_delta = [(_changed(r), _spent(r)) for r in history if r.effective_mode in BY_DELTA][:WINDOW]
    points = [(0.0, PRIOR_SECONDS, PRIOR_WEIGHT), *_weighted(by_delta, changed_rows)]
    fixed, per_row = _line(points, PRIOR_FACTOR * per_source_row)
    return Estimate(fixed + per_row * changed_rows, full)


def _weighted(
    sizes: Sequence[tuple[float, float]], changed_rows: int
) -> list[tuple[float, float, float]]:
    """Measurements with weights: the newer and the nearer in size, the more."""
    weighted = []
    for age, (changed, seconds) in enumerate(sizes):
        distance = log((changed + FEW_ROWS) / (changed_rows + FEW_ROWS))
        weighted.append((changed, seconds, FADE**age / (1 + distance**2)))
    return weighted


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
    within = expected.full < expected.differential < WORTH_A_TRY * expected.full
    if within and not _tried(history, changed_rows):
        return Choice("DIFFERENTIAL", "REMEASURE", f"{told}; no delta of this size measured")
    if _cold(history):
        return Choice("FULL", "REMEASURE", f"{told}; measured only once, when it was new")
    if expected.differential <= expected.full:
        return Choice("DIFFERENTIAL", "CHEAPER", told)
    return Choice("FULL", "CHEAPER", told)


def _cold(history: Sequence[RefreshReport]) -> bool:
    """Whether the one full run is due again: it was the first thing a cold Spark did, and deltas
    have cost COLD_FACTOR times as much since."""
    places = [place for place, report in enumerate(history) if report.effective_mode == "FULL"]
    if len(places) != 1 or _spent(history[places[0]]) > COLD_SECONDS:
        return False
    spent = sum(_spent(r) for r in history[: places[0]] if r.effective_mode in BY_DELTA)
    return spent >= COLD_FACTOR * _spent(history[places[0]])


def _spent(report: RefreshReport) -> float:
    """Seconds of a refresh, without those that starting Spark took."""
    return report.seconds - report.phases.get("start", 0.0)


def _tried(history: Sequence[RefreshReport], changed_rows: int) -> bool:
    """Whether a delta of about this size was measured."""
    sizes = [_changed(r) for r in history if r.effective_mode in BY_DELTA]
    return any(size <= 3 * changed_rows and changed_rows <= 3 * size for size in sizes)


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
