"""Any query: WITH, SELECT, set operations, VALUES and parentheses."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.ir.nodes import Node, Order
from spark_trickle.ir.trees import duplicate
from spark_trickle.ir.types import Column
from spark_trickle.sql.bind.build import extended
from spark_trickle.sql.bind.clauses.limits import cut_of, cut_rows, only
from spark_trickle.sql.bind.clauses.select import SelectBinder
from spark_trickle.sql.bind.clauses.set_operations import combine
from spark_trickle.sql.bind.expressions import Binder
from spark_trickle.sql.bind.scope import Field, of_relation
from spark_trickle.sql.bind.session import Environment, NamedPlan, Unbuildable


def bind_query(tree: exp.Expr, environment: Environment) -> NamedPlan:
    """The plan of a query and the names of its columns."""
    with_ = tree.args.get("with_")
    if with_ is not None:
        environment = _with(with_, environment)
    if isinstance(tree, exp.Select):
        return SelectBinder(environment, bind_query).bind(tree)
    if isinstance(tree, exp.SetOperation):
        below = replace(environment, top=False)
        left, right = bind_query(tree.this, below), bind_query(tree.expression, below)
        return _ordered(tree, combine(tree, left, right, environment), environment)
    if isinstance(tree, exp.Subquery):
        inner = bind_query(tree.this, replace(environment, top=environment.top and _bare(tree)))
        return _ordered(tree, inner, environment)
    if isinstance(tree, exp.Values | exp.Table):
        select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=duplicate(tree)))
        return SelectBinder(environment, bind_query).bind(select)
    raise environment.text.error(tree, "this is no query", hint="write a SELECT")


def _bare(tree: exp.Subquery) -> bool:
    return not any(tree.args.get(key) for key in ("order", "limit", "offset"))


def _with(with_: exp.Expr, environment: Environment) -> Environment:
    ctes = dict(environment.ctes)
    for cte in with_.expressions:
        name = cte.alias
        if with_.args.get("recursive") and _refers_to(cte.this, name):
            environment.block(
                "RECURSIVE_CTE",
                cte.args["alias"],
                f"{name} refers to itself",
                "use refresh mode FULL, or unroll the recursion to the depth you need",
            )
            raise Unbuildable
        inner = replace(environment, ctes=dict(ctes), top=False)
        rows = bind_query(cte.this, inner)
        listed = tuple(part.name for part in cte.args["alias"].args.get("columns") or [])
        if listed and len(listed) != len(rows.names):
            raise environment.text.error(
                cte.args["alias"],
                f"{len(listed)} names for {len(rows.names)} columns",
                hint="give each column one name",
            )
        ctes[name.lower()] = NamedPlan(rows.node, listed or rows.names)
    return replace(environment, ctes=ctes)


def _refers_to(tree: exp.Expr, name: str) -> bool:
    return any(
        not table.db and table.name.lower() == name.lower() for table in tree.find_all(exp.Table)
    )


def _ordered(tree: exp.Expr, rows: NamedPlan, environment: Environment) -> NamedPlan:
    """ORDER BY, LIMIT and OFFSET of a set operation or of a query in parentheses."""
    order = tree.args.get("order")
    cut = cut_of(tree, environment)
    if order is None and cut.nothing:
        return rows
    fields = [Field(name, col) for name, col in zip(rows.names, rows.node.columns, strict=True)]
    binder = Binder(environment, of_relation(("",), fields, environment.outer), bind_query)
    node: Node = rows.node
    keys: list[Order] = []
    for item in order.expressions if order is not None else []:
        node, column = _key(item.this, node, rows, binder)
        descending = bool(item.args.get("desc"))
        nulls = item.args.get("nulls_first")
        keys.append(Order(column, descending, (not descending) if nulls is None else bool(nulls)))
    outputs = rows.node.columns
    limited = cut_rows(node, keys, cut, outputs, environment, order)
    if cut.limit == 0:
        return NamedPlan(limited, rows.names)
    if cut.nothing:
        return rows
    return NamedPlan(only(limited, outputs), rows.names)


def _key(item: exp.Expr, node: Node, rows: NamedPlan, binder: Binder) -> tuple[Node, Column]:
    if isinstance(item, exp.Literal) and item.is_int:
        position = int(item.name)
        if not 1 <= position <= len(rows.names):
            raise binder.environment.text.error(
                item, f"ORDER BY {position}: there are {len(rows.names)} columns", "count from 1"
            )
        return node, rows.node.columns[position - 1]
    node, (column,) = extended(node, [("order", binder.bind(item))], binder.environment.ids)
    return node, column
