"""Which sub-plans stand in a plan more than once: they are written once, as a CTE.

Two sub-plans are the same when their operators, columns and expression objects are; rewrites keep
expression objects, so this finds what ``at`` and ``with_children`` have copied.
"""

from __future__ import annotations

from collections import Counter

from spark_trickle.ir.nodes import (
    Aggregate,
    AntiJoin,
    Distinct,
    Join,
    Node,
    OuterJoin,
    Scan,
    SemiJoin,
    TopK,
    UnionAll,
    Window,
)
from spark_trickle.ir.walk import children, expressions, own_columns

WORTH_SHARING = (
    Aggregate | AntiJoin | Distinct | Join | OuterJoin | SemiJoin | TopK | UnionAll | Window
)


class Shared:
    """Numbers for sub-plans, equal where the sub-plans are, and how often each is used."""

    def __init__(self, plan: Node) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._seen: dict[int, int] = {}
        # Ids of objects are only good while the objects live.
        self._alive: list[Node] = []
        self._uses: Counter[int] = Counter()
        self._count(plan)

    def number(self, node: Node) -> int:
        """The number of a sub-plan."""
        known = self._seen.get(id(node))
        if known is not None:
            return known
        side = (node.source, node.side) if isinstance(node, Scan) else None
        key = (
            type(node),
            side,
            tuple(column.id for column in own_columns(node)),
            tuple(id(expression) for expression in expressions(node)),
            _settings(node),
            tuple(self.number(child) for child in children(node)),
        )
        number = self._numbers.setdefault(key, len(self._numbers))
        self._seen[id(node)] = number
        self._alive.append(node)
        return number

    def uses(self, node: Node) -> int:
        """How often the sub-plan is used."""
        return self._uses[self.number(node)]

    def is_shared(self, node: Node) -> bool:
        """Whether the sub-plan is used more than once and costs enough to care."""
        return isinstance(node, WORTH_SHARING) and self.uses(node) > 1

    def _count(self, node: Node) -> None:
        number = self.number(node)
        self._uses[number] += 1
        if self._uses[number] == 1:
            for child in children(node):
                self._count(child)


def _settings(node: Node) -> tuple[object, ...]:
    match node:
        case OuterJoin():
            return (node.kind,)
        case TopK():
            directions = tuple((key.descending, key.nulls_first) for key in node.order)
            return (node.limit, node.offset, len(node.partition_by), directions)
        case Aggregate():
            return (len(node.keys),)
        case Window():
            return (len(node.partition_by),)
        case _:
            return (getattr(node, "outer", None),)
