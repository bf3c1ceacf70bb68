"""Run a correlated subquery for all outer rows at once.

Law: let D be the distinct values of the outer columns that a subquery S reads. S for every outer
row at once is S over D: each operator carries the columns of D along, as one more key where it has
keys. Joining the outer query with it on D (NULL matching NULL) gives each row its own S.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from sqlglot import exp

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
    OuterKind,
    Project,
    Scan,
    SemiJoin,
    TopK,
    UnionAll,
    Values,
    Window,
)
from spark_trickle.ir.scalars import column_ids, ref, substitute
from spark_trickle.ir.types import Column, Schema
from spark_trickle.ir.walk import ColumnIds, fresh_copy
from spark_trickle.sql.bind.build import constant_row, free, left_join, outer_join, passing, same
from spark_trickle.sql.bind.session import Environment, Unbuildable
from spark_trickle.sql.bind.subqueries.empty import over_no_rows
from spark_trickle.sql.bind.subqueries.pull_up import partitioned_by


@dataclass(frozen=True)
class Pushed:
    """A plan that carries the columns of the domain: the column for each outer id."""

    node: Node
    columns: dict[int, Column]

    def bound(self, expression: exp.Expression) -> exp.Expression:
        """The expression with outer columns read from the domain."""
        return substitute(expression, {id: ref(col) for id, col in self.columns.items()})

    def matching(self, other: Pushed) -> tuple[exp.Expression, ...]:
        """Conditions that two plans belong to the same outer row."""
        pairs = ((column, other.columns[id]) for id, column in self.columns.items())
        return tuple(same(ref(mine), ref(theirs)) for mine, theirs in pairs)


@dataclass(frozen=True)
class Domain:
    """The distinct values of the columns of ``around`` that a subquery reads."""

    around: Node
    read: Schema
    environment: Environment
    origin: exp.Expr

    @property
    def ids(self) -> ColumnIds:
        return self.environment.ids

    def plan(self) -> Pushed:
        """A copy of the domain, with columns of its own."""
        distinct = Distinct(Project(self.around, passing(self.read)))
        copy = fresh_copy(distinct, self.ids)
        return Pushed(copy, {col.id: new for col, new in zip(self.read, copy.columns, strict=True)})

    def push(self, node: Node) -> Pushed:  # noqa: C901  one case per operator
        """The plan over the whole domain."""
        if not self._depends(node):
            domain = self.plan()
            return Pushed(Join((domain.node, node)), domain.columns)
        match node:
            case Values():
                return self.push(self._as_union(node))
            case Project() | Filter() | Distinct() | TopK() | Window() | Generate():
                return self._carried(node)
            case Join():
                return self._join(node)
            case OuterJoin() | SemiJoin() | AntiJoin():
                return self._two_sided(node)
            case Aggregate():
                return self._aggregate(node) if node.keys else self._scalar_aggregate(node)
            case UnionAll():
                return self._union(node)
            case Expand():
                return self._expand(node)
            case Scan() | Negate():
                raise AssertionError("reads no outer column")
            case _:
                assert_never(node)

    def _carried(self, node: Project | Filter | Distinct | TopK | Window | Generate) -> Pushed:
        """Operators of one input, which let the columns of the domain through."""
        below = self.push(node.input)
        domain = tuple(below.columns.values())
        match node:
            case Project():
                outputs = tuple((column, below.bound(e)) for column, e in node.outputs)
                made: Node = Project(below.node, outputs + passing(domain))
            case Filter():
                made = Filter(below.node, below.bound(node.predicate))
            case Distinct():
                made = Distinct(below.node)
            case TopK():
                partition = node.partition_by + domain
                made = replace(node, input=below.node, partition_by=partition)
            case Window():
                calls = tuple((column, below.bound(call)) for column, call in node.calls)
                made = partitioned_by(replace(node, calls=calls), below.node, [*domain])
            case Generate():
                generator = below.bound(node.generator)
                made = replace(node, input=below.node, generator=generator)
            case _:
                assert_never(node)
        return Pushed(made, below.columns)

    def _depends(self, node: Node) -> bool:
        return bool(free(node) & {column.id for column in self.read})

    def _join(self, node: Join) -> Pushed:
        dependent = [self._depends(child) for child in node.inputs]
        if not any(dependent):
            first = self.plan()
            inputs: tuple[Node, ...] = (first.node, *node.inputs)
            return Pushed(Join(inputs, tuple(map(first.bound, node.conditions))), first.columns)
        pushed = [self.push(child) for child, d in zip(node.inputs, dependent, strict=True) if d]
        first = pushed[0]
        others = [child for child, d in zip(node.inputs, dependent, strict=True) if not d]
        conditions = tuple(map(first.bound, node.conditions))
        for other in pushed[1:]:
            conditions += first.matching(other)
        inputs = (*(p.node for p in pushed), *others)
        if len(inputs) == 1:
            raise AssertionError("a join of one input")
        return Pushed(Join(inputs, conditions), first.columns)

    def _two_sided(self, node: OuterJoin | SemiJoin | AntiJoin) -> Pushed:
        left = self.push(node.left)
        conditions = tuple(map(left.bound, node.conditions))
        right = node.right
        if self._depends(right):
            other = self.push(right)
            conditions += left.matching(other)
            right = other.node
        if not isinstance(node, OuterJoin):
            return Pushed(
                replace(node, left=left.node, right=right, conditions=conditions), left.columns
            )
        if node.kind is not OuterKind.LEFT:
            self.environment.block(
                "CORRELATED_FULL_JOIN",
                self.origin,
                "a subquery that refers to the query around it contains a FULL JOIN",
                "write the FULL JOIN in a common table expression without outer references",
            )
            raise Unbuildable
        return Pushed(outer_join(left.node, right, OuterKind.LEFT, conditions), left.columns)

    def _aggregate(self, node: Aggregate) -> Pushed:
        below = self.push(node.input)
        calls = tuple((column, below.bound(call)) for column, call in node.calls)
        keys = node.keys + tuple(below.columns.values())
        return Pushed(Aggregate(below.node, keys, calls), below.columns)

    def _scalar_aggregate(self, node: Aggregate) -> Pushed:
        """Each outer row has one result, also where no inner row belongs to it."""
        below = self.push(node.input)
        calls = tuple((self.ids.copy(column), below.bound(call)) for column, call in node.calls)
        grouped = Pushed(Aggregate(below.node, tuple(below.columns.values()), calls), below.columns)
        domain = self.plan()
        joined = left_join(domain.node, grouped.node, domain.matching(grouped))
        outputs = [
            (column, over_no_rows(call, ref(inner)))
            for (column, _), (inner, call) in zip(node.calls, calls, strict=True)
        ]
        carried = passing(domain.columns.values())
        return Pushed(Project(joined, (*outputs, *carried)), domain.columns)

    def _union(self, node: UnionAll) -> Pushed:
        inputs = []
        for child in node.inputs:
            below = self.push(child)
            carried = passing((*child.columns, *(below.columns[c.id] for c in self.read)))
            inputs.append(Project(below.node, carried))
        columns = {column.id: self.ids.copy(column) for column in self.read}
        union = UnionAll(tuple(inputs), node.columns + tuple(columns.values()))
        return Pushed(union, columns)

    def _expand(self, node: Expand) -> Pushed:
        below = self.push(node.input)
        carried = tuple(below.columns.values())
        rows = tuple(
            (*map(below.bound, row), *(ref(column) for column in carried))
            for row in node.projections
        )
        return Pushed(Expand(below.node, node.columns + carried, rows), below.columns)

    def _as_union(self, node: Values) -> Node:
        """Rows with outer columns in them, as projections of the constant row."""
        projections = []
        for row in node.rows:
            columns = [self.ids.copy(column) for column in node.columns]
            projections.append(Project(constant_row(), tuple(zip(columns, row, strict=True))))
        if len(projections) == 1:
            outputs = tuple(zip(node.columns, node.rows[0], strict=True))
            return Project(constant_row(), outputs)
        return UnionAll(tuple(projections), node.columns)


def domain_of(node: Node, around: Node, environment: Environment, origin: exp.Expr) -> Domain:
    """The domain of a subquery over the plan around it."""
    read = free(node)
    columns = tuple(column for column in around.columns if column.id in read)
    return Domain(around, columns, environment, origin)


def domain_of_conditions(
    conditions: tuple[exp.Expression, ...],
    around: Node,
    environment: Environment,
    origin: exp.Expr,
) -> Domain:
    """The domain of conditions between the plan around and a subquery."""
    read = frozenset[int]().union(*map(column_ids, conditions))
    columns = tuple(column for column in around.columns if column.id in read)
    return Domain(around, columns, environment, origin)
