"""Reads of its sources the rows that a refresh looks for: small ones here, large ones with Spark.

Which rows may pass a filter is judged by what Arrow and Spark certainly agree on. Law: a row is sieved
out only if Spark would drop it, too. Comparisons of integers, decimals, dates and strings with
constants or with each other are judged; whatever else is taken to be true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from spark_trickle.ir.decimals import all_digits, digits_of
from spark_trickle.storage.manifest.distinct import SMALL, DistinctCounts
from spark_trickle.storage.read.column_cache import Taken
from spark_trickle.storage.read.reader import read_scan
from spark_trickle.storage.read.search import Restriction, meets, search
from spark_trickle.storage.records import Column, ScanPlan

if TYPE_CHECKING:
    from spark_trickle.spark.run import Run

_COMPARISONS: dict[type[exp.Expression], Callable[[Any, Any], Any]] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}


_PLAIN = {"this", "expression", "expressions", "low", "high"}


def may_pass(rows: pa.Table, tests: Sequence[exp.Expression]) -> np.ndarray | None:
    """The rows that may pass all tests, whose columns are named; None: all of them."""
    passed: np.ndarray | None = None
    for test in tests:
        found = _judged(rows, test)
        if found is not None:
            passed = found if passed is None else passed & found
    return passed


def _judged(rows: pa.Table, test: exp.Expression) -> np.ndarray | None:
    """NULL counts as FALSE; None: cannot tell."""
    if any(value for name, value in test.args.items() if name not in _PLAIN):
        # Such as NOT in NOT LIKE, SYMMETRIC, or a subquery.
        return None
    match test:
        case exp.Paren():
            return _judged(rows, test.this)
        case exp.And():
            return may_pass(rows, [test.this, test.expression])
        case exp.Or():
            left, right = _judged(rows, test.this), _judged(rows, test.expression)
            return None if left is None or right is None else left | right
        case exp.Between():
            low = exp.GTE(this=test.this.copy(), expression=test.args["low"].copy())
            high = exp.LTE(this=test.this.copy(), expression=test.args["high"].copy())
            return may_pass(rows, [low, high])
        case exp.In() if test.expressions:
            equal = [exp.EQ(this=test.this.copy(), expression=e.copy()) for e in test.expressions]
            found = [_judged(rows, one) for one in equal]
            known = [one for one in found if one is not None]
            return np.logical_or.reduce(known) if len(known) == len(found) else None
        case exp.Like():
            return _like(rows, test)
        case _:
            return _compared(rows, test)


def _compared(rows: pa.Table, test: exp.Expression) -> np.ndarray | None:
    compare = _COMPARISONS.get(type(test))
    if compare is None:
        return None
    left, right = _value(rows, test.this), _value(rows, test.expression)
    if left is None or right is None or _kind(left.type) != _kind(right.type):
        return None
    if _beyond(left, right) or _beyond(right, left) or _rounded(left, right):
        return None
    try:
        return _mask(compare(left, right), rows.num_rows)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _beyond(column: Any, constant: Any) -> bool:
    """Whether a decimal may be beyond an integer column's type: Spark takes ``<`` as true then, even of NULL."""
    whole = isinstance(column, pa.ChunkedArray) and pa.types.is_integer(column.type)
    return whole and isinstance(constant, pa.Scalar) and pa.types.is_decimal(constant.type)


def _rounded(left: Any, right: Any) -> bool:
    """Whether Spark may round two numbers before it compares them."""
    return not all_digits(_digits(left), _digits(right))


def _digits(value: pa.ChunkedArray | pa.Scalar) -> tuple[int, int]:
    if pa.types.is_decimal(value.type):
        return value.type.precision, value.type.scale
    if not pa.types.is_integer(value.type):
        return 0, 0
    return digits_of(Decimal(value.as_py())) if isinstance(value, pa.Scalar) else (20, 0)


def _like(rows: pa.Table, test: exp.Like) -> np.ndarray | None:
    """Patterns with nothing but % at their ends."""
    column, pattern = _value(rows, test.this), test.expression
    if not isinstance(column, pa.ChunkedArray) or not isinstance(pattern, exp.Literal):
        return None
    if not pattern.is_string or any(sign in pattern.name.strip("%") for sign in "%_\\"):
        return None
    return _mask(pc.match_like(column, pattern.name), rows.num_rows)


def _mask(found: Any, length: int) -> np.ndarray:
    if isinstance(found, pa.Scalar):
        return np.full(length, bool(found.as_py()))
    mask: np.ndarray = pc.fill_null(found, False).to_numpy()
    return mask


def _value(rows: pa.Table, e: exp.Expression) -> pa.ChunkedArray | pa.Scalar | None:
    match e:
        case exp.Column():
            return rows.column(e.name) if _kind(rows.schema.field(e.name).type) else None
        case exp.Literal():
            return pa.scalar(e.name) if e.is_string else _number(e.name)
        case exp.Cast() if e.to.this == exp.DataType.Type.DATE and isinstance(e.this, exp.Literal):
            try:
                return pa.scalar(date.fromisoformat(e.this.name))
            except ValueError:
                return None
        case _:
            return None


def _number(text: str) -> pa.Scalar | None:
    """A number with all its digits; None for what Arrow has no exact type for."""
    if not text.replace(".", "", 1).isdigit():
        return None
    try:
        return pa.scalar(Decimal(text) if "." in text or int(text) >= 1 << 63 else int(text))
    except pa.ArrowInvalid:
        return None


def _kind(type: pa.DataType) -> str:
    if pa.types.is_integer(type) or pa.types.is_decimal(type):
        return "number"
    if pa.types.is_date(type):
        return "date"
    return "text" if pa.types.is_string(type) or pa.types.is_large_string(type) else ""


@dataclass
class ScanFinder:
    """Finds rows of sources; ``columns`` are those that are needed of each."""

    run: Run
    plans: Mapping[str, ScanPlan]
    columns: Mapping[str, tuple[str, ...]]
    counts: DistinctCounts | None = None
    """What is known of the values of columns; without it their number is guessed."""
    _held: dict[str, pa.Table] = field(default_factory=dict)

    def cost(self, source: str) -> int:
        """About the bytes of the columns."""
        return 0 if source in self._held else self._bytes(source, self.plans[source])

    def expected(self, source: str, restriction: Restriction) -> float:
        """As if the values were spread evenly over those that the column may have."""
        plan = self.plans[source]
        shares = [
            len(values) / domain(plan, name, self._distinct) for name, values in restriction.items()
        ]
        return plan.rows * min([1.0, *shares])

    def _distinct(self, plan: ScanPlan, column: Column) -> int | None:
        if self.counts is None:
            return None
        taken = Taken()
        found = self.counts.count(plan, column, self.run.limits.sampled_bytes, taken)
        self.run.note_read(taken.rows, taken.bytes)
        return found

    def find(self, source: str, restrictions: Sequence[Restriction], most: int) -> pa.Table | None:
        """The rows that meet one of the restrictions; None if they are more than ``most``, or too large."""
        plan, columns, limits = self.plans[source], self.columns[source], self.run.limits
        if not restrictions:
            return read_scan(replace(plan, files=(), inlined=plan.inlined.slice(0, 0)), columns)
        everything = any(not restriction for restriction in restrictions)
        whole = self._bytes(source, plan) <= limits.fetched_bytes
        whole = whole and len(plan.files) <= limits.read_files
        if everything and (not whole or plan.rows > most):
            return None
        if everything or (whole and plan.rows * len(columns) <= limits.held_values):
            rows = self._hold(source, plan)
            return rows if everything else rows.filter(meets(rows, restrictions))
        plan = pruned(plan, restrictions)
        bytes = self._bytes(source, plan)
        if bytes > limits.near_bytes or len(plan.files) > limits.read_files:
            self.run.note_read(plan.decoded_rows, bytes)
            # As if the rows that are found were as long as the others.
            fits = limits.fetched_bytes * plan.rows // max(1, bytes)
            return self.run.search(plan, columns, restrictions, min(most, fits))
        taken = Taken()
        found = search(plan, columns, restrictions, taken, most)
        self.run.note_read(taken.rows, taken.bytes)
        return found

    def _hold(self, source: str, plan: ScanPlan) -> pa.Table:
        if source not in self._held:
            taken = Taken()
            self._held[source] = read_scan(plan, self.columns[source], taken=taken)
            self.run.note_read(taken.rows, taken.bytes)
        return self._held[source]

    def _bytes(self, source: str, plan: ScanPlan) -> int:
        return plan.bytes * len(self.columns[source]) // max(1, len(plan.table.columns))


def pruned(plan: ScanPlan, restrictions: Sequence[Restriction]) -> ScanPlan:
    """Without the files in which no row meets a restriction."""
    return plan if len(plan.files) < 2 else plan.prune_to_any(restrictions)


Distinct = Callable[[ScanPlan, Column], int | None]
"""How many values a column has; None: nobody knows."""


def domain(plan: ScanPlan, name: str, distinct: Distinct) -> float:
    """About how many values a column has: as many as rows if it is the key, else as was estimated, and
    no more than there are between its ends. Where nothing is known, ten rows have one value."""
    column = plan.table.column(name)
    assert column is not None
    rows = max(1.0, plan.rows)
    if [key.lower() for key in plan.table.primary_key] == [column.name.lower()]:
        return rows
    width = _width(plan, column)
    if width is not None and width <= 2:
        return width
    counted = distinct(plan, column) if rows > SMALL else None
    if counted is not None:
        return max(1.0, min(rows, counted, width or rows))
    return max(1.0, rows / 10) if width is None else width


def _width(plan: ScanPlan, column: Column) -> float | None:
    """How many values there are between the ends of a column, if they can be counted."""
    low, high = plan.ends(column)
    if low is None or high is None:
        return None
    if isinstance(low, bool):
        return 2.0
    if column.type == "date":
        return float(high - low + 1)
    if isinstance(low, int) and not column.type.startswith("timestamp"):
        return min(float(high - low + 1), max(1.0, plan.rows))
    return None
