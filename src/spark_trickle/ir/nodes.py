"""The operators. Every node is frozen, names its output in ``columns``, and is a multiset.

Scalar expressions are sqlglot trees in which every column reference is ``scalars.ref(column)``:
an ``exp.Column`` whose quoted identifier is ``name#id``. Nothing after ``bind`` looks a name up.

Weights are implicit: a scan at DELTA and what is built on it carry an integer weight per row,
every other row weighs 1, ``Negate`` flips the sign and a join multiplies. ``lower`` writes them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from sqlglot import exp

from spark_trickle.ir.types import Column, Schema, Side


@dataclass(frozen=True)
class Scan:
    """A source on one side of its change. Cost: the files that survive pruning."""

    source: str
    columns: Schema
    side: Side = Side.AFTER


@dataclass(frozen=True)
class Values:
    """Constant rows: VALUES, and the one empty row of a SELECT without FROM."""

    columns: Schema
    rows: tuple[tuple[exp.Expression, ...], ...]


@dataclass(frozen=True)
class Project:
    """One row out for one row in; ``outputs`` pairs each new column with its expression."""

    input: Node
    outputs: tuple[tuple[Column, exp.Expression], ...]

    @cached_property
    def columns(self) -> Schema:
        return tuple(column for column, _ in self.outputs)


@dataclass(frozen=True)
class Filter:
    """The rows for which ``predicate`` is TRUE."""

    input: Node
    predicate: exp.Expression

    @cached_property
    def columns(self) -> Schema:
        return self.input.columns


@dataclass(frozen=True)
class Join:
    """Inner or cross join of two or more inputs; ``conditions`` are conjuncts, in any order."""

    inputs: tuple[Node, ...]
    conditions: tuple[exp.Expression, ...] = ()

    @cached_property
    def columns(self) -> Schema:
        return tuple(column for node in self.inputs for column in node.columns)


class OuterKind(Enum):
    """Which side keeps rows without a partner. RIGHT is written as LEFT by ``bind``."""

    LEFT = "left"
    FULL = "full"


@dataclass(frozen=True)
class OuterJoin:
    """Outer join under any condition. Padded columns are nullable in ``columns``."""

    left: Node
    right: Node
    kind: OuterKind
    conditions: tuple[exp.Expression, ...]
    columns: Schema


@dataclass(frozen=True)
class SemiJoin:
    """Left rows with at least one partner on the right."""

    left: Node
    right: Node
    conditions: tuple[exp.Expression, ...]

    @cached_property
    def columns(self) -> Schema:
        return self.left.columns


@dataclass(frozen=True)
class AntiJoin:
    """Left rows with no partner on the right: no right row makes the conjunction TRUE.

    NOT IN is written by ``bind`` with conditions that are TRUE where ``=`` would be NULL.
    """

    left: Node
    right: Node
    conditions: tuple[exp.Expression, ...]

    @cached_property
    def columns(self) -> Schema:
        return self.left.columns


@dataclass(frozen=True)
class Aggregate:
    """One row per distinct value of ``keys``; without keys exactly one row, also on empty input."""

    input: Node
    keys: Schema
    calls: tuple[tuple[Column, exp.Expression], ...]
    """Aggregate calls; DISTINCT and FILTER sit inside the expression."""

    @cached_property
    def columns(self) -> Schema:
        return self.keys + tuple(column for column, _ in self.calls)


@dataclass(frozen=True)
class Distinct:
    """Every row once."""

    input: Node

    @cached_property
    def columns(self) -> Schema:
        return self.input.columns


@dataclass(frozen=True)
class UnionAll:
    """All rows of all inputs, matched by position."""

    inputs: tuple[Node, ...]
    columns: Schema


@dataclass(frozen=True)
class Negate:
    """The rows of the input with the sign of their weight flipped. Only in deltas."""

    input: Node

    @cached_property
    def columns(self) -> Schema:
        return self.input.columns


@dataclass(frozen=True)
class Window:
    """The input with one more column per call; all calls share ``partition_by``."""

    input: Node
    partition_by: Schema
    calls: tuple[tuple[Column, exp.Expression], ...]
    """``exp.Window`` trees, whole (function, partition, order, frame)."""

    @cached_property
    def columns(self) -> Schema:
        return self.input.columns + tuple(column for column, _ in self.calls)


@dataclass(frozen=True)
class Order:
    """One sort key."""

    column: Column
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class TopK:
    """The first ``limit`` rows after ``offset``, in ``order``, per value of ``partition_by``.

    ``order`` is total: bind appends the remaining columns, so ties are broken the same way always.
    """

    input: Node
    order: tuple[Order, ...]
    limit: int
    offset: int = 0
    partition_by: Schema = ()

    @cached_property
    def columns(self) -> Schema:
        return self.input.columns


@dataclass(frozen=True)
class Generate:
    """Each input row once per element that ``generator`` (explode, posexplode, …) yields from it."""

    input: Node
    generator: exp.Expression
    generated: Schema
    outer: bool = False

    @cached_property
    def columns(self) -> Schema:
        return self.input.columns + self.generated


@dataclass(frozen=True)
class Expand:
    """Each input row once per projection: GROUPING SETS, ROLLUP and CUBE."""

    input: Node
    columns: Schema
    projections: tuple[tuple[exp.Expression, ...], ...]


Node = (
    Scan
    | Values
    | Project
    | Filter
    | Join
    | OuterJoin
    | SemiJoin
    | AntiJoin
    | Aggregate
    | Distinct
    | UnionAll
    | Negate
    | Window
    | TopK
    | Generate
    | Expand
)
