"""The verdict on a query: Incremental with a law for every operator, or FullOnly with the reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import assert_never

from sqlglot import exp

from spark_trickle.delta.laws.touched import Keyed, keys_of
from spark_trickle.delta.segment import Part, Strategy, core
from spark_trickle.errors import Position
from spark_trickle.ir.decimals import decimal_parameters
from spark_trickle.ir.explain import headline
from spark_trickle.ir.nodes import (
    Aggregate,
    AntiJoin,
    Distinct,
    Expand,
    Filter,
    Generate,
    Join,
    Negate,
    Node,
    OuterJoin,
    Project,
    Scan,
    SemiJoin,
    TopK,
    UnionAll,
    Values,
    Window,
)
from spark_trickle.ir.trees import parts as tree_parts
from spark_trickle.ir.types import Blocker, Column
from spark_trickle.ir.walk import nodes


@dataclass(frozen=True)
class Law:
    """How an operator is maintained, for people."""

    name: str
    reads: str


SUMMED_DIGITS = 28
"""Spark sums decimals of so many digits with ten more, which no table overflows."""
CONSTANT = Law("constant", "nothing: it never changes")
FEED = Law("change feed", "the changes of the source between two versions")
TIMED = Law(
    "change feed and clock", "the changes of the source, and rows that cross the filter's edges"
)
LINEAR = Law("linear", "the delta of its input")
TERMS = Law("one term per changed input", "each delta, and the other inputs where it joins them")
PRESERVING = Law("left linear, right by touched keys", "the deltas, and both inputs at their keys")
ADDITIVE = Law("additive state", "the delta and the stored state of its groups")
EXTREMUM = Law("extremum state", "as additive state; the input of groups that lost an extremum")
TOUCHED = Law("touched keys", "the delta, the input at its keys, and what is stored for them")
RECOMPUTED = Law("recomputed when its input changes", "the whole input")


@dataclass(frozen=True)
class Incremental:
    """The query can be maintained by deltas."""

    parts: tuple[Part, ...]
    timed: frozenset[str] = frozenset()
    """The sources that are scanned through temporal filters."""

    @cached_property
    def laws(self) -> tuple[tuple[str, Law], ...]:
        """Every operator of every part, parents first, with its law."""
        return tuple(pair for part in self.parts for pair in _laws(part, self.timed))

    def __str__(self) -> str:
        width = max((len(law.name) for _, law in self.laws), default=0)
        lines = [f"  {law.name:<{width}}  {operator}" for operator, law in self.laws]
        return "\n".join(["Incremental", *lines]) + "\n"


@dataclass(frozen=True)
class FullOnly:
    """The query is legal, but only FULL refresh keeps it exact."""

    code: str
    message: str
    position: Position | None = None
    hint: str | None = None

    def __str__(self) -> str:
        lines = [f"FullOnly {self.code}: {self.message}"]
        if self.position is not None:
            lines.append(self.position.caret())
        if self.hint is not None:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines) + "\n"


Verdict = Incremental | FullOnly


def obstacle(plan: Node | None, blockers: tuple[Blocker, ...] = ()) -> FullOnly | None:
    """Why a query cannot be maintained incrementally; None if it can."""
    for blocker in blockers:
        return FullOnly(blocker.code, blocker.message, blocker.position, blocker.hint)
    if plan is None:
        return FullOnly("NO_PLAN", "the query has no plan", hint="use refresh_mode FULL")
    for node in nodes(plan):
        found = _obstacle(node)
        if found is not None:
            return found
    return None


def silent_overflow(plan: Node) -> FullOnly | None:
    """A sum that has no digits to spare, where overflow gives NULL in silence: no state could tell
    such a NULL from a sum that came back into range."""
    for node in nodes(plan):
        for _, call in node.calls if isinstance(node, Aggregate) else ():
            for sum in call.find_all(exp.Sum):
                decimal = decimal_parameters(sum.this.type)
                if decimal is not None and decimal[0] > SUMMED_DIGITS:
                    return FullOnly(
                        "DECIMAL_SUM",
                        f"without ANSI mode a sum of DECIMAL({decimal[0]},{decimal[1]}) becomes "
                        "NULL when it overflows, and may come back",
                        hint=f"CAST to a DECIMAL of at most {SUMMED_DIGITS} digits, or make the "
                        "stream table with spark.sql.ansi.enabled",
                    )
    return None


def incremental(parts: Iterable[Part], timed: Collection[str] = ()) -> Incremental:
    """The verdict on a query that was cut into parts: the law of every operator in them.

    ``timed``: the sources that are scanned through temporal filters.
    """
    return Incremental(tuple(parts), frozenset(timed))


def _laws(part: Part, timed: Collection[str]) -> Iterator[tuple[str, Law]]:
    """The operator that a part stores follows the part's strategy, all others their own law."""
    stored = core(part.plan) if part.strategy is not Strategy.ALGEBRA else None
    for node in nodes(part.plan):
        law = law_of(node)
        if isinstance(node, Scan) and node.source in timed:
            law = TIMED
        if node is stored:
            law = _OF_STRATEGY[part.strategy]
            if law is TOUCHED and not part.keys:
                law = RECOMPUTED
        yield f"{part.name}: {headline(node)}", law


_OF_STRATEGY = {
    Strategy.ADDITIVE: ADDITIVE,
    Strategy.EXTREMUM: EXTREMUM,
    Strategy.TOUCHED: TOUCHED,
}


def _obstacle(node: Node) -> FullOnly | None:
    if isinstance(node, Window) and not node.partition_by:
        return FullOnly(
            "UNPARTITIONED_WINDOW",
            "a window function has no PARTITION BY, so any change may change every row",
            hint="add PARTITION BY, or use refresh_mode FULL",
        )
    if isinstance(node, Keyed):
        for key in keys_of(node):
            if not has_equality(key):
                return FullOnly(
                    "INCOMPARABLE_KEY",
                    f"{key.name} is of type {key.type.sql('spark')}, which Spark cannot compare",
                    hint="group by a part of it that can be compared, or use refresh_mode FULL",
                )
    return None


def has_equality(column: Column) -> bool:
    """Whether Spark can test two values for equality."""
    kinds = (exp.DataType.Type.MAP, exp.DataType.Type.VARIANT)
    return not any(isinstance(p, exp.DataType) and p.this in kinds for p in tree_parts(column.type))


def law_of(node: Node) -> Law:
    """The law by which an operator is maintained where nothing is stored for it."""
    match node:
        case Scan():
            return FEED
        case Values():
            return CONSTANT
        case Project() | Filter() | UnionAll() | Negate() | Generate() | Expand():
            return LINEAR
        case Join():
            return TERMS
        case OuterJoin() | SemiJoin() | AntiJoin():
            return PRESERVING
        case Aggregate() | Distinct() | Window() | TopK():
            return TOUCHED if keys_of(node) else RECOMPUTED
        case _:
            assert_never(node)
