"""A subquery as a value: a join with at most one partner per row.

Law: a scalar subquery over no rows is NULL, and so is what a left join finds no partner for;
except that an aggregate without GROUP BY has a row also over no rows, in which counts are 0. More
than one row is an error when the query runs, as in Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.ir.nodes import Aggregate, Filter, Join, Node, Project
from spark_trickle.ir.scalars import column_ids, conjunction, ref, substitute
from spark_trickle.ir.types import Column
from spark_trickle.ir.walk import ColumnIds
from spark_trickle.sql.bind.build import (
    at_most_one_row,
    boolean,
    by_id,
    free,
    left_join,
    one_row,
    same,
    typed,
)
from spark_trickle.sql.bind.session import Environment, NestedQuery
from spark_trickle.sql.bind.subqueries.domain import domain_of
from spark_trickle.sql.bind.subqueries.empty import is_known_over_no_rows, over_no_rows
from spark_trickle.sql.bind.subqueries.pull_up import equality_keys, pull_up
from spark_trickle.sql.types.coercion import BIGINT, is_orderable
from spark_trickle.sql.types.infer import type_of

TOO_MANY = "a subquery used as a value returned more than one row"


def scalar_value(
    node: Node, query: NestedQuery, environment: Environment
) -> tuple[Node, exp.Expression]:
    """The plan joined with the subquery, and the expression for its value."""
    if not free(query.plan):
        return _uncorrelated(node, query, environment)
    grouped = grouped_by_key(node, query.plan, environment.ids)
    if grouped is not None:
        return _one_value(grouped)
    if not one_row(query.plan):
        joined = _looked_up(node, query, environment)
        if joined is not None:
            return joined
    return _over_domain(node, query, environment)


def _uncorrelated(
    node: Node, query: NestedQuery, environment: Environment
) -> tuple[Node, exp.Expression]:
    plan = query.plan
    if one_row(plan):
        return Join((node, plan)), ref(plan.columns[0])
    if at_most_one_row(plan):
        return left_join(node, plan, ()), ref(plan.columns[0])
    counted, value = _checked(plan, (), query, environment)
    return Join((node, counted)), value


@dataclass(frozen=True)
class _Peeled:
    """An aggregate without keys, and the projections and filters over it as expressions of it."""

    aggregate: Aggregate
    outputs: tuple[tuple[Column, exp.Expression], ...]
    filters: tuple[exp.Expression, ...]


def _peel(plan: Node) -> _Peeled | None:
    above: list[Project | Filter] = []
    while isinstance(plan, Project | Filter):
        above.append(plan)
        plan = plan.input
    if not isinstance(plan, Aggregate) or plan.keys:
        return None
    if not all(is_known_over_no_rows(call) for _, call in plan.calls):
        return None
    values: list[exp.Expression] = [ref(column) for column in plan.columns]
    columns = plan.columns
    filters: list[exp.Expression] = []
    for step in reversed(above):
        current = {column.id: value for column, value in zip(columns, values, strict=True)}
        if isinstance(step, Filter):
            filters.append(substitute(step.predicate, current))
        else:
            columns = step.columns
            values = [substitute(expression, current) for _, expression in step.outputs]
    return _Peeled(plan, tuple(zip(columns, values, strict=True)), tuple(filters))


@dataclass(frozen=True)
class JoinedGroups:
    """A plan joined with one group per correlation key; the aggregate's row as expressions."""

    node: Node
    outputs: tuple[tuple[Column, exp.Expression], ...]
    filters: tuple[exp.Expression, ...]


def grouped_by_key(node: Node, plan: Node, ids: ColumnIds) -> JoinedGroups | None:
    """An aggregate without GROUP BY over rows of its own for each row of ``node``.

    One group per value of the correlation keys, looked up by a left join; None if the correlation
    is not by equality.
    """
    peeled = _peel(plan)
    inner = None if peeled is None else pull_up(peeled.aggregate.input, ids)
    if peeled is None or inner is None:
        return None
    calls, outer = peeled.aggregate.calls, free(peeled.aggregate)
    keyed = equality_keys(inner, outer, ids)
    if keyed is None or any(column_ids(call) & outer for _, call in calls):
        return None
    below, keys, conditions = keyed
    grouped = Aggregate(below, tuple(by_id(keys).values()), calls)
    empty = {column.id: over_no_rows(call, ref(column)) for column, call in calls}
    return JoinedGroups(
        left_join(node, grouped, conditions),
        tuple((column, substitute(value, empty)) for column, value in peeled.outputs),
        tuple(substitute(part, empty) for part in peeled.filters),
    )


def _one_value(grouped: JoinedGroups) -> tuple[Node, exp.Expression]:
    _, value = grouped.outputs[0]
    if grouped.filters:
        kept = conjunction(grouped.filters)
        value = typed(exp.Case(ifs=[exp.If(this=kept, true=value)]), type_of(value))
    return grouped.node, value


def _looked_up(
    node: Node, query: NestedQuery, environment: Environment
) -> tuple[Node, exp.Expression] | None:
    """``(SELECT x FROM u WHERE u.k = t.k)``: one row per key, checked when the query runs."""
    inner = pull_up(query.plan, environment.ids)
    if inner is None:
        return None
    outer = frozenset(column.id for column in node.columns)
    keyed = equality_keys(inner, outer, environment.ids)
    if keyed is None:
        return None
    below, keys, conditions = keyed
    if at_most_one_row(query.plan):
        return left_join(node, below, conditions), ref(query.plan.columns[0])
    checked, value = _checked(below, tuple(by_id(keys).values()), query, environment)
    return left_join(node, checked, conditions), value


def _over_domain(
    node: Node, query: NestedQuery, environment: Environment
) -> tuple[Node, exp.Expression]:
    domain = domain_of(query.plan, node, environment, query.origin)
    pushed = domain.push(query.plan)
    plan, value = pushed.node, ref(query.plan.columns[0])
    if not at_most_one_row(query.plan):
        keys = tuple(pushed.columns.values())
        plan, checked = _checked(plan, keys, query, environment)
        joined = left_join(node, plan, _matches(node, pushed.columns))
        return joined, checked
    return left_join(node, plan, _matches(node, pushed.columns)), value


def _matches(node: Node, columns: dict[int, Column]) -> tuple[exp.Expression, ...]:
    offered = by_id(node.columns)
    return tuple(same(ref(offered[id]), ref(column)) for id, column in columns.items())


def _checked(
    plan: Node, keys: tuple[Column, ...], query: NestedQuery, environment: Environment
) -> tuple[Node, exp.Expression]:
    """One row per key with the value, which fails when the query runs if there are more."""
    column = query.plan.columns[0]
    if not is_orderable(column.type):
        raise environment.text.error(
            query.origin,
            "a subquery used as a value may return more than one row",
            hint="aggregate it, or add ORDER BY … LIMIT 1",
        )
    ids = environment.ids
    count = ids.column("rows", BIGINT, nullable=False)
    value = ids.column(column.name, column.type)
    calls: tuple[tuple[Column, exp.Expression], ...] = (
        (count, typed(exp.Count(this=exp.Star(), big_int=True), BIGINT)),
        (value, typed(exp.Max(this=ref(column)), column.type)),
    )
    grouped = Aggregate(plan, keys, calls)
    too_many = boolean(exp.GT(this=ref(count), expression=exp.Literal.number(1)))
    fails = exp.Anonymous(this="raise_error", expressions=[exp.Literal.string(TOO_MANY)])
    result = exp.Case(ifs=[exp.If(this=too_many, true=fails)], default=ref(value))
    return grouped, typed(result, column.type)
