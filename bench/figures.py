"""One measured figure and the bar it must meet."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from rich.console import Console

console = Console() if Console().is_terminal else Console(width=120)


@dataclass(frozen=True)
class Figure:
    """``measured`` must not exceed ``bar``, or be ``at_least`` that; both in ``unit`` (x: times plain Spark)."""

    name: str
    ours: float
    plain: float | None
    measured: float
    bar: float
    unit: str = "x"
    detail: str = ""
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.measured >= self.bar if self.at_least else self.measured <= self.bar

    def cells(self) -> tuple[str, ...]:
        plain = "" if self.plain is None else f"{self.plain:.3f} s"
        ours = f"{self.ours:.3f} s" if self.unit == "x" else self.detail
        return (
            self.name,
            ours,
            plain,
            f"{self.measured:.2f} {self.unit}",
            f"{'≥' if self.at_least else '≤'} {self.bar:g} {self.unit}",
        )

    def record(self) -> dict[str, object]:
        return {**asdict(self), "met": self.met}


def seconds(work: Callable[[], object]) -> float:
    gc.collect()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def side_by_side(
    ours: Callable[[], object], plain: Callable[[], object], repeat: int
) -> tuple[float, float]:
    """The best of each, run in turns after warming up: what else runs can only make them slower."""
    for _ in range(2):
        ours()
        plain()
    pairs = [(seconds(ours), seconds(plain)) for _ in range(repeat)]
    return min(p[0] for p in pairs), min(p[1] for p in pairs)


def ratio(
    name: str,
    bar: float,
    ours: Callable[[], object],
    plain: Callable[[], object],
    repeat: int,
) -> Figure:
    mine, theirs = side_by_side(ours, plain, repeat)
    return Figure(name, mine, theirs, mine / theirs, bar)
