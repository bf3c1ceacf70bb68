"""ORDER BY, LIMIT and OFFSET: TopK, with an order made total so that every mode agrees."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.errors import UnsupportedQueryError
from spark_trickle.ir.nodes import Node, Order, Project, TopK, Values
from spark_trickle.ir.types import Column, Schema
from spark_trickle.sql.bind.build import passing
from spark_trickle.sql.bind.session import Environment
from spark_trickle.sql.types.coercion import is_orderable

NO_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class Cut:
    """LIMIT and OFFSET as numbers; ``limit`` None means no LIMIT."""

    limit: int | None
    offset: int
    origin: exp.Expr | None

    @property
    def nothing(self) -> bool:
        """Neither LIMIT nor OFFSET."""
        return self.limit is None and self.offset == 0


def cut_of(query: exp.Expr, environment: Environment) -> Cut:
    """The LIMIT and OFFSET of a query; they must be constants."""
    limit, offset = query.args.get("limit"), query.args.get("offset")
    bound: int | None = None
    if isinstance(limit, exp.Fetch):
        options = limit.args.get("limit_options")
        if options is not None and (options.args.get("with_ties") or options.args.get("percent")):
            raise UnsupportedQueryError(
                "FETCH … WITH TIES and PERCENT are not supported",
                code="FETCH_OPTION",
                position=environment.text.position(limit),
                hint="use FETCH FIRST n ROWS ONLY",
            )
        bound = _constant(limit.args.get("count") or exp.Literal.number(1), environment)
    elif limit is not None and not _is_all(limit.expression):
        bound = _constant(limit.expression, environment)
    skipped = 0 if offset is None else _constant(offset.expression, environment)
    return Cut(bound, skipped, limit or offset)


def _is_all(node: exp.Expr) -> bool:
    return isinstance(node, exp.Var | exp.Column) and node.name.upper() == "ALL"


def _constant(node: exp.Expr, environment: Environment) -> int:
    value = fold(node)
    if value is None or value < 0:
        raise UnsupportedQueryError(
            "LIMIT and OFFSET need a constant number that is not negative",
            code="LIMIT_NOT_CONSTANT",
            position=environment.text.position(node),
            hint="write the number itself",
        )
    return value


def fold(node: exp.Expr) -> int | None:
    """The value of an integer expression of literals; None if it is something else."""
    if isinstance(node, exp.Paren | exp.Cast):
        return fold(node.this)
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return int(node.name)
    if isinstance(node, exp.Neg):
        inner = fold(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Add | exp.Sub | exp.Mul):
        left, right = fold(node.this), fold(node.expression)
        if left is None or right is None:
            return None
        if isinstance(node, exp.Add):
            return left + right
        return left - right if isinstance(node, exp.Sub) else left * right
    return None


def limit_of(query: exp.Expr) -> int | None:
    """The constant that LIMIT or FETCH names; None if there is none."""
    limit = query.args.get("limit")
    if isinstance(limit, exp.Fetch):
        return fold(limit.args.get("count") or exp.Literal.number(1))
    return fold(limit.expression) if limit is not None else None


NUMBER = "number"
"""Which ORDER BY of the text it is; trees are copied, and keep it."""


def total(order: list[Order], columns: Schema) -> tuple[Order, ...]:
    """The order with ties broken by the remaining columns, first to last."""
    seen: set[int] = set()
    result: list[Order] = []
    for key in [*order, *(Order(column) for column in columns if is_orderable(column.type))]:
        if key.column.id not in seen:
            seen.add(key.column.id)
            result.append(key)
    return tuple(result)


def cut_rows(
    node: Node,
    order: list[Order],
    cut: Cut,
    outputs: Schema,
    environment: Environment,
    ordered: exp.Expr | None,
) -> Node:
    """The rows a query's ORDER BY, LIMIT and OFFSET leave; ``outputs`` are its columns."""
    if cut.limit == 0:
        return Values(_copied(outputs, environment), ())
    if cut.nothing:
        if ordered is not None:
            environment.notice(
                ordered,
                "ORDER BY without LIMIT is dropped: a table has no order",
                "order the rows when you read them",
            )
        return node
    if not order:
        _without_order(cut, environment)
    if cut.limit is None:
        environment.block(
            "OFFSET_WITHOUT_LIMIT",
            cut.origin,
            "OFFSET without LIMIT keeps every row but a few",
            "add a LIMIT",
        )
    if ordered is not None and NUMBER in ordered.meta:
        places = enumerate(outputs, start=1)
        environment.session.ties[ordered.meta[NUMBER]] = tuple(
            place for place, each in places if is_orderable(each.type)
        )
    limit = NO_LIMIT if cut.limit is None else cut.limit
    return TopK(node, total(order, outputs), limit, cut.offset)


def _without_order(cut: Cut, environment: Environment) -> None:
    message = "LIMIT without ORDER BY takes any rows"
    hint = "add ORDER BY"
    if environment.top:
        raise UnsupportedQueryError(
            f"{message}, so the result is not defined",
            code="LIMIT_WITHOUT_ORDER_BY",
            position=environment.text.position(cut.origin),
            hint=hint,
        )
    environment.notice(cut.origin, f"{message} in a subquery", hint)
    environment.block("LIMIT_WITHOUT_ORDER_BY", cut.origin, f"{message} in a subquery", hint)


def _copied(columns: Schema, environment: Environment) -> tuple[Column, ...]:
    return tuple(environment.ids.copy(column) for column in columns)


def only(node: Node, columns: Schema) -> Node:
    """The plan with these columns alone."""
    if [c.id for c in node.columns] == [c.id for c in columns]:
        return node
    return Project(node, passing(columns))
