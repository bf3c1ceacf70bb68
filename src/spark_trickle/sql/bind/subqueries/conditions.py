"""Subqueries become joins: semi and anti joins for conditions, left joins for values.

``restrict`` applies a condition to a plan; ``with_values`` gives expressions the value of the
subqueries in them. Both try to pull the correlation up first and run over the domain otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from sqlglot import exp

from spark_trickle.ir.nodes import AntiJoin, Distinct, Filter, Node, Project, SemiJoin
from spark_trickle.ir.scalars import column_ids, conjunction, conjuncts, disjunction, enclosed, ref
from spark_trickle.ir.trees import duplicate, holds
from spark_trickle.ir.types import Column
from spark_trickle.ir.walk import fresh_copy
from spark_trickle.sql.bind.build import (
    boolean,
    by_id,
    extended,
    free,
    left_join,
    nullable,
    one_row,
    passing,
    same,
    typed,
)
from spark_trickle.sql.bind.session import Environment, Nested, NestedQuery, query_of
from spark_trickle.sql.bind.subqueries.domain import domain_of, domain_of_conditions
from spark_trickle.sql.bind.subqueries.pull_up import Conjuncts, Pulled, equality_keys, pull_up
from spark_trickle.sql.bind.subqueries.values import scalar_value
from spark_trickle.sql.types.coercion import BOOLEAN, STRING, as_texts
from spark_trickle.sql.types.infer import type_of


def restrict(node: Node, predicate: exp.Expression, environment: Environment) -> Node:
    """The rows of a plan for which a predicate with subqueries is TRUE."""
    plain: list[exp.Expression] = []
    for part in conjuncts(predicate):
        if not holds(part, Nested):
            plain.append(part)
    result = Filter(node, conjunction(plain)) if plain else node
    for part in conjuncts(predicate):
        if holds(part, Nested):
            result = _restrict_nested(result, part, environment)
    return result


def _restrict_nested(node: Node, part: exp.Expression, environment: Environment) -> Node:
    inside, negated = part, False
    while isinstance(inside, exp.Not | exp.Paren):
        negated ^= isinstance(inside, exp.Not)
        inside = inside.this
    query = query_of(inside, environment.session) if isinstance(inside, Nested) else None
    if query is not None and query.kind != "scalar":
        return _membership(node, query, negated, environment)
    node, (value,) = with_values(node, [part], environment, only_true_matters=True)
    return Filter(node, value)


def _membership(node: Node, query: NestedQuery, negated: bool, environment: Environment) -> Node:
    """A condition that is one subquery, or NOT one."""
    node, operands = with_values(node, query.operands, environment)
    if query.kind == "exists" and one_row(query.plan):
        return Filter(node, boolean(exp.Boolean(this=not negated)))
    plan, pulled = _pulled(node, query, environment)
    comparison = _comparison(query, operands, plan.columns)
    keeps = query.kind == "all"
    if query.kind == "exists":
        test: Conjuncts = ()
    elif query.kind == "any":
        test = _true_or_null(comparison, node, plan) if negated else comparison
    else:
        # x op ALL: every row must compare TRUE, so one that does not is a partner to avoid.
        test = (_not_true(comparison),) if not negated else (_false(comparison),)
    conditions = (*pulled, *test)
    if negated ^ keeps:
        return AntiJoin(node, plan, conditions)
    return SemiJoin(node, plan, conditions)


def _pulled(node: Node, query: NestedQuery, environment: Environment) -> tuple[Node, Conjuncts]:
    """The subquery without outer references, and the conditions that tie it to the plan."""
    plan = _needed_for_existence(query.plan) if query.kind == "exists" else query.plan
    pulled = pull_up(plan, environment.ids)
    if pulled is not None:
        return pulled.node, pulled.conditions
    domain = domain_of(plan, node, environment, query.origin)
    pushed = domain.push(plan)
    offered = by_id(node.columns)
    conditions = tuple(same(ref(offered[id]), ref(col)) for id, col in pushed.columns.items())
    return pushed.node, conditions


def _needed_for_existence(plan: Node) -> Node:
    """EXISTS does not care which columns its rows have, nor how often they come."""
    while isinstance(plan, Project | Distinct):
        plan = plan.input
    return plan


def _comparison(
    query: NestedQuery, operands: Sequence[exp.Expression], columns: Sequence[Column]
) -> Conjuncts:
    return tuple(
        boolean(query.operator(this=enclosed(one), expression=other))
        for one, other in (
            _sides(query, duplicate(operand), ref(column))
            for operand, column in zip(operands, columns, strict=False)
        )
    )


def _sides(
    query: NestedQuery, operand: exp.Expression, column: exp.Expression
) -> tuple[exp.Expression, exp.Expression]:
    """What is compared, in the type that IN would compare it in."""
    if not isinstance(query.origin, exp.In) or not as_texts(type_of(operand), type_of(column)):
        return operand, column
    return _as_text(operand), _as_text(column)


def _as_text(value: exp.Expression) -> exp.Expression:
    return value if value.type == STRING else typed(exp.cast(value, STRING), STRING)


def _true_or_null(comparison: Conjuncts, node: Node, plan: Node) -> Conjuncts:
    """NOT IN drops a row also where a comparison is NULL: where none of the parts is FALSE."""
    offered = by_id((*node.columns, *plan.columns))
    result = []
    for part in comparison:
        null = boolean(exp.Is(this=exp.Paren(this=duplicate(part)), expression=exp.null()))
        result.append(disjunction([part, null]) if nullable(part, offered) else part)
    return tuple(result)


def _not_true(comparison: Conjuncts) -> exp.Expression:
    whole = exp.Paren(this=conjunction(comparison))
    known = exp.Coalesce(this=whole, expressions=[exp.false()])
    return boolean(exp.Not(this=known))


def _false(comparison: Conjuncts) -> exp.Expression:
    return boolean(exp.Not(this=exp.Paren(this=conjunction(comparison))))


def with_values(
    node: Node,
    expressions: Sequence[exp.Expression],
    environment: Environment,
    only_true_matters: bool = False,
) -> tuple[Node, list[exp.Expression]]:
    """The plan joined with the subqueries of the expressions, and the expressions over it.

    ``only_true_matters``: the expressions are conditions, so NULL may stand for FALSE.
    """
    values: dict[exp.Expr, exp.Expression] = {}
    for expression in expressions:
        for found in list(expression.find_all(Nested)):
            if found not in values:
                stands_for = _null_stands_for(found, only_true_matters, environment)
                node, values[found] = _value(node, found, environment, stands_for)

    def value_of(part: exp.Expression) -> exp.Expression:
        if not isinstance(part, Nested):
            return part
        value = duplicate(values[part])
        return value if part.parent is None else enclosed(value)

    if not values:
        return node, list(expressions)
    return node, [expression.transform(value_of) for expression in expressions]


class NullAs(Enum):
    """What a comparison that is NULL may be taken for without changing the result."""

    FALSE = "false"
    TRUE = "true"
    NULL = "null"


def _null_stands_for(found: exp.Expr, only_true_matters: bool, environment: Environment) -> NullAs:
    """In a condition NULL and FALSE both drop a row, and under NOT it is NULL and TRUE.

    As a value, Spark's IN over a subquery is never NULL: it says FALSE, and so does its NOT IN.
    """
    nots, parent = 0, found.parent
    while isinstance(parent, exp.And | exp.Or | exp.Not | exp.Paren):
        nots += isinstance(parent, exp.Not)
        parent = parent.parent
    by_sign = NullAs.TRUE if nots % 2 else NullAs.FALSE
    if parent is None and only_true_matters:
        return by_sign
    query = query_of(found, environment.session)
    if environment.session.in_is_never_null and isinstance(query.origin, exp.In):
        above = found.parent
        while isinstance(above, exp.Paren):
            above = above.parent
        return NullAs.TRUE if isinstance(above, exp.Not) else NullAs.FALSE
    return NullAs.NULL


def _value(
    node: Node, found: Nested, environment: Environment, null_as: NullAs
) -> tuple[Node, exp.Expression]:
    query = query_of(found, environment.session)
    if query.kind == "scalar":
        return scalar_value(node, query, environment)
    node, operands = with_values(node, query.operands, environment)
    plan, pulled = _pulled(node, query, environment)
    if query.kind == "exists":
        return _mark(node, Pulled(plan, pulled), environment, query.origin)
    comparison = _comparison(query, operands, plan.columns)
    offered = by_id((*node.columns, *plan.columns))
    decides = _deciding(query.kind, comparison, null_as, node, plan)
    node, mark = _mark(node, Pulled(plan, (*pulled, *decides)), environment, query.origin)
    if null_as is NullAs.NULL and any(nullable(part, offered) for part in comparison):
        node, unknown = _undecided(node, query, operands, environment)
        return node, _three_valued(query.kind, mark, unknown)
    if query.kind == "any":
        return node, mark
    return node, boolean(exp.Not(this=enclosed(mark)))


def _deciding(
    kind: str, comparison: Conjuncts, null_as: NullAs, node: Node, plan: Node
) -> Conjuncts:
    """Which rows of the subquery decide: those that make ANY true, or ALL false."""
    if kind == "any":
        return _true_or_null(comparison, node, plan) if null_as is NullAs.TRUE else comparison
    return (_not_true(comparison) if null_as is NullAs.FALSE else _false(comparison),)


def _undecided(
    node: Node, query: NestedQuery, operands: Sequence[exp.Expression], environment: Environment
) -> tuple[Node, exp.Expression]:
    """Whether a row of the subquery compares as NULL."""
    again = replace(query, plan=fresh_copy(query.plan, environment.ids))
    plan, pulled = _pulled(node, again, environment)
    whole = exp.Paren(this=conjunction(_comparison(again, operands, plan.columns)))
    null = boolean(exp.Is(this=whole, expression=exp.null()))
    return _mark(node, Pulled(plan, (*pulled, null)), environment, query.origin)


def _three_valued(kind: str, mark: exp.Expression, unknown: exp.Expression) -> exp.Expression:
    """TRUE or FALSE as soon as one row decides, else NULL if one row could not be compared."""
    found, otherwise = (exp.true(), exp.false()) if kind == "any" else (exp.false(), exp.true())
    null = exp.cast(exp.null(), BOOLEAN)
    return boolean(
        exp.Case(
            ifs=[exp.If(this=mark, true=found), exp.If(this=unknown, true=null)],
            default=otherwise,
        )
    )


def _mark(
    node: Node, inner: Pulled, environment: Environment, origin: exp.Expr
) -> tuple[Node, exp.Expression]:
    """A condition that says whether a row has a partner, without multiplying rows."""
    outer = frozenset(column.id for column in node.columns)
    keyed = equality_keys(inner, outer, environment.ids)
    ids = environment.ids
    if keyed is not None and not keyed[1]:
        # One row if there is any: DISTINCT needs a column to tell that from an aggregate's one row.
        marked, (mark,) = extended(Project(keyed[0], ()), [("mark", boolean(exp.true()))], ids)
        return _found(left_join(node, Distinct(marked), keyed[2]), mark)
    if keyed is not None:
        below, keys, conditions = keyed
        unique: Node = Distinct(Project(below, passing(by_id(keys).values())))
    else:
        domain = domain_of_conditions(inner.conditions, node, environment, origin)
        plan = domain.plan()
        unique = SemiJoin(plan.node, inner.node, tuple(map(plan.bound, inner.conditions)))
        offered = by_id(node.columns)
        conditions = tuple(
            same(ref(offered[id]), ref(column)) for id, column in plan.columns.items()
        )
    marked, (mark,) = extended(unique, [("mark", boolean(exp.true()))], ids)
    return _found(left_join(node, marked, conditions), mark)


def _found(joined: Node, mark: Column) -> tuple[Node, exp.Expression]:
    return joined, boolean(exp.Not(this=exp.Is(this=ref(mark), expression=exp.null())))


def reads_outside(query: NestedQuery, offered: frozenset[int]) -> frozenset[int]:
    """Columns a subquery reads that neither it nor the plan around it offers."""
    operands = frozenset[int]().union(*map(column_ids, query.operands))
    return (free(query.plan) | operands) - offered
