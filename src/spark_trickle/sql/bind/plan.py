"""SQL text to a bound plan: every column has an id and a type, every subquery is a join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.errors import BindError, NameHint
from spark_trickle.ir.check import check
from spark_trickle.ir.nodes import Node
from spark_trickle.ir.types import Blocker, Notice, TableSchema
from spark_trickle.sql.bind.clauses.limits import NUMBER
from spark_trickle.sql.bind.query import bind_query
from spark_trickle.sql.bind.session import BindSession, Environment, Unbuildable
from spark_trickle.sql.parse import parse_query
from spark_trickle.sql.pg.queries import Lookup, PgColumns
from spark_trickle.sql.pg.types import from_spark
from spark_trickle.sql.rules import read_otherwise, told_apart_by_case


def columns_of(sources: Mapping[str, TableSchema]) -> Lookup:
    """The columns of sources, for a translation."""
    by_name = {name.lower(): source for name, source in sources.items()}

    def lookup(schema: str, name: str) -> PgColumns | None:
        found = by_name.get(f"{schema}.{name}" if schema else name)
        return None if found is None else [(c.name, from_spark(c.type)) for c in found.columns]

    return lookup


@dataclass(frozen=True)
class BoundQuery:
    """What a query means; without a plan there is at least one blocker."""

    plan: Node | None
    names: tuple[str, ...]
    """The names of the plan's columns, as the user sees them."""
    warnings: tuple[Notice, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    ties: tuple[tuple[int, ...], ...] = ()
    """For each ORDER BY of the text: by which outputs, by their place, it goes on."""


def bind(
    sql: str,
    sources: Mapping[str, TableSchema],
    views: Mapping[str, str] | None = None,
    dialect: str = "spark",
    hint: NameHint | None = None,
    functions: Mapping[str, bool] | None = None,
    settings: Mapping[str, str] | None = None,
) -> BoundQuery:
    """Parse and bind one query; raises ParseError, BindError or UnsupportedQueryError.

    ``settings``: those of Spark that give the text its meaning, where they are known.
    """
    parsed = parse_query(sql, dialect, columns_of(sources))
    names = (column.name for source in sources.values() for column in source.columns)
    other = read_otherwise(settings or {})
    other = other or told_apart_by_case(settings or {}, parsed.tree, names)
    if other is not None:
        return BoundQuery(None, (), (), (other,))
    session = BindSession(
        sources,
        views or {},
        hint=hint,
        functions=functions,
        in_is_never_null=dialect == "spark",
    )
    orders = 0
    for order in parsed.tree.find_all(exp.Order):
        order.meta[NUMBER] = orders
        orders += 1
    environment = Environment(session, parsed.text, top=True)
    try:
        rows = bind_query(parsed.tree, environment)
    except Unbuildable:
        return BoundQuery(None, (), tuple(session.notices), tuple(session.blockers))
    except RecursionError:
        raise BindError(
            "the query is nested too deeply", hint="split it into common table expressions"
        ) from None
    check(rows.node, stage="the bound plan")
    ties = tuple(session.ties.get(number, ()) for number in range(orders))
    return BoundQuery(rows.node, rows.names, tuple(session.notices), tuple(session.blockers), ties)
