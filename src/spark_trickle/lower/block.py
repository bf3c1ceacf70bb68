"""A SELECT under construction: one FROM, joins, WHERE, and what each column of the plan means in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from spark_trickle.ir.scalars import column_id, conjunction, substitute
from spark_trickle.ir.trees import duplicate
from spark_trickle.ir.types import WEIGHT, Column, Schema

EMPTY = "__row"
"""The column of a relation that has rows but no columns."""


@dataclass(frozen=True)
class Block:
    """``values`` says how each column is written over the FROM items; ``weight`` None means 1.

    A block is used once: its FROM items and conditions become part of the query made of it.

    ``derived`` is set while the block is nothing but ``SELECT * FROM (derived) AS alias``.
    """

    columns: Schema
    source: exp.Expression
    values: Mapping[int, exp.Expression]
    weight: exp.Expression | None = None
    joins: tuple[exp.Expression, ...] = ()
    """``exp.Join`` and ``exp.Lateral``, in order."""
    where: tuple[exp.Expression, ...] = ()
    derived: exp.Query | None = None

    @property
    def bare(self) -> bool:
        """Nothing but a FROM item: it can be an operand of a join as it is."""
        return not self.joins and not self.where

    def expand(self, expression: exp.Expression) -> exp.Expression:
        """An expression over plan columns, written over the FROM items."""
        return substitute(expression, self.values)

    def simple(self, ids: Iterable[int]) -> bool:
        """Whether reading these columns repeats no computation."""
        return all(isinstance(self.values[id], _SIMPLE) for id in ids)

    def plain(self) -> bool:
        """Whether every column is a column of a FROM item, which an outer join can pad."""
        return all(isinstance(value, exp.Column) for value in self.values.values())


_SIMPLE = (exp.Column, exp.Literal, exp.Null, exp.Boolean)


def identifier(name: str) -> exp.Identifier:
    """A quoted identifier."""
    return exp.Identifier(this=name, quoted=True)


def field(alias: str, name: str) -> exp.Column:
    """``alias.name``"""
    return exp.Column(this=identifier(name), table=identifier(alias))


def big(number: int) -> exp.Expression:
    """A number of type BIGINT, so that weights never overflow an INT."""
    return exp.cast(exp.Literal.number(number), exp.DType.BIGINT, copy=False)


def aliased(expression: exp.Expression, name: str) -> exp.Expression:
    """``expression AS name``"""
    return exp.Alias(this=expression, alias=identifier(name))


def table_alias(name: str) -> exp.TableAlias:
    """The alias of a FROM item."""
    return exp.TableAlias(this=identifier(name))


def over(query: exp.Query, alias: str, columns: Schema, *, weighted: bool) -> Block:
    """A block that reads a finished query."""
    return replace(
        named(exp.Subquery(this=query, alias=table_alias(alias)), alias, columns, weighted),
        derived=query,
    )


def named(source: exp.Expression, alias: str, columns: Schema, weighted: bool) -> Block:
    """A block over a FROM item whose columns are called ``name#id``."""
    return Block(
        columns,
        source,
        {column.id: field(alias, str(column)) for column in columns},
        field(alias, WEIGHT) if weighted else None,
    )


def outputs(block: Block) -> list[exp.Expression]:
    """The SELECT list: every column under its unique name, then the weight if there is one."""
    selected = [
        aliased(duplicate(block.values[column.id]), str(column)) for column in block.columns
    ]
    if block.weight is not None:
        selected.append(aliased(duplicate(block.weight), WEIGHT))
    return selected or [aliased(exp.Literal.number(1), EMPTY)]


def select(block: Block, selected: list[exp.Expression]) -> exp.Select:
    """``SELECT selected FROM … JOIN … WHERE …``; the caller may add GROUP BY."""
    query = exp.Select(expressions=selected)
    query.set("from_", exp.From(this=block.source))
    joins = [item for item in block.joins if isinstance(item, exp.Join)]
    laterals = [item for item in block.joins if isinstance(item, exp.Lateral)]
    if joins:
        query.set("joins", joins)
    if laterals:
        query.set("laterals", laterals)
    if block.where:
        query.set("where", exp.Where(this=conjunction(block.where)))
    return query


def query_of(block: Block) -> exp.Query:
    """The block as a query; a block that only repeats a finished query is that query."""
    if block.derived is not None and block.bare and _repeats(block):
        return block.derived
    return select(block, outputs(block))


def _repeats(block: Block) -> bool:
    inner = block.derived
    if not isinstance(inner, exp.Query):
        return False
    wanted = [str(column) for column in block.columns]
    if any(block.values[c.id].name != str(c) for c in block.columns) or not block.plain():
        return False
    if block.weight is not None:
        if not isinstance(block.weight, exp.Column):
            return False
        wanted.append(WEIGHT)
    offered = inner.named_selects
    return offered == (wanted or [EMPTY])


def rename(block: Block, columns: Schema) -> Block:
    """The same rows, the columns matched by position under other ids."""
    pairs = zip(block.columns, columns, strict=True)
    values = {new.id: block.values[old.id] for old, new in pairs}
    return replace(block, columns=columns, values=values)


def plain_id(expression: exp.Expression) -> int | None:
    """The id of the column if the expression is nothing but a column."""
    return column_id(expression) if isinstance(expression, exp.Column) else None


def order_column(column: Column, values: Mapping[int, exp.Expression]) -> exp.Expression:
    """A column as it is written over the FROM items."""
    return duplicate(values[column.id])
