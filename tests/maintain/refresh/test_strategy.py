"""The choice between FULL and DIFFERENTIAL against a pretended machine with known costs.

B11 of the traps: a cost that is measured once and wrongly must not be believed for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from spark_trickle.maintain.records.history import MEASUREMENTS, RefreshReport
from spark_trickle.maintain.refresh.strategy import CANCELLED, DOUBT, DOUBT_ONCE, choose, estimate

ROWS = 1_000_000


def ran(mode: str, seconds: float, changed: int = 0, source_rows: int = ROWS) -> RefreshReport:
    deltas = {"t": changed} if changed else {}
    return RefreshReport("s", mode, "", delta_rows=deltas, source_rows=source_rows, seconds=seconds)


class Machine:
    """Refreshes one after another, newest first in ``history``, at costs that may change."""

    def __init__(
        self, full: float, fixed: float, per_row: float, full_per_row: float = 0.0
    ) -> None:
        self.full, self.fixed, self.per_row = full, fixed, per_row
        self.full_per_row = full_per_row
        self.history: list[RefreshReport] = []

    def seconds(self, mode: str, changed: int) -> float:
        if mode == "FULL":
            return self.full + self.full_per_row * changed
        return self.fixed + self.per_row * changed

    def run(self, mode: str, changed: int) -> None:
        self.record(ran(mode, self.seconds(mode, changed), changed))

    def record(self, report: RefreshReport) -> None:
        """What `records.measured` keeps: the newest of each mode."""
        self.history.insert(0, report)
        same = [r for r in self.history if r.effective_mode == report.effective_mode]
        if len(same) > MEASUREMENTS:
            self.history.remove(same[-1])

    def refresh(self, changed: int) -> str:
        """What the refresher does: a delta past its budget is cancelled, and a full run follows."""
        choice = choose(self.history, changed, ROWS)
        seconds = self.seconds(choice.mode, changed)
        mode, lost = choice.mode, 0.0
        if choice.budget is not None and seconds > choice.budget:
            mode, lost = "FULL", choice.budget
            seconds = lost + self.seconds(mode, changed)
        phases = {CANCELLED: lost} if lost else {}
        self.record(replace(ran(mode, seconds, changed), phases=phases))
        return mode


def test_before_any_measurement_a_delta_is_preferred() -> None:
    choice = choose([], 10, ROWS)
    assert (choice.mode, choice.code) == ("DIFFERENTIAL", "FULL_UNMEASURED")
    assert choice.reason.startswith("FULL_UNMEASURED: ")


def test_small_and_huge_changes_after_one_full_run() -> None:
    history = [ran("FULL", 10.0)]
    assert choose(history, 100, ROWS).mode == "DIFFERENTIAL"
    assert choose(history, ROWS, ROWS).mode == "FULL"
    assert choose(history, ROWS, ROWS).code == "CHEAPER"


MACHINES = [
    (10.0, 0.2, 30e-6, 0.0),
    (10.0, 0.2, 3e-6, 0.0),
    (0.5, 0.4, 1e-6, 0.0),
    (3.0, 0.3, 100e-6, 0.0),
    (3.0, 0.3, 20e-6, 15e-6),
    (3.0, 0.3, 12e-6, 10e-6),
    (1.0, 0.8, 5e-6, 6e-6),
]
SIZES = [10, 100_000, 1_000, 400_000, 10_000, 30_000, 800_000, 200_000]


def learned(costs: tuple[float, ...]) -> Machine:
    machine = Machine(*costs)
    machine.run("FULL", 0)
    for changed in SIZES * 3:
        machine.refresh(changed)
    return machine


@pytest.mark.parametrize("costs", MACHINES)
def test_it_learns_where_the_two_meet(costs: tuple[float, ...]) -> None:
    machine = learned(costs)
    for changed in SIZES:
        expected = estimate(machine.history, changed, ROWS)
        assert expected.full is not None
        mode = "DIFFERENTIAL" if expected.differential <= expected.full else "FULL"
        best = min(machine.seconds(m, changed) for m in ("FULL", "DIFFERENTIAL"))
        assert machine.seconds(mode, changed) <= 1.2 * best, (changed, expected)


@pytest.mark.parametrize("costs", MACHINES)
def test_rechecks_included_it_stays_near_the_best(costs: tuple[float, ...]) -> None:
    """A first full run may have been a cold one: checking that once is the dearest of all rechecks."""
    machine = learned(costs)
    spent = best = 0.0
    for changed in SIZES * 6:
        machine.refresh(changed)
        spent += machine.history[0].seconds
        best += min(machine.seconds(m, changed) for m in ("FULL", "DIFFERENTIAL"))
    assert spent <= 1.25 * best


def test_estimates_follow_the_measurements() -> None:
    history = [ran("DIFFERENTIAL", 0.5 + 2e-6 * n, n) for n in (100, 50_000, 200_000, 400_000)]
    expected = estimate([*history, ran("FULL", 4.0)], 100_000, ROWS)
    assert expected.differential == pytest.approx(0.7, rel=0.1)
    assert expected.full == pytest.approx(4.4, rel=0.02), "a full run writes what changed, too"


def test_a_full_run_costs_more_when_the_sources_have_grown() -> None:
    grown = estimate([ran("FULL", 1.0, source_rows=ROWS)], 1, 10 * ROWS).full
    assert grown == pytest.approx(10.0, rel=0.001)


def test_a_full_run_of_nothing_says_little_about_one_of_many_rows() -> None:
    """A stream table made before its source was filled."""
    empty = [ran("FULL", 0.5, source_rows=1)]
    expected = estimate(empty, ROWS, ROWS)
    assert expected.full is not None
    assert 2.0 < expected.full < 20.0
    assert expected.differential < 50.0


def test_what_did_nothing_teaches_nothing() -> None:
    """B4: runs that were skipped, failed or had nothing to do must not look like fast deltas."""
    real = [ran("DIFFERENTIAL", 2.0, 1_000), ran("FULL", 3.0)]
    idle = [ran(mode, 0.001) for mode in ("NO_DATA", "SKIPPED", "ERROR") for _ in range(40)]
    assert estimate([*idle, *real], 1_000, ROWS) == estimate(real, 1_000, ROWS)


def test_a_full_run_counts_as_full_only() -> None:
    """B4: the mode that really ran is what is learnt from."""
    slow = [ran("FULL", 60.0, 1_000) for _ in range(10)]
    assert estimate(slow, 1_000, ROWS).differential < 1.0


def test_b11_full_is_measured_again_although_idle_runs_come_between() -> None:
    machine = Machine(full=1.0, fixed=0.9, per_row=0.0)
    machine.run("FULL", 0)
    machine.full = 0.2  # the first one was slow by accident
    modes = []
    for _ in range(60):
        modes.append(machine.refresh(1_000))
        machine.record(ran("NO_DATA", 0.001))
    assert "FULL" in modes
    assert modes[-1] == "FULL", "and then the better one stays"


def test_b11_differential_is_measured_again() -> None:
    machine = Machine(full=1.0, fixed=1.5, per_row=0.0)
    machine.run("FULL", 0)
    machine.run("DIFFERENTIAL", 1_000)  # slow by accident
    machine.fixed = 0.2
    modes = [machine.refresh(1_000) for _ in range(60)]
    assert modes[-1] == "DIFFERENTIAL"


@pytest.mark.parametrize("wrong", [5.0, 20.0])
def test_b11_one_absurd_measurement_is_not_believed_for_ever(wrong: float) -> None:
    """The first full run also starts Spark and compiles code; later ones are far cheaper."""
    machine = Machine(full=wrong, fixed=1.0, per_row=0.0)
    machine.run("FULL", 0)
    machine.full = 0.3
    modes = [machine.refresh(500_000) for _ in range(120)]
    assert modes[-1] == "FULL"
    assert modes.count("DIFFERENTIAL") <= 1.5 * wrong / DOUBT_ONCE + 10


def test_b11_neither_is_chosen_for_ever_when_costs_change() -> None:
    machine = Machine(full=2.0, fixed=0.2, per_row=8e-6)
    machine.run("FULL", 0)
    for _ in range(30):
        machine.refresh(150_000)
    assert machine.refresh(150_000) == "DIFFERENTIAL"
    machine.full = 0.6
    assert _settles(machine, lambda: machine.refresh(150_000)) == "FULL"
    machine.full = 4.0
    assert _settles(machine, lambda: machine.refresh(150_000)) == "DIFFERENTIAL"


def _settles(machine: Machine, refresh: Callable[[], str]) -> str:
    return [refresh() for _ in range(80)][-1]


def test_a_size_that_was_never_measured_is_tried_once_where_it_may_pay() -> None:
    """A line through small deltas promises too much or too little for large ones."""
    machine = Machine(full=3.0, fixed=0.2, per_row=20e-6, full_per_row=2e-6)
    machine.run("FULL", 0)
    for changed in (10, 1_000, 20_000):
        machine.refresh(changed)
    machine.per_row = 8e-6  # large deltas cost less by the row
    modes = [machine.refresh(200_000) for _ in range(3)]
    assert modes[0] == "DIFFERENTIAL"
    assert set(modes) == {"DIFFERENTIAL"}, "it proved the better one"


def test_b11_a_cold_first_run_is_measured_again_for_small_changes_too() -> None:
    machine = Machine(full=8.0, fixed=0.4, per_row=0.0)
    machine.run("FULL", 0)
    machine.full = 0.1
    modes = [machine.refresh(10) for _ in range(150)]
    assert "FULL" in modes
    assert modes[-1] == "FULL"


def test_a_long_full_run_is_not_repeated_to_learn_from_it() -> None:
    machine = Machine(full=3_600.0, fixed=10.0, per_row=0.0)
    machine.run("FULL", 0)
    assert {machine.refresh(10) for _ in range(3_000)} == {"DIFFERENTIAL"}


def test_starting_spark_is_no_part_of_the_cost() -> None:
    slow = ran("FULL", 9.0)
    slow = replace(slow, phases={"start": 8.0, "compute": 1.0})
    assert estimate([slow], 1, ROWS).full == pytest.approx(1.0, rel=0.001)


def test_measuring_again_costs_little() -> None:
    machine = Machine(full=1.0, fixed=0.7, per_row=0.0)
    machine.run("FULL", 0)
    modes = [machine.refresh(1_000) for _ in range(200)]
    lost = modes.count("FULL") * (machine.full - machine.fixed)
    assert lost <= 1.5 * DOUBT * 200 * machine.fixed


CHANGED = (200, 2_000, 20_000, 100_000, 400_000, 1_000_000, 1_600_000)
"""Of 1 M rows, as the sweep of `make bench` changes them."""


@pytest.mark.parametrize(
    ("full", "by_delta"),
    [
        ((0.7, 0.9, 0.9, 1.1, 1.0, 1.0, 0.8), (0.15, 0.2, 0.4, 0.8, 0.8, 0.8, 0.8)),
        ((0.8, 1.0, 1.0, 0.9, 0.8, 0.8, 0.7), (0.2, 0.25, 0.4, 0.55, 0.5, 0.55, 0.75)),
        ((0.9, 0.8, 0.9, 1.2, 1.4, 2.2, 2.4), (0.1, 0.1, 0.2, 0.45, 0.9, 2.5, 3.1)),
    ],
    ids=["aggregate", "join", "copy"],
)
def test_deltas_that_grow_more_slowly_than_their_rows(
    full: tuple[float, ...], by_delta: tuple[float, ...]
) -> None:
    """A straight line through small deltas would promise four times what the large ones take."""
    history = [ran("FULL", 2 * full[0])]
    for turn in range(4):
        for changed, *costs in zip(CHANGED, full, by_delta, strict=True):
            mode = choose(history, changed, ROWS).mode
            seconds = costs[0] if mode == "FULL" else costs[1]
            history.insert(0, ran(mode, seconds, changed))
            assert turn < 2 or seconds <= 1.4 * min(costs), (turn, changed, mode)
    for changed, *costs in zip(CHANGED, full, by_delta, strict=True):
        expected = estimate(history, changed, ROWS)
        assert expected.differential == pytest.approx(costs[1], rel=0.4), changed


class Traps(Machine):
    """Over facts and a dimension; ``costs`` says what a delta takes, by source and turn."""

    def __init__(self, full: float, costs: Callable[[str, int], float]) -> None:
        super().__init__(full, 0.0, 0.0)
        self.costs = costs
        self.run("FULL", 0)
        self.spent = self.best = 0.0

    def turn(self, source: str, number: int, reads: float | None = None) -> None:
        delta = self.costs(source, number)
        choice = choose(self.history, {source: 1}, ROWS, reads)
        mode, seconds, lost = choice.mode, self.full, 0.0
        if mode == "DIFFERENTIAL":
            seconds = delta
            if choice.budget is not None and delta > choice.budget:
                mode, lost = "FULL", choice.budget
                seconds = lost + self.full
        report = ran(mode, seconds, 1)
        phases = {CANCELLED: lost} if lost else {}
        self.record(replace(report, delta_rows={source: 1}, phases=phases))
        self.spent += seconds
        self.best += min(delta, self.full)


@pytest.mark.parametrize("full", [2.0, 5.0, 10.0, 60.0])
@pytest.mark.parametrize("every", [3, 10, 50])
@pytest.mark.parametrize("known", [True, False], ids=["bytes known", "bytes unknown"])
def test_one_row_of_a_dimension_after_cheap_deltas_of_facts(
    full: float, every: int, known: bool
) -> None:
    """It moves half of the facts, which nothing but its name, and the bytes to read, tells."""
    machine = Traps(full, lambda source, _: 0.3 if source == "facts" else 8 * full)
    reads = {"facts": 0.001, "dimension": 1.0}
    for number in range(100):
        source = "dimension" if number % every == every - 1 else "facts"
        machine.turn(source, number, reads[source] if known else None)
    if known or (full <= 10.0 and every <= 10):  # else a trial or two of so few is too much
        assert machine.spent <= 1.5 * machine.best
    modes = [r.effective_mode for r in machine.history if "facts" in r.delta_rows]
    assert modes.count("FULL") <= 1, "what a dimension takes says nothing about facts"


@pytest.mark.parametrize("full", [2.0, 5.0, 10.0])
@pytest.mark.parametrize("dear", [1.3, 4.0, 20.0])
def test_deltas_that_are_dear_once_and_cheap_ever_after(full: float, dear: float) -> None:
    machine = Traps(full, lambda _, number: dear * full if number == 0 else full / 10)
    for number in range(100):
        machine.turn("facts", number)
    assert machine.spent <= 1.5 * machine.best


@pytest.mark.parametrize("dear", [1.6, 4.0, 20.0])
def test_deltas_that_stay_dear_are_tried_ever_more_rarely_but_for_ever(dear: float) -> None:
    machine = Traps(5.0, lambda _, number: dear * 5.0 if number < 400 else 0.3)
    for number in range(100):
        machine.turn("facts", number)
    assert machine.spent <= 1.2 * machine.best
    for number in range(100, 500):
        machine.turn("facts", number)
    assert machine.history[0].effective_mode == "DIFFERENTIAL", "and found out when it pays"
