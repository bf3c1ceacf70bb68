"""Reads of its sources the rows that a refresh looks for: small ones here, large ones with Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_trickle.storage.read.column_cache import Taken
from spark_trickle.storage.read.reader import read_scan
from spark_trickle.storage.read.restrictions import Restriction, meets
from spark_trickle.storage.read.search import search
from spark_trickle.storage.records import ScanPlan

if TYPE_CHECKING:
    from spark_trickle.spark.run import Run

HELD = 4_000_000
"""Up to this many values of a source are held in memory while it is searched more than once."""

HERE = 512 << 20
"""Up to about this many bytes are searched in this process, more by Spark."""

FOUND = 512 << 20
"""Up to about this many bytes of a source are brought into this process."""


@dataclass
class ScanFinder:
    """Finds rows of sources; ``columns`` are those that are needed of each."""

    run: Run
    plans: Mapping[str, ScanPlan]
    columns: Mapping[str, tuple[str, ...]]
    _held: dict[str, pa.Table] = field(default_factory=dict)

    def cost(self, source: str) -> int:
        """About the bytes of the columns."""
        return 0 if source in self._held else self._bytes(source, self.plans[source])

    def expected(self, source: str, restriction: Restriction) -> float:
        """As if the values were spread evenly over those that the column may have."""
        plan = self.plans[source]
        shares = [len(values) / domain(plan, name) for name, values in restriction.items()]
        return plan.rows * min([1.0, *shares])

    def find(self, source: str, restrictions: Sequence[Restriction], most: int) -> pa.Table | None:
        """The rows that meet one of the restrictions; None if they are more than ``most``, or too large."""
        plan, columns = self.plans[source], self.columns[source]
        if not restrictions:
            return read_scan(replace(plan, files=(), inlined=plan.inlined.slice(0, 0)), columns)
        everything = any(not restriction for restriction in restrictions)
        whole = self._bytes(source, plan) <= FOUND
        if everything and (not whole or plan.rows > most):
            return None
        if everything or (whole and plan.rows * len(columns) <= HELD):
            rows = self._hold(source, plan)
            return rows if everything else rows.filter(meets(rows, restrictions))
        plan = pruned(plan, restrictions)
        bytes = self._bytes(source, plan)
        if bytes > HERE:
            self.run.note_read(plan.rows, bytes)
            # As if the rows that are found were as long as the others.
            fits = FOUND * plan.rows // max(1, bytes)
            return self.run.search(plan, columns, restrictions, min(most, fits))
        taken = Taken()
        found = search(plan, columns, restrictions, taken, most)
        self.run.note_read(taken.rows, taken.bytes)
        return found

    def _hold(self, source: str, plan: ScanPlan) -> pa.Table:
        if source not in self._held:
            taken = Taken(plan.rows)
            self._held[source] = read_scan(plan, self.columns[source], taken=taken)
            self.run.note_read(taken.rows, taken.bytes)
        return self._held[source]

    def _bytes(self, source: str, plan: ScanPlan) -> int:
        return plan.bytes * len(self.columns[source]) // max(1, len(plan.table.columns))


def pruned(plan: ScanPlan, restrictions: Sequence[Restriction]) -> ScanPlan:
    """Without the files in which no row meets a restriction."""
    if len(plan.files) < 2:
        return plan
    kept = {file.id for restriction in restrictions for file in plan.prune(restriction).files}
    return replace(plan, files=tuple(file for file in plan.files if file.id in kept))


def domain(plan: ScanPlan, name: str) -> float:
    """About how many values a column may have: those between its ends, if they can be counted."""
    column = plan.table.column(name)
    assert column is not None
    ends = [bounds for f in plan.files if (bounds := f.bounds.get(column.id)) is not None]
    lows = [bounds.low for bounds in ends if bounds.low is not None]
    highs = [bounds.high for bounds in ends if bounds.high is not None]
    guess = max(1.0, plan.rows / 10)
    if not lows or not highs:
        return guess
    low, high = min(lows), max(highs)
    if isinstance(low, bool):
        return 2.0
    if column.type == "date":
        return float(high - low + 1)
    if isinstance(low, int) and not column.type.startswith("timestamp"):
        return min(float(high - low + 1), max(1.0, plan.rows))
    return guess
