"""Few rows worked on in this process, where every operator and expression is proven.

What is not proven, is too much, or fails here is left to Spark: an error is never ours to tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.compile import PartDelta
from spark_trickle.delta.segment import Part
from spark_trickle.delta.views import KEPT, beside_names
from spark_trickle.errors import ExecutionError, InternalError, InvalidDataError
from spark_trickle.ir.exact import ExactKind
from spark_trickle.ir.exact_plan import ExactPlan, Read
from spark_trickle.ir.nodes import Node
from spark_trickle.ir.types import Side
from spark_trickle.ir.walk import scans
from spark_trickle.local import batches
from spark_trickle.local.batches import ReadTable
from spark_trickle.local.program import Program, WeightedRows, rows_of
from spark_trickle.local.values import from_arrow, to_arrow
from spark_trickle.maintain.gather.nearby import MARKS, Nearby
from spark_trickle.maintain.refresh.lenient import alike, floats
from spark_trickle.prove.plans import local_plan
from spark_trickle.settings import Settings
from spark_trickle.storage.read.column_cache import Taken
from spark_trickle.storage.read.reader import net, read_scan
from spark_trickle.storage.records import WEIGHT, ScanPlan


@lru_cache(maxsize=1_000)
def _program(plan: ExactPlan) -> Program:
    return Program(plan)


@dataclass
class Near:
    """The rows that a delta is computed of."""

    near: Mapping[str, Nearby]
    deltas: Mapping[str, pa.Table]
    """Of sources that are read at DELTA only."""
    _known: dict[tuple[str, Side], pa.Table] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many there are."""
        tables = [rows for name, rows in self.deltas.items() if name not in self.near]
        tables += [found.rows for found in self.near.values()]
        return sum(int(rows.num_rows) for rows in tables)

    def read(self, read: Read) -> tuple[pa.Table, np.ndarray]:
        """The rows of one side of a source, and their weights."""
        place = (read.source, read.side)
        if place not in self._known:
            self._known[place] = self._taken(*place)
        rows = self._known[place]
        delta = read.side is Side.DELTA
        return rows, rows.column(WEIGHT).to_numpy() if delta else np.ones(rows.num_rows, np.int64)

    def _taken(self, source: str, side: Side) -> pa.Table:
        found = self.near.get(source)
        if found is None:
            return self.deltas[source]
        if not found.changed:
            return found.rows
        marks = found.rows.column(MARKS[side]).to_numpy()
        return found.rows.filter(pa.array(np.not_equal(marks, 0)))


@dataclass
class ScannedTables:
    """Whole tables, few rows of them."""

    scan: Callable[[str, Side], ScanPlan]
    taken: Taken = field(default_factory=Taken)

    def few(self, plan: Node, settings: Settings) -> bool:
        """Whether a plan reads few rows, out of files that are not large."""
        limits, most = settings.limits, settings.local_rows
        few = most > 0 and self.rows(plan) <= min(most, limits.worked_rows)
        return few and sum(p.bytes for p in self._plans(plan)) <= limits.worked_bytes

    def rows(self, plan: Node) -> int:
        """How many a plan reads."""
        return sum(p.rows for p in self._plans(plan))

    def _plans(self, plan: Node) -> list[ScanPlan]:
        return [self.scan(*place) for place in {(s.source, s.side) for s in scans(plan)}]

    def read(self, read: Read) -> tuple[pa.Table, np.ndarray]:
        """The rows of a table, and their weights."""
        names = [column.name for column in read.inputs]
        rows = read_scan(self.scan(read.source, read.side), names, taken=self.taken)
        return rows, np.ones(rows.num_rows, np.int64)


def compute(delta: PartDelta, view: Part | None, near: Near, *, ansi: bool) -> pa.Table | None:
    """The delta of a part, net, that of ``view`` beside it; None: Spark must answer."""
    plan, names = delta.exact(view, ansi=ansi)
    return run(plan, names, near.read, near.rows) if isinstance(plan, ExactPlan) else None


def whole(plan: Node, names: list[str], tables: ScannedTables, *, ansi: bool) -> pa.Table | None:
    """All rows of a plan with weights, net; None: Spark must answer."""
    exact = local_plan(plan, ansi=ansi)
    if not isinstance(exact, ExactPlan):
        return None
    return run(exact, names, tables.read, tables.rows(plan))


MANY = 300
"""From so many rows on, columns are quicker than rows."""


def run(plan: ExactPlan, names: list[str], read: ReadTable, rows: int) -> pa.Table | None:
    """The net rows of a plan that reads so many; None: Spark must answer."""
    many = rows >= MANY
    found = _tried(plan, names, read, by_columns=many)
    if CHECKED and found is not None and not many:
        again = _tried(plan, names, read, by_columns=True)
        if again is not None:
            check("a plan by rows and by columns", found, again)
    return found


def _tried(
    plan: ExactPlan, names: list[str], read: ReadTable, *, by_columns: bool
) -> pa.Table | None:
    try:
        if by_columns:
            return batches.run(plan, names, read)
        return _by_rows(_program(plan), names, read)
    except (ExecutionError, InvalidDataError, RecursionError, UnicodeError, pa.ArrowException):
        return None


def _by_rows(program: Program, names: list[str], read: ReadTable) -> pa.Table:
    def reader(wanted: Read) -> WeightedRows:
        table, weights = read(wanted)
        columns = [from_arrow(table.column(c.name), c.type) for c in wanted.inputs]
        return rows_of(columns, weights.tolist())

    found = program.run(reader)
    rows = list(found)
    arrays = [
        to_arrow(_stored([row[i] for row in rows], type.kind), type)
        for i, type in enumerate(program.plan.columns)
    ]
    arrays.append(pa.array(list(found.values()), pa.int64()))
    return pa.table(arrays, names=[*names, WEIGHT])


def _stored(values: list[Any], kind: ExactKind) -> list[Any]:
    """Spark has no negative zero among keys, and all columns of a delta are keys."""
    if kind is not ExactKind.DOUBLE:
        return values
    return [None if value is None else value + 0.0 for value in values]


CHECKED = 0
"""Every so many deltas that were computed here are computed on Spark, too, and all few rows also
by columns: for tests."""
_computed = count(1)


def doubted() -> bool:
    """Whether Spark shall say what it makes of this one."""
    return CHECKED > 0 and next(_computed) % CHECKED == 0


def check(part: str, here: pa.Table, there: pa.Table) -> None:
    """InternalError unless both hold the same rows, but for the last digits of floats."""
    there = there.cast(here.schema)
    less = there.set_column(
        there.column_names.index(WEIGHT), WEIGHT, pc.negate(there.column(WEIGHT))
    )
    left = alike(pa.concat_tables([here, less]), floats(here.schema)).to_pylist()
    if left:
        more, less = ([r for r in left if sign * r[WEIGHT] > 0][:5] for sign in (1, -1))
        raise InternalError(f"{part} was computed as {more}, by Spark as {less}")


def of_view(rows: pa.Table, view: Part) -> pa.Table:
    """The delta of a view, out of the rows that have it beside them."""
    names = [column.name for column in view.columns]
    rows = rows.filter(rows.column(KEPT)).select([*beside_names(view), WEIGHT])
    return net(rows.rename_columns([*names, WEIGHT]), names)
