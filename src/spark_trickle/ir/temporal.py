"""The clock in expressions: which calls read it, and filters that compare a column with it.

A temporal filter is a comparison of a column of a table with a value that depends on the clock and
on constants alone. At one clock it says: the column lies in a range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.ir.aggregates import function_name

NUMBER = "clock"
"""In the meta of a call that reads the clock: the number of what is said where it may not stand."""
MOMENTS = ("now", "current_timestamp")
DAYS = ("current_date", "curdate")
WALL = ("localtimestamp",)
CLOCK = frozenset((*MOMENTS, *DAYS, *WALL))
"""Functions whose value is the clock's."""


def is_clock(node: exp.Expr) -> bool:
    """Whether a call is the clock's moment, its day, or its wall time."""
    if isinstance(node, exp.CurrentTimestamp | exp.CurrentDate):
        return not node.args.get("this")
    if not isinstance(node, exp.Func) or list(node.iter_expressions()):
        return False
    return function_name(node) in CLOCK


def clock_calls(expression: exp.Expression) -> Iterator[exp.Expression]:
    """The calls in an expression that read the clock."""
    for node in expression.walk():
        if isinstance(node, exp.Expression) and is_clock(node):
            yield node


def at_clock(expression: exp.Expression, micros: int) -> exp.Expression:
    """A copy that has a moment (microseconds since 1970) in place of the clock.

    Days and wall times of a moment are those of the session's zone, as they are of the clock.
    """

    def constant(node: exp.Expression) -> exp.Expression:
        return _constant(node, micros) if is_clock(node) else node

    return expression.transform(constant)


def _constant(call: exp.Expression, micros: int) -> exp.Expression:
    moment = exp.Anonymous(this="timestamp_micros", expressions=[exp.Literal.number(micros)])
    name = "current_date" if isinstance(call, exp.CurrentDate) else function_name(call)
    if name in DAYS:
        return exp.cast(moment, exp.DataType.build("date"))
    if name in WALL:
        return exp.cast(moment, exp.DataType(this=exp.DataType.Type.TIMESTAMPNTZ))
    return moment


@dataclass(frozen=True)
class TimeEdge:
    """``column operator value``, where the value follows from the clock."""

    column: str
    type: exp.DataType
    operator: str
    """One of ``<``, ``<=``, ``>``, ``>=``, ``=``."""
    value: exp.Expression

    def __str__(self) -> str:
        return f"{self.column} {self.operator} {self.value.sql('spark')}"


@dataclass(frozen=True)
class Timed:
    """The rows of a source that temporal filters let through: it is scanned under a name of its own."""

    source: str
    edges: tuple[TimeEdge, ...]

    @property
    def name(self) -> str:
        return f"{self.source} where {' and '.join(map(str, self.edges))}"
