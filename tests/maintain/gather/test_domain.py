"""How many rows meet some values of a column: by what is known of its values, not by a guess."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from spark_trickle import Lake, Limits, connect
from spark_trickle.delta.keys.needs import Need
from spark_trickle.ir.types import Side
from spark_trickle.maintain.gather.finding import ScanFinder, domain
from spark_trickle.maintain.gather.nearby import nearby
from spark_trickle.storage.files import parquet
from spark_trickle.storage.records import WEIGHT, ScanPlan

ROWS, GROUP = 60_000, 5_000


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    monkeypatch.setattr(parquet, "ROW_GROUP", GROUP)
    with connect(tmp_path / "lake") as opened:
        opened.sql(
            "CREATE TABLE t (id STRING, kind STRING, sparse BIGINT, day DATE, yes BOOLEAN, n INT,"
            " PRIMARY KEY (n))"
        )
        numbers = range(ROWS)
        columns = {
            "id": [f"id {n}" for n in numbers],
            "kind": [f"kind {n % 5}" for n in numbers],
            "sparse": [n % 7 * 1_000_000 for n in numbers],
            "day": pa.array([n % 3 * 1_000 for n in numbers], pa.int32()).cast(pa.date32()),
            "yes": [n % 2 == 0 for n in numbers],
            "n": pa.array(numbers, pa.int32()),
        }
        opened.append("t", pa.table(columns))
        yield opened


@pytest.fixture
def plan(lake: Lake) -> ScanPlan:
    return lake._catalog.scan("t")


class Watched:
    """A run of which only the limits are asked."""

    def __init__(self, **limits: int) -> None:
        self.limits = Limits(**limits)
        self.rows_read = 0

    def note_read(self, rows: int, _: int) -> None:
        self.rows_read += rows


def finder(lake: Lake, run: Watched, *, guess: bool = False) -> ScanFinder:
    plans, columns = {"t": lake._catalog.scan("t")}, {"t": ("id", "kind", "n")}
    counts = None if guess else lake._catalog.distinct
    return ScanFinder(run, plans, columns, counts)  # type: ignore[arg-type]


def test_values_are_counted_within_their_ends(lake: Lake, plan: ScanPlan) -> None:
    run = Watched()
    known = finder(lake, run)._distinct
    assert domain(plan, "id", known) == pytest.approx(ROWS, rel=0.01)
    assert domain(plan, "kind", known) == 5
    assert domain(plan, "sparse", known) == 7
    assert domain(plan, "day", known) == 3
    assert run.rows_read == 4 * 4 * GROUP
    assert domain(plan, "yes", known) == 2
    assert domain(plan, "n", known) == ROWS
    assert run.rows_read == 4 * 4 * GROUP, "of two values and of a key nothing has to be read"


def test_what_nobody_counted_is_guessed(lake: Lake, plan: ScanPlan) -> None:
    guessed = finder(lake, Watched(), guess=True)._distinct
    names = ("id", "kind", "sparse", "day", "n")
    found = [domain(plan, name, guessed) for name in names]
    assert found == [ROWS / 10, ROWS / 10, ROWS, 2_001, ROWS]
    limited = Watched(sampled_bytes=1)
    assert domain(plan, "kind", finder(lake, limited)._distinct) == ROWS / 10
    assert limited.rows_read == 0


@pytest.mark.parametrize("guess", [True, False])
def test_rows_of_a_frequent_value_are_not_read_in_vain(lake: Lake, guess: bool) -> None:
    near, read = _near(lake, "kind", ["kind 3"], guess=guess)
    assert near is None, "too many rows are near"
    assert (read > 0) is guess


@pytest.mark.parametrize("guess", [True, False])
def test_rows_of_a_key_are_searched_here(lake: Lake, guess: bool) -> None:
    near, _ = _near(lake, "id", [f"id {n}" for n in range(1_000)], guess=guess)
    assert near == (None if guess else 1_000)


def _near(lake: Lake, column: str, values: list[str], *, guess: bool) -> tuple[int | None, int]:
    """How many rows are near changes with these values, None: too many; and how many were decoded
    for them."""
    run = Watched(held_values=0)
    changed = Need("d", Side.DELTA, frozenset(["k"]), {})
    tied = Need("t", Side.AFTER, frozenset([column]), {column: (frozenset([(0, "k")]),)})
    delta = pa.table({"k": values, WEIGHT: [1] * len(values)})
    finding = finder(lake, run, guess=guess)
    finding.expected("t", {column: pa.array(["known before"])})
    before = run.rows_read
    near = nearby(["t"], [changed, tied], {"d": delta}, finding, 9_000)
    return None if near is None else near["t"].rows.num_rows, run.rows_read - before
