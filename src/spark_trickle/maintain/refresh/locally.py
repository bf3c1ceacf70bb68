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
from spark_trickle.local.program import Program, ReadRows, WeightedRows, rows_of
from spark_trickle.local.values import from_arrow, to_arrow
from spark_trickle.maintain.gather.nearby import MARKS, Nearby
from spark_trickle.maintain.refresh.lenient import alike, floats
from spark_trickle.prove.plans import local_plan
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

    def read(self, read: Read) -> WeightedRows:
        """The rows of one side of a source."""
        place = (read.source, read.side)
        if place not in self._known:
            self._known[place] = self._taken(*place)
        rows = self._known[place]
        columns = [from_arrow(rows.column(column.name), column.type) for column in read.inputs]
        delta = read.side is Side.DELTA
        weights = rows.column(WEIGHT).to_pylist() if delta else [1] * rows.num_rows
        return rows_of(columns, weights)

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

    def few(self, plan: Node, most: int) -> bool:
        """Whether a plan reads at most so many rows, out of files that are not large."""
        plans = [self.scan(*place) for place in {(s.source, s.side) for s in scans(plan)}]
        return sum(p.rows for p in plans) <= most and sum(p.bytes for p in plans) <= MOST_BYTES

    def read(self, read: Read) -> WeightedRows:
        names = [column.name for column in read.inputs]
        rows = read_scan(self.scan(read.source, read.side), names, taken=self.taken)
        columns = [from_arrow(rows.column(column.name), column.type) for column in read.inputs]
        return rows_of(columns, [1] * rows.num_rows)


MOST_BYTES = 32 << 20
"""Of the files of whole tables."""


def compute(delta: PartDelta, view: Part | None, near: Near, *, ansi: bool) -> pa.Table | None:
    """The delta of a part, net, that of ``view`` beside it; None: Spark must answer."""
    plan, names = delta.exact(view, ansi=ansi)
    return _run(_program(plan), names, near.read) if isinstance(plan, ExactPlan) else None


def whole(plan: Node, names: list[str], tables: ScannedTables, *, ansi: bool) -> pa.Table | None:
    """All rows of a plan with weights, net; None: Spark must answer."""
    exact = local_plan(plan, ansi=ansi)
    return _run(Program(exact), names, tables.read) if isinstance(exact, ExactPlan) else None


def _run(program: Program, names: list[str], read: ReadRows) -> pa.Table | None:
    plan = program.plan
    try:
        found = program.run(read)
        rows = list(found)
        arrays = [
            to_arrow(_stored([row[i] for row in rows], type.kind), type)
            for i, type in enumerate(plan.columns)
        ]
    except (ExecutionError, InvalidDataError, RecursionError, UnicodeError, pa.ArrowException):
        return None
    arrays.append(pa.array(list(found.values()), pa.int64()))
    return pa.table(arrays, names=[*names, WEIGHT])


def _stored(values: list[Any], kind: ExactKind) -> list[Any]:
    """Spark has no negative zero among keys, and all columns of a delta are keys."""
    if kind is not ExactKind.DOUBLE:
        return values
    return [None if value is None else value + 0.0 for value in values]


CHECKED = 0
"""Every so many deltas that were computed here are computed on Spark, too: for tests."""
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
