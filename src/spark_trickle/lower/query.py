"""Operator tree -> one sqlglot SELECT; the same tree renders for Spark and for DuckDB.

Every column is written under its unique name ``name#id``, so nothing is ambiguous at any depth.
A sub-plan carries a ``__weight`` column only where its rows have weights other than 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import assert_never

from sqlglot import exp

from spark_trickle.errors import InternalError
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
from spark_trickle.ir.scalars import column_ids
from spark_trickle.ir.shared import Shared
from spark_trickle.ir.trees import duplicate
from spark_trickle.ir.types import WEIGHT, Side
from spark_trickle.lower import block as blocks
from spark_trickle.lower import joins, relations
from spark_trickle.lower.block import Block, aliased, big, field, identifier
from spark_trickle.lower.one_pass import Branch, branches, one_pass
from spark_trickle.lower.weights import consolidated, weighted_call

TableNames = Callable[[str, Side], exp.Table]
"""How the caller calls one side of a source."""


def lower(plan: Node, names: TableNames, *, outputs: Sequence[str] | None = None) -> exp.Query:
    """The rows of a plan that carries no weights; ``outputs`` are the users' column names."""
    lowering = Lowering(plan, names)
    result = lowering.lower(plan)
    if result.weight is not None:
        raise InternalError("a plan with weights was lowered as a plain query")
    wanted = outputs if outputs is not None else [column.name for column in plan.columns]
    pairs = zip(plan.columns, wanted, strict=True)
    query = blocks.select(
        result, [aliased(duplicate(result.values[column.id]), name) for column, name in pairs]
    )
    return lowering.finish(query)


def lower_delta(
    plan: Node, names: TableNames, *, outputs: Sequence[str] | None = None
) -> exp.Query:
    """The rows of a delta with their ``__weight``, net: no equal rows, no zero weights."""
    lowering = Lowering(plan, names)
    result = lowering.lower(plan)
    if result.weight is None:
        result = replace(result, weight=big(1))
    wanted = outputs if outputs is not None else [column.name for column in plan.columns]
    triples = [(str(c), name, c.type) for c, name in zip(plan.columns, wanted, strict=True)]
    return lowering.finish(consolidated(blocks.query_of(result), triples, "delta"))


class Lowering:
    """One run of ``lower``: hands out aliases and collects the CTEs."""

    def __init__(self, plan: Node, names: TableNames) -> None:
        self._names = names
        self._shared = Shared(plan)
        self._aliases = 0
        self._ctes: dict[int, tuple[str, bool]] = {}
        self._queries: list[exp.CTE] = []

    def finish(self, query: exp.Select) -> exp.Select:
        """The query with the CTEs it needs."""
        if self._queries:
            query.set("with_", exp.With(expressions=self._queries))
        return query

    def alias(self) -> str:
        """A table alias that is not in use."""
        self._aliases += 1
        return f"t{self._aliases}"

    def lower(self, node: Node) -> Block:
        """A sub-plan as a block; a shared sub-plan becomes a CTE the first time it is met."""
        if not self._shared.is_shared(node):
            return self._operator(node)
        number = self._shared.number(node)
        if number not in self._ctes:
            result = self._operator(node)
            name = f"shared_{len(self._ctes) + 1}"
            alias = exp.TableAlias(this=identifier(name))
            self._queries.append(exp.CTE(this=blocks.query_of(result), alias=alias))
            self._ctes[number] = name, result.weight is not None
        name, weighted = self._ctes[number]
        table = exp.Table(this=identifier(name))
        alias_name = self.alias()
        table.set("alias", blocks.table_alias(alias_name))
        return blocks.named(table, alias_name, node.columns, weighted)

    def _operator(self, node: Node) -> Block:  # noqa: C901  one case per operator
        match node:
            case Scan():
                return self._scan(node)
            case Values():
                return relations.values(node, self.alias())
            case Project():
                return self._project(node)
            case Filter():
                return self._filter(node)
            case Join():
                inputs = [self._operand(child) for child in node.inputs]
                return joins.join(inputs, node.conditions, node.columns)
            case OuterJoin():
                return self._outer_join(node)
            case SemiJoin():
                return joins.filtering(*self._sides(node), node.conditions, "SEMI")
            case AntiJoin():
                return joins.filtering(*self._sides(node), node.conditions, "ANTI")
            case Aggregate():
                return self._aggregate(node)
            case Distinct():
                return self._distinct(node)
            case UnionAll():
                return self._union(node)
            case Negate():
                return self._negated(self.lower(node.input))
            case Window():
                return self._window(node)
            case TopK():
                return self._top_k(node)
            case Generate():
                block = self._reading(self.lower(node.input), column_ids(node.generator))
                if any(isinstance(item, exp.Join) for item in block.joins) or block.where:
                    block = self.derive(block)
                return relations.generate(node, block, self.alias())
            case Expand():
                return relations.expand(node, self._operand(node.input), self.alias())
            case _:
                assert_never(node)

    def _distinct(self, node: Distinct) -> Block:
        block = replace(self.lower(node.input), weight=None)
        query = blocks.select(block, blocks.outputs(block))
        query.set("distinct", exp.Distinct())
        return blocks.over(query, self.alias(), node.columns, weighted=False)

    def _top_k(self, node: TopK) -> Block:
        block = self._unweighted(self.lower(node.input), node)
        if not block.plain():
            # ORDER BY 1 would mean the first column.
            block = self.derive(block)
        top = relations.top_k(node, block, self.alias())
        return blocks.over(top, self.alias(), node.columns, weighted=False)

    def derive(self, block: Block) -> Block:
        """The block as a finished subquery."""
        weighted = block.weight is not None
        return blocks.over(blocks.query_of(block), self.alias(), block.columns, weighted=weighted)

    def _reading(self, block: Block, ids: frozenset[int]) -> Block:
        return block if block.simple(ids & block.values.keys()) else self.derive(block)

    def _operand(self, node: Node) -> Block:
        """An input of a join: a FROM item with plain columns."""
        block = self.lower(node)
        weight_is_plain = block.weight is None or isinstance(block.weight, exp.Column)
        return block if block.bare and block.plain() and weight_is_plain else self.derive(block)

    def _joinable(self, node: Node) -> Block:
        """The left input of a join that keeps its FROM items: LATERAL VIEWs are written last."""
        block = self.lower(node)
        lateral = any(isinstance(item, exp.Lateral) for item in block.joins)
        return self.derive(block) if lateral else block

    def _unweighted(self, block: Block, node: Node) -> Block:
        if block.weight is not None:
            raise InternalError(f"{type(node).__name__} over rows with weights")
        return block

    def _scan(self, node: Scan) -> Block:
        alias = self.alias()
        table = duplicate(self._names(node.source, node.side))
        table.set("alias", blocks.table_alias(alias))
        values = {column.id: field(alias, column.name) for column in node.columns}
        weight = field(alias, WEIGHT) if node.side is Side.DELTA else None
        return Block(node.columns, table, values, weight)

    def _project(self, node: Project) -> Block:
        computed = [e for _, e in node.outputs if blocks.plain_id(e) is None]
        read = frozenset[int]().union(*map(column_ids, computed))
        block = self._reading(self.lower(node.input), read)
        values = {column.id: block.expand(e) for column, e in node.outputs}
        return replace(block, columns=node.columns, values=values)

    def _filter(self, node: Filter) -> Block:
        block = self._reading(self.lower(node.input), column_ids(node.predicate))
        return replace(block, where=(*block.where, block.expand(node.predicate)))

    def _outer_join(self, node: OuterJoin) -> Block:
        right = self._operand(node.right)
        if node.kind is OuterKind.FULL:
            left = self._unweighted(self._operand(node.left), node)
        else:
            left = self._joinable(node.left)
        block = joins.outer(left, right, node.conditions, node.kind.name)
        return replace(block, columns=node.columns)

    def _sides(self, node: SemiJoin | AntiJoin) -> tuple[Block, Block]:
        left = self._joinable(node.left)
        return left, replace(self._operand(node.right), weight=None)

    def _aggregate(self, node: Aggregate) -> Block:
        read = frozenset[int]().union(*(column_ids(call) for _, call in node.calls))
        block = self._reading(self.lower(node.input), read)
        # GROUP BY 1 would mean the first column.
        if not all(isinstance(block.values[key.id], exp.Column) for key in node.keys):
            block = self.derive(block)
        calls = [(column, block.expand(call)) for column, call in node.calls]
        if block.weight is not None:
            calls = [(column, weighted_call(call, block.weight)) for column, call in calls]
        selected = [aliased(duplicate(block.values[key.id]), str(key)) for key in node.keys]
        selected += [aliased(call, str(column)) for column, call in calls]
        if not selected:
            selected = [aliased(exp.Count(this=exp.Star()), blocks.EMPTY)]
        query = blocks.select(block, selected)
        if node.keys:
            groups = [duplicate(block.values[key.id]) for key in node.keys]
            query.set("group", exp.Group(expressions=groups))
        return blocks.over(query, self.alias(), node.columns, weighted=False)

    def _union(self, node: UnionAll) -> Block:
        groups: dict[int, list[Branch]] = {}
        for branch in branches(node):
            shared = self._shared.is_shared(branch.base)
            key = self._shared.number(branch.base) if shared else -1 - len(groups)
            groups.setdefault(key, []).append(branch)
        lowered = [self._group(group, node) for group in groups.values()]
        weighted = any(block.weight is not None for block in lowered)
        if weighted:
            lowered = [replace(b, weight=b.weight or big(1)) for b in lowered]
        if len(lowered) == 1:
            return lowered[0]
        query = relations.union([blocks.query_of(block) for block in lowered])
        return blocks.over(query, self.alias(), node.columns, weighted=weighted)

    def _group(self, group: list[Branch], node: UnionAll) -> Block:
        """Branches over the same rows together; a branch of its own as it is."""
        first = group[0]
        if len(group) == 1:
            block = self.lower(first.node)
            if first.sign < 0:
                block = self._negated(block)
            return blocks.rename(block, node.columns)
        # A CTE only if somebody else reads these rows as well.
        alone = self._shared.uses(first.base) == len(group)
        rows = self._operator(first.base) if alone else self.lower(first.base)
        if rows.weight is not None:
            return self._separate(group, node)
        return one_pass(self.derive(rows), group, node.columns, self.alias())

    def _separate(self, group: list[Branch], node: UnionAll) -> Block:
        lowered = [self._group([branch], node) for branch in group]
        lowered = [replace(b, weight=b.weight or big(1)) for b in lowered]
        query = relations.union([blocks.query_of(block) for block in lowered])
        return blocks.over(query, self.alias(), node.columns, weighted=True)

    def _negated(self, block: Block) -> Block:
        weight = big(-1) if block.weight is None else exp.Neg(this=duplicate(block.weight))
        return replace(block, weight=weight)

    def _window(self, node: Window) -> Block:
        read = frozenset[int]().union(*(column_ids(call) for _, call in node.calls))
        block = self._unweighted(self._reading(self.lower(node.input), read), node)
        selected = [aliased(duplicate(block.values[c.id]), str(c)) for c in node.input.columns]
        selected += [aliased(block.expand(call), str(column)) for column, call in node.calls]
        query = blocks.select(block, selected)
        return blocks.over(query, self.alias(), node.columns, weighted=False)
