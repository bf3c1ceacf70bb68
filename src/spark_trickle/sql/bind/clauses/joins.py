"""Joins: which columns they offer, and conditions that may hold subqueries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from spark_trickle.ir.nodes import AntiJoin, Filter, Join, Node, OuterKind, Project, SemiJoin
from spark_trickle.ir.scalars import column_id, column_ids, conjunction, conjuncts, ref
from spark_trickle.ir.trees import duplicate, holds
from spark_trickle.ir.types import Column
from spark_trickle.sql.bind.build import (
    boolean,
    by_id,
    extended,
    free,
    nullable,
    outer_join,
    passing,
    same,
    typed,
)
from spark_trickle.sql.bind.expressions import Binder
from spark_trickle.sql.bind.scope import Field, Scope
from spark_trickle.sql.bind.session import Environment, Nested, Unbuildable, query_of
from spark_trickle.sql.bind.subqueries.conditions import restrict
from spark_trickle.sql.bind.subqueries.domain import domain_of
from spark_trickle.sql.bind.subqueries.pull_up import pull_up
from spark_trickle.sql.bind.subqueries.values import grouped_by_key
from spark_trickle.sql.types.coercion import UNKNOWN, can_compare, common, spell
from spark_trickle.sql.types.infer import require_boolean

MakeBinder = Callable[[Scope], Binder]


@dataclass(frozen=True)
class Side:
    """A bound relation: its plan and the names it offers."""

    node: Node
    scope: Scope


def join(left: Side, right: Side, clause: exp.Join, binder: MakeBinder) -> Side:
    """Two relations joined as the clause says."""
    kind, side = (clause.kind or "").upper(), (clause.side or "").upper()
    if side == "RIGHT" and kind not in ("SEMI", "ANTI"):
        return _right(left, right, clause, binder)
    scope = left.scope.joined(right.scope)
    shared = _shared_names(left, right, clause)
    conditions = _conditions(left, right, clause, shared, binder(scope))
    environment = binder(scope).environment
    if kind in ("SEMI", "ANTI"):
        return _filtering(left, right, kind, conditions, clause, environment)
    if side in ("LEFT", "FULL"):
        padded = _outer(left, right, side, conditions, clause, environment)
        scope = scope.refreshed(padded)
        return _merged(Side(padded, scope), left, right, shared, side, environment)
    plain = tuple(part for part in conditions if not holds(part, Nested))
    node: Node = Join((left.node, right.node), plain)
    for part in conditions:
        if holds(part, Nested):
            node = restrict(node, part, environment)
    return _merged(Side(node, scope), left, right, shared, side, environment)


def _right(left: Side, right: Side, clause: exp.Join, binder: MakeBinder) -> Side:
    """RIGHT is LEFT with the sides exchanged; names keep the order they were written in."""
    turned = duplicate(clause)
    turned.set("side", "LEFT")
    scope = left.scope.joined(right.scope)
    joined = join(right, left, turned, binder)
    names = replace(scope, visible=_in_order(joined, left, right, clause))
    return Side(joined.node, names.refreshed(joined.node))


def _in_order(joined: Side, left: Side, right: Side, clause: exp.Join) -> tuple[Field, ...]:
    scope = left.scope.joined(right.scope)
    shared = _shared_names(left, right, clause)
    if not shared:
        return scope.visible
    first = tuple(f for f in joined.scope.visible if f.name.lower() in shared)
    rest = tuple(f for f in scope.visible if f.name.lower() not in shared)
    return first + rest


def _shared_names(left: Side, right: Side, clause: exp.Join) -> list[str]:
    using = clause.args.get("using")
    if using:
        return [str(part.name).lower() for part in using]
    if (clause.method or "").upper() != "NATURAL":
        return []
    theirs = {f.name.lower() for f in right.scope.visible}
    return [f.name.lower() for f in left.scope.visible if f.name.lower() in theirs]


def _conditions(
    left: Side, right: Side, clause: exp.Join, shared: list[str], binder: Binder
) -> tuple[exp.Expression, ...]:
    if shared:
        return tuple(_equal(left, right, name, clause, binder) for name in shared)
    on = clause.args.get("on")
    if on is None or (isinstance(on, exp.Boolean) and on.this):
        return ()
    bound = binder.bind(on)
    require_boolean(bound, binder.environment.text, "ON")
    return tuple(conjuncts(bound))


def _equal(left: Side, right: Side, name: str, clause: exp.Join, binder: Binder) -> exp.Expression:
    mine = _named(left, name, clause, binder)
    theirs = _named(right, name, clause, binder)
    if not can_compare(mine.type, theirs.type):
        raise binder.environment.text.error(
            clause,
            f"{name} is {spell(mine.type)} on one side and {spell(theirs.type)} on the other",
            hint="join with ON and a cast",
        )
    return boolean(exp.EQ(this=ref(mine), expression=ref(theirs)))


def _named(side: Side, name: str, clause: exp.Join, binder: Binder) -> Column:
    found = [f.column for f in side.scope.visible if f.name.lower() == name]
    if len(found) != 1:
        what = "unknown" if not found else "ambiguous"
        raise binder.environment.text.error(
            clause,
            f"column {name} of USING is {what} on one side",
            hint="join with ON and qualified names",
        )
    return found[0]


def _merged(
    joined: Side,
    left: Side,
    right: Side,
    shared: list[str],
    side: str,
    environment: Environment,
) -> Side:
    """USING and NATURAL offer the shared columns once, first, and without a qualifier."""
    if not shared:
        return joined
    offered = by_id(joined.node.columns)
    node, firsts = joined.node, []
    for name in shared:
        mine = next(f for f in left.scope.visible if f.name.lower() == name)
        theirs = next(f for f in right.scope.visible if f.name.lower() == name)
        column = offered[mine.column.id]
        if side == "FULL":
            value = exp.Coalesce(this=ref(column), expressions=[ref(offered[theirs.column.id])])
            type = common(column.type, theirs.column.type) or UNKNOWN
            node, (column,) = extended(node, [(mine.name, typed(value, type))], environment.ids)
        firsts.append(Field(mine.name, column))
    rest = tuple(f for f in joined.scope.visible if f.name.lower() not in shared)
    return Side(node, replace(joined.scope, visible=(*firsts, *rest)))


def _filtering(
    left: Side,
    right: Side,
    kind: str,
    conditions: tuple[exp.Expression, ...],
    clause: exp.Join,
    environment: Environment,
) -> Side:
    _refuse_nested(conditions, clause, environment)
    node = (SemiJoin if kind == "SEMI" else AntiJoin)(left.node, right.node, conditions)
    return Side(node, left.scope)


def _outer(
    left: Side,
    right: Side,
    side: str,
    conditions: tuple[exp.Expression, ...],
    clause: exp.Join,
    environment: Environment,
) -> Node:
    """Subqueries in ON may restrict the side that gets padded; elsewhere they have no join."""
    padded = right.node
    kept: list[exp.Expression] = []
    for part in conditions:
        if holds(part, Nested) and side == "LEFT" and _about(part, padded, environment):
            padded = restrict(padded, part, environment)
        else:
            kept.append(part)
    _refuse_nested(tuple(kept), clause, environment)
    kind = OuterKind.LEFT if side == "LEFT" else OuterKind.FULL
    return outer_join(left.node, padded, kind, tuple(kept))


def _about(part: exp.Expression, node: Node, environment: Environment) -> bool:
    offered = {column.id for column in node.columns}
    read = set(column_ids(part))
    for found in part.find_all(Nested):
        query = query_of(found, environment.session)
        read |= free(query.plan)
        for operand in query.operands:
            read |= column_ids(operand)
    return read <= offered


def _refuse_nested(
    conditions: tuple[exp.Expression, ...], clause: exp.Join, environment: Environment
) -> None:
    if any(holds(part, Nested) for part in conditions):
        environment.block(
            "SUBQUERY_IN_ON",
            clause.args.get("on"),
            "a subquery in this ON clause has no incremental form",
            "compute it in a common table expression and join that",
        )
        raise Unbuildable


def lateral_join(
    left: Side, right: Side, clause: exp.Join, binder: MakeBinder, origin: exp.Expr
) -> Side:
    """A subquery that may refer to the relations before it."""
    scope = left.scope.joined(right.scope)
    environment = binder(scope).environment
    on = _conditions(left, right, clause, [], binder(scope))
    _refuse_nested(on, clause, environment)
    outer = (clause.side or "").upper() == "LEFT"
    if not on:
        grouped = _one_group(left.node, right.node, outer, environment)
        if grouped is not None:
            return Side(grouped, scope.refreshed(grouped))
    node, conditions = _tied(left.node, right.node, environment, origin)
    if outer:
        joined: Node = outer_join(left.node, node, OuterKind.LEFT, conditions + on)
        return Side(joined, scope.refreshed(joined))
    return Side(Join((left.node, node), conditions + on), scope)


def _one_group(left: Node, plan: Node, outer: bool, environment: Environment) -> Node | None:
    """An aggregate without GROUP BY has one row for each row of the left side."""
    if not free(plan) & {column.id for column in left.columns}:
        return None
    grouped = grouped_by_key(left, plan, environment.ids)
    if grouped is None or (outer and grouped.filters):
        return None
    filters = grouped.filters
    below = Filter(grouped.node, conjunction(filters)) if filters else grouped.node
    offered = by_id(below.columns)
    outputs = tuple(
        (replace(column, nullable=nullable(value, offered)), value)
        for column, value in grouped.outputs
        if not (isinstance(value, exp.Column) and column_id(value) == column.id)
    )
    return Project(below, passing(below.columns) + outputs)


def _tied(
    left: Node, plan: Node, environment: Environment, origin: exp.Expr
) -> tuple[Node, tuple[exp.Expression, ...]]:
    """A subquery without references to the left side, and the conditions in their place."""
    if not free(plan) & {column.id for column in left.columns}:
        return plan, ()
    pulled = pull_up(plan, environment.ids)
    if pulled is not None:
        return pulled.node, pulled.conditions
    pushed = domain_of(plan, left, environment, origin).push(plan)
    offered = by_id(left.columns)
    pairs = pushed.columns.items()
    return pushed.node, tuple(same(ref(offered[id]), ref(column)) for id, column in pairs)
