"""Operators that need a FROM item or a query shape of their own."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.ir.nodes import Expand, Generate, Order, TopK, Values
from spark_trickle.ir.trees import duplicate
from spark_trickle.ir.types import Column
from spark_trickle.lower import block as blocks
from spark_trickle.lower.block import Block, aliased, field, identifier
from spark_trickle.lower.one_pass import choose, repeated

ROW_NUMBER = "__position"


def values(node: Values, alias: str) -> Block:
    """Constant rows, each value cast to the type of its column so that NULLs have one too."""
    if not node.rows or not node.columns:
        return _no_values(node, alias)
    rows = [
        exp.Tuple(expressions=[_typed(v, c) for v, c in zip(row, node.columns, strict=True)])
        for row in node.rows
    ]
    names = [identifier(str(column)) for column in node.columns]
    table_alias = exp.TableAlias(this=identifier(alias), columns=names)
    source = exp.Values(expressions=rows, alias=table_alias)
    return blocks.named(source, alias, node.columns, weighted=False)


def _no_values(node: Values, alias: str) -> Block:
    nulls = [aliased(_typed(exp.null(), column), str(column)) for column in node.columns]
    one: exp.Query = exp.Select(expressions=nulls or [aliased(_one(), blocks.EMPTY)])
    for _ in node.rows[1:]:
        one = union([one, exp.Select(expressions=[aliased(_one(), blocks.EMPTY)])])
    block = blocks.over(one, alias, node.columns, weighted=False)
    return block if node.rows else replace(block, where=(exp.false(),))


def _one() -> exp.Expression:
    return exp.Literal.number(1)


def _typed(value: exp.Expression, column: Column) -> exp.Expression:
    if column.type.this in (exp.DataType.Type.UNKNOWN, exp.DataType.Type.NULL):
        return duplicate(value)
    return exp.cast(duplicate(value), duplicate(column.type))


def union(queries: list[exp.Query]) -> exp.Query:
    """UNION ALL of all of them."""
    result = queries[0]
    for query in queries[1:]:
        result = exp.Union(this=result, expression=query, distinct=False)
    return result


def top_k(node: TopK, block: Block, alias: str) -> exp.Query:
    """ORDER BY and LIMIT, or a numbering per partition."""
    if node.partition_by:
        return _numbered(node, block, alias)
    query = blocks.select(block, blocks.outputs(block))
    if node.order:
        query.set("order", _order(node, block))
    query.set("limit", exp.Limit(expression=exp.Literal.number(node.limit)))
    if node.offset:
        query.set("offset", exp.Offset(expression=exp.Literal.number(node.offset)))
    return query


def _numbered(node: TopK, block: Block, alias: str) -> exp.Query:
    numbering = exp.Window(
        this=exp.RowNumber(),
        partition_by=[duplicate(block.values[column.id]) for column in node.partition_by],
        order=_order(node, block),
    )
    inner = blocks.select(block, [*blocks.outputs(block), aliased(numbering, ROW_NUMBER)])
    outer = blocks.over(inner, alias, node.columns, weighted=False)
    number = field(alias, ROW_NUMBER)
    last = exp.Literal.number(node.offset + node.limit)
    where: tuple[exp.Expression, ...] = (exp.LTE(this=number, expression=last),)
    if node.offset:
        after = exp.GT(this=duplicate(number), expression=exp.Literal.number(node.offset))
        where = (*where, after)
    return blocks.query_of(replace(outer, where=where))


def _order(node: TopK, block: Block) -> exp.Order:
    return exp.Order(expressions=[_ordered(key, block) for key in node.order])


def _ordered(key: Order, block: Block) -> exp.Ordered:
    value = blocks.order_column(key.column, block.values)
    return exp.Ordered(this=value, desc=key.descending, nulls_first=key.nulls_first)


def generate(node: Generate, block: Block, alias: str) -> Block:
    """LATERAL VIEW; sqlglot turns it into UNNEST for DuckDB."""
    names = [identifier(str(column)) for column in node.generated]
    lateral = exp.Lateral(
        this=block.expand(node.generator),
        view=True,
        outer=node.outer or None,
        alias=exp.TableAlias(this=identifier(alias), columns=names),
    )
    generated = {column.id: field(alias, str(column)) for column in node.generated}
    return replace(
        block,
        columns=node.columns,
        values={**block.values, **generated},
        joins=(*block.joins, lateral),
        derived=None,
    )


def expand(node: Expand, block: Block, alias: str) -> Block:
    """Every row once per projection, numbered, so that the input is read once."""
    name = "__projection"
    number = field(alias, name)
    expanded: dict[int, exp.Expression] = {}
    for position, column in enumerate(node.columns):
        choices = [block.expand(row[position]) for row in node.projections]
        chosen = choose(number, choices)
        expanded[column.id] = _typed(chosen, column) if isinstance(chosen, exp.Case) else chosen
    return replace(
        block,
        columns=node.columns,
        values=expanded,
        joins=(*block.joins, repeated(len(node.projections), alias, name)),
        derived=None,
    )
