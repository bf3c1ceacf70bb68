"""Temporal filters at the two clocks of a refresh: ranges of columns, and what lies between them.

At one clock, the filters of a timed source let through a box: a range for each column that they
compare. What crossed between two clocks is in one box and not in the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from spark_trickle.ir.temporal import Timed, TimeEdge
from spark_trickle.storage.read.ranges import narrowed
from spark_trickle.storage.records import DataFile, Ranges, ScanPlan

Range = tuple[int | None, int | None]
Box = Mapping[str, Range]
"""By column: the lowest and the highest value, None for open. None in place of a box: no row."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""Clocks are microseconds since then."""


def spelled(clock: int | None) -> str | None:
    """A moment for people, to the microsecond."""
    return None if clock is None else (EPOCH + timedelta(microseconds=clock)).isoformat(" ")


@dataclass(frozen=True)
class TimedSource:
    """A source through temporal filters, at the clock before and at the clock after."""

    source: str
    before: Box | None
    after: Box | None

    def scan(self, plan: ScanPlan, *, after: bool) -> ScanPlan:
        """What the filters let through of a plan."""
        box = self.after if after else self.before
        if box is None:
            return replace(plan, files=(), inlined=plan.inlined.slice(0, 0))
        return narrowed(plan, ranges(box))

    def crossed(self, plan: ScanPlan) -> list[tuple[int, ScanPlan]]:
        """The rows that came in (+1) and went out (-1) because the clock moved."""
        came = [(1, box) for box in without(self.after, self.before)]
        gone = [(-1, box) for box in without(self.before, self.after)]
        found = [(weight, narrowed(plan, ranges(box))) for weight, box in (*came, *gone)]
        return [(weight, each) for weight, each in found if each.rows]


@dataclass(frozen=True)
class Clocks:
    """The moments that a refresh moves between, and what each timed source lets through at them."""

    before: int | None = None
    after: int | None = None
    shown: Mapping[str, TimedSource] = field(default_factory=dict)
    spark_queries: int = 0
    """What it took to know."""

    @property
    def told(self) -> tuple[str | None, str] | None:
        """For the record."""
        after = spelled(self.after)
        return None if after is None else (spelled(self.before), after)

    def crossing(self, plans: Mapping[str, ScanPlan]) -> dict[str, int]:
        """By source: about how many rows of it crossed; those of which none can have are left out."""
        found: dict[str, int] = {}
        for shown in self.shown.values() if self.before is not None else ():
            parts = [plan for _, plan in shown.crossed(plans[shown.source])]
            if parts:
                about = sum(map(_expected, parts))
                found[shown.source] = found.get(shown.source, 0) + max(1, about)
        return found


Ask = Callable[[Sequence[tuple[TimeEdge, int]]], list["ClockValue | None"]]
"""Where the values of edges lie at clocks; None for NULL."""


def clocks(timed: Sequence[Timed], before: int | None, after: int, ask: Ask) -> Clocks:
    """Both boxes of each timed source."""
    if not timed:
        return Clocks()
    edges = [edge for each in timed for edge in each.edges]
    moments = [after] if before is None else [before, after]
    values = iter(ask([(edge, moment) for moment in moments for edge in edges]))
    boxes = [
        {each.name: _box([(edge, next(values)) for edge in each.edges]) for each in timed}
        for _ in moments
    ]
    shown = {t.name: TimedSource(t.source, boxes[0][t.name], boxes[-1][t.name]) for t in timed}
    return Clocks(before, after, shown)


@dataclass(frozen=True)
class ClockValue:
    """Where an expression of the clock lies among the values of a column."""

    floor: int
    """The largest value of the column's type that is not above it."""
    exact: bool
    """Whether it is just that value."""


def _box(edges: Iterable[tuple[TimeEdge, ClockValue | None]]) -> Box | None:
    box: dict[str, Range] = {}
    for edge, value in edges:
        if value is None:
            return None
        own = _range(edge.operator, value)
        both = None if own is None else _meet(box.get(edge.column, (None, None)), own)
        if both is None:
            return None
        box[edge.column] = both
    return box


def _range(operator: str, value: ClockValue) -> Range | None:
    floor = value.floor
    match operator:
        case ">":
            return floor + 1, None
        case ">=":
            return (floor if value.exact else floor + 1), None
        case "<":
            return None, (floor - 1 if value.exact else floor)
        case "<=":
            return None, floor
        case _:
            return (floor, floor) if value.exact else None


def _meet(one: Range, other: Range) -> Range | None:
    lows = [low for low, _ in (one, other) if low is not None]
    highs = [high for _, high in (one, other) if high is not None]
    low, high = max(lows, default=None), min(highs, default=None)
    return None if low is not None and high is not None and low > high else (low, high)


def ranges(box: Box) -> Ranges:
    return tuple((name, low, high) for name, (low, high) in box.items())


def without(one: Box | None, other: Box | None) -> list[Box]:
    """What is in one box and not in the other, as boxes that have nothing in common."""
    if one is None or other is None:
        return [] if one is None else [one]
    found: list[Box] = []
    shared = dict(one)
    for column, own in one.items():
        low, high = other[column]
        outside: list[Range] = [(None, low - 1)] if low is not None else []
        outside += [(high + 1, None)] if high is not None else []
        pieces = [piece for side in outside if (piece := _meet(own, side)) is not None]
        found += [{**shared, column: piece} for piece in pieces]
        both = _meet(own, other[column])
        if both is None:
            break
        shared[column] = both
    return found


def _expected(plan: ScanPlan) -> int:
    """As if the values of a file were spread evenly between its ends."""
    return int(plan.inlined.num_rows + sum(f.live * _share(plan, f) for f in plan.files))


def _share(plan: ScanPlan, file: DataFile) -> float:
    share = 1.0
    for name, low, high in plan.within:
        column = plan.table.column(name)
        bounds = None if column is None else file.bounds.get(column.id)
        if bounds is None or bounds.low is None or bounds.high is None:
            continue
        both = _meet((bounds.low, bounds.high), (low, high))
        inside = 0 if both is None else both[1] - both[0] + 1  # type: ignore[operator]
        share = min(share, inside / (bounds.high - bounds.low + 1))
    return share
