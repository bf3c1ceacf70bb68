"""Which expressions GROUP BY names, and which grouping sets they form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from sqlglot import exp

from spark_trickle.ir.trees import duplicate
from spark_trickle.sql.bind.clauses.grouping import GroupBy

Bind = Callable[[exp.Expr], exp.Expression]
"""Binds one element of GROUP BY: an expression, an ordinal or an alias."""


@dataclass
class _Collector:
    bind: Bind
    expressions: list[exp.Expression] = field(default_factory=list)

    def position(self, node: exp.Expr) -> int:
        """Where an expression stands in the list of all; equal ones stand once."""
        bound = self.bind(node)
        if bound not in self.expressions:
            self.expressions.append(bound)
        return self.expressions.index(bound)

    def positions(self, node: exp.Expr) -> tuple[int, ...]:
        """The positions of ``a``, ``(a)`` or ``(a, b)``."""
        if isinstance(node, exp.Tuple):
            return tuple(self.position(part) for part in node.expressions)
        return (self.position(node.this if isinstance(node, exp.Paren) else node),)

    def sets(self, node: exp.Expr) -> list[tuple[int, ...]]:
        """The grouping sets of one element of GROUP BY."""
        if isinstance(node, exp.Rollup):
            parts = [self.positions(part) for part in node.expressions]
            return [_joined(parts[:length]) for length in range(len(parts), -1, -1)]
        if isinstance(node, exp.Cube):
            parts = [self.positions(part) for part in node.expressions]
            return [
                _joined([parts[i] for i in chosen])
                for length in range(len(parts), -1, -1)
                for chosen in combinations(range(len(parts)), length)
            ]
        if isinstance(node, exp.GroupingSets):
            return [members for part in node.expressions for members in self.sets(part)]
        return [self.positions(node)]


def groups_of(group: exp.Expr, bind: Bind) -> GroupBy:
    """The groups of a GROUP BY clause that is not GROUP BY ALL."""
    collector = _Collector(bind)
    elements = list(group.expressions)
    suffix = [*(group.args.get("rollup") or []), *(group.args.get("cube") or [])]
    explicit = list(group.args.get("grouping_sets") or [])
    if explicit and elements:
        # GROUP BY a, b GROUPING SETS (…): the sets alone decide; the list before only names.
        for element in elements:
            collector.position(element)
        elements = []
    if suffix and not suffix[0].expressions:
        elements = [type(suffix[0])(expressions=[duplicate(part) for part in elements])]
        suffix = []
    elements += [*suffix, *explicit]
    special = any(isinstance(e, exp.Rollup | exp.Cube | exp.GroupingSets) for e in elements)
    if not special:
        for element in elements:
            collector.positions(element)
        return GroupBy(tuple(collector.expressions))
    sets = [_joined(choice) for choice in product(*(collector.sets(e) for e in elements))]
    return GroupBy(tuple(collector.expressions), tuple(sets))


def _joined(parts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted({position for part in parts for position in part}))
