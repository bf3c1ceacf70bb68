"""Take the conditions that refer to an outer query out of a subquery.

Law: for a subquery S with a correlated condition c, ``L semi join S(c)`` = ``L semi join S on c``,
provided nothing between c and the top of S depends on c having been applied. Filters, projections
and inner joins never do. Grouping, DISTINCT, LIMIT and windows do not if c is ``outer = inner``:
the inner side then becomes one more key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from spark_trickle.ir.nodes import (
    Aggregate,
    AntiJoin,
    Distinct,
    Filter,
    Generate,
    Join,
    Node,
    OuterJoin,
    OuterKind,
    Project,
    SemiJoin,
    TopK,
    Window,
)
from spark_trickle.ir.scalars import column_ids, conjunction, conjuncts, ref
from spark_trickle.ir.trees import duplicate
from spark_trickle.ir.types import Column
from spark_trickle.ir.walk import ColumnIds
from spark_trickle.sql.bind.build import by_id, extended, free, passing

Conjuncts = tuple[exp.Expression, ...]


@dataclass(frozen=True)
class Pulled:
    """A subquery without outer references, and the conditions that were taken out of it.

    The conditions read columns of the outer query and columns that ``node`` offers.
    """

    node: Node
    conditions: Conjuncts = ()


def pull_up(node: Node, ids: ColumnIds) -> Pulled | None:
    """The subquery with its outer references in conditions on top; None where the law fails."""
    outer = free(node)
    return _Puller(outer, ids).pull(node)


@dataclass(frozen=True)
class _Puller:
    outer: frozenset[int]
    ids: ColumnIds

    def correlated(self, expression: exp.Expression) -> bool:
        return bool(column_ids(expression) & self.outer)

    def pull(self, node: Node) -> Pulled | None:
        if not free(node) & self.outer:
            return Pulled(node)
        match node:
            case Filter():
                return self._filter(node)
            case Project():
                return self._project(node)
            case Join():
                return self._join(node)
            case OuterJoin() | SemiJoin() | AntiJoin():
                return self._left_only(node)
            case Generate():
                return self._generate(node)
            case Aggregate() if node.keys:
                return self._keyed(node, node.input, self._aggregate)
            case Distinct():
                return self._keyed(node, node.input, self._distinct)
            case TopK():
                return self._keyed(node, node.input, self._top_k)
            case Window():
                return self._keyed(node, node.input, self._window)
            case _:
                return None

    def _filter(self, node: Filter) -> Pulled | None:
        inner = self.pull(node.input)
        if inner is None:
            return None
        parts = conjuncts(node.predicate)
        kept = [part for part in parts if not self.correlated(part)]
        taken = tuple(part for part in parts if self.correlated(part))
        below = Filter(inner.node, conjunction(kept)) if kept else inner.node
        return Pulled(below, inner.conditions + taken)

    def _project(self, node: Project) -> Pulled | None:
        inner = self.pull(node.input)
        if inner is None or any(self.correlated(expression) for _, expression in node.outputs):
            return None
        missing = self._needed(inner, {column.id for column, _ in node.outputs})
        return Pulled(Project(inner.node, node.outputs + passing(missing)), inner.conditions)

    def _needed(self, inner: Pulled, present: set[int]) -> list[Column]:
        """Columns the conditions read that would not pass on their own."""
        wanted = frozenset[int]().union(*map(column_ids, inner.conditions)) - self.outer
        return [column for column in inner.node.columns if column.id in wanted - present]

    def _join(self, node: Join) -> Pulled | None:
        pulled = [self.pull(child) for child in node.inputs]
        kept = tuple(part for part in node.conditions if not self.correlated(part))
        taken = tuple(part for part in node.conditions if self.correlated(part))
        inputs = tuple(inner.node for inner in pulled if inner is not None)
        if len(inputs) < len(pulled):
            return None
        for inner in pulled:
            taken += inner.conditions if inner is not None else ()
        return Pulled(Join(inputs, kept), taken)

    def _left_only(self, node: OuterJoin | SemiJoin | AntiJoin) -> Pulled | None:
        """The side whose rows all survive, or are only dropped, may lose its filter."""
        if isinstance(node, OuterJoin) and node.kind is not OuterKind.LEFT:
            return None
        if free(node.right) & self.outer or any(map(self.correlated, node.conditions)):
            return None
        inner = self.pull(node.left)
        if inner is None:
            return None
        if isinstance(node, OuterJoin):
            columns = inner.node.columns + node.columns[len(node.left.columns) :]
            return Pulled(replace(node, left=inner.node, columns=columns), inner.conditions)
        return Pulled(replace(node, left=inner.node), inner.conditions)

    def _generate(self, node: Generate) -> Pulled | None:
        inner = self.pull(node.input)
        if inner is None or self.correlated(node.generator):
            return None
        return Pulled(replace(node, input=inner.node), inner.conditions)

    def _keyed(
        self, node: Node, input: Node, rebuild: Callable[[Node, Node, list[Column]], Node]
    ) -> Pulled | None:
        inner = self.pull(input)
        if inner is None:
            return None
        keyed = equality_keys(inner, self.outer, self.ids)
        if keyed is None:
            return None
        below, keys, conditions = keyed
        return Pulled(rebuild(node, below, keys), conditions)

    def _aggregate(self, node: Node, input: Node, keys: list[Column]) -> Node:
        assert isinstance(node, Aggregate)
        present = {column.id for column in node.keys}
        added = tuple(key for key in keys if key.id not in present)
        return Aggregate(input, node.keys + added, node.calls)

    def _distinct(self, node: Node, input: Node, keys: list[Column]) -> Node:
        wanted = by_id((*node.columns, *keys))
        return Distinct(Project(input, passing(wanted.values())))

    def _top_k(self, node: Node, input: Node, keys: list[Column]) -> Node:
        assert isinstance(node, TopK)
        present = {column.id for column in node.partition_by}
        added = tuple(key for key in keys if key.id not in present)
        return replace(node, input=input, partition_by=node.partition_by + added)

    def _window(self, node: Node, input: Node, keys: list[Column]) -> Node:
        assert isinstance(node, Window)
        return partitioned_by(node, input, keys)


def partitioned_by(node: Window, input: Node, keys: list[Column]) -> Window:
    """The window split by more keys: in the node and in each of its calls."""
    present = {column.id for column in node.partition_by}
    added = [key for key in keys if key.id not in present]
    calls = []
    for column, call in node.calls:
        wider = duplicate(call)
        for key in added:
            wider.append("partition_by", ref(key))
        calls.append((column, wider))
    return Window(input, node.partition_by + tuple(added), tuple(calls))


def equality_keys(
    inner: Pulled, outer: frozenset[int], ids: ColumnIds
) -> tuple[Node, list[Column], Conjuncts] | None:
    """The inner sides of conditions ``outer = inner`` as columns; None if a condition is another.

    Conditions that read only the outer query need no key.
    """
    sides: list[tuple[type[exp.Expression], exp.Expression, exp.Expression]] = []
    plain: list[exp.Expression] = []
    for condition in inner.conditions:
        if column_ids(condition) <= outer:
            plain.append(condition)
            continue
        split = split_equality(condition, outer)
        if split is None:
            return None
        sides.append(split)
    below, keys = extended(inner.node, [("key", inside) for _, _, inside in sides], ids)
    conditions = [
        _equal(kind, outside, key) for (kind, outside, _), key in zip(sides, keys, strict=True)
    ]
    return below, keys, tuple(plain + conditions)


def _equal(kind: type[exp.Expression], outside: exp.Expression, key: Column) -> exp.Expression:
    result = kind(this=duplicate(outside), expression=ref(key))
    result.type = exp.DataType(this=exp.DataType.Type.BOOLEAN)
    return result


def split_equality(
    condition: exp.Expression, outer: frozenset[int]
) -> tuple[type[exp.Expression], exp.Expression, exp.Expression] | None:
    """``outer = inner`` as (operator, outer side, inner side); None if it is something else."""
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    kind = exp.EQ if isinstance(condition, exp.EQ) else exp.NullSafeEQ
    left, right = condition.this, condition.expression
    for outside, inside in ((left, right), (right, left)):
        read = column_ids(outside), column_ids(inside)
        if read[0] <= outer and read[0] and not read[1] & outer:
            return kind, outside, inside
    return None
