"""Plans that this process runs exactly as Spark does: operators over rows of exact values.

``prove/plans.py`` translates plans into this language and refuses what has no place in it;
``local/program.py`` runs it. A row is a tuple in the order of ``columns``; rows have weights, and
none is dropped because its weights cancel out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from spark_trickle.ir.exact import Exact, ExactType, Input
from spark_trickle.ir.types import Side

ExactColumns = tuple[ExactType, ...]


@dataclass(frozen=True, eq=False)
class Read:
    """The rows of a source on one side of its change."""

    source: str
    side: Side
    inputs: tuple[Input, ...]

    @property
    def columns(self) -> ExactColumns:
        return tuple(column.type for column in self.inputs)


@dataclass(frozen=True, eq=False)
class Constants:
    """Rows of constant expressions."""

    rows: tuple[tuple[Exact, ...], ...]
    columns: ExactColumns


@dataclass(frozen=True, eq=False)
class Map:
    """For each row one row per list of expressions."""

    input: ExactPlan
    projections: tuple[tuple[Exact, ...], ...]
    columns: ExactColumns


@dataclass(frozen=True, eq=False)
class Keep:
    """The rows for which a test is TRUE."""

    input: ExactPlan
    test: Exact

    @property
    def columns(self) -> ExactColumns:
        return self.input.columns


class Match(Enum):
    """What becomes of rows with and without a partner."""

    INNER = "inner"
    LEFT = "left"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


@dataclass(frozen=True, eq=False)
class Equal:
    """What must be equal on both sides; ``same``: NULL equals NULL."""

    left: Exact
    right: Exact
    same: bool


@dataclass(frozen=True, eq=False)
class Paired:
    """Two inputs; ``rest`` reads the columns of the left one, then those of the right one."""

    kind: Match
    left: ExactPlan
    right: ExactPlan
    equal: tuple[Equal, ...]
    rest: Exact | None

    @property
    def columns(self) -> ExactColumns:
        if self.kind in (Match.SEMI, Match.ANTI):
            return self.left.columns
        return self.left.columns + self.right.columns


class ExactAggregate(Enum):
    """Aggregates of exact values."""

    COUNT_ROWS = "count(*)"
    COUNT = "count"
    SUM = "sum"
    FLOAT_SUM = "sum of doubles"
    """In one of the orders that Spark may take: the order of the rows."""
    FLOAT_AVG = "avg of doubles"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, eq=False)
class Aggregated:
    """One aggregate; ``value`` is None for count(*)."""

    function: ExactAggregate
    value: Exact | None
    type: ExactType


@dataclass(frozen=True, eq=False)
class Grouped:
    """One row per key; ``outputs`` read the keys, then the aggregates."""

    input: ExactPlan
    keys: tuple[Exact, ...]
    aggregates: tuple[Aggregated, ...]
    outputs: tuple[Exact, ...]
    columns: ExactColumns


@dataclass(frozen=True, eq=False)
class Once:
    """Every row once, whatever its weight."""

    input: ExactPlan

    @property
    def columns(self) -> ExactColumns:
        return self.input.columns


@dataclass(frozen=True, eq=False)
class All:
    """The rows of all inputs."""

    inputs: tuple[ExactPlan, ...]
    columns: ExactColumns


@dataclass(frozen=True, eq=False)
class Less:
    """The rows with the sign of their weight flipped."""

    input: ExactPlan

    @property
    def columns(self) -> ExactColumns:
        return self.input.columns


@dataclass(frozen=True, eq=False)
class Sorting:
    """A sort key by its place."""

    index: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, eq=False)
class First:
    """The first ``limit`` rows after ``offset`` of each partition."""

    input: ExactPlan
    partition: tuple[int, ...]
    order: tuple[Sorting, ...]
    limit: int
    offset: int

    @property
    def columns(self) -> ExactColumns:
        return self.input.columns


ExactPlan = Read | Constants | Map | Keep | Paired | Grouped | Once | All | Less | First
