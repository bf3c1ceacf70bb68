"""Window functions: named windows are written out, calls become columns by partition."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from spark_trickle.ir.nodes import Node, Window
from spark_trickle.ir.scalars import ref
from spark_trickle.ir.trees import duplicate, holds
from spark_trickle.ir.types import Column
from spark_trickle.sql.bind.build import by_id, extended, nullable
from spark_trickle.sql.bind.session import Environment
from spark_trickle.sql.text import Text
from spark_trickle.sql.types.functions import unwrapped
from spark_trickle.sql.types.infer import type_of


def with_named_windows(select: exp.Select, text: Text) -> exp.Select:
    """A copy in which ``OVER w`` says what ``WINDOW w AS …`` says."""
    definitions = select.args.get("windows")
    result = duplicate(select)
    named: dict[str, exp.Window] = {}
    for definition in definitions or []:
        named[definition.this.name.lower()] = _merged(definition, named, text)
    for window in _own_windows(result):
        if window.args.get("alias") is not None:
            merged = _merged(window, named, text)
            window.replace(merged)
    result.set("windows", None)
    return result


def _own_windows(select: exp.Select) -> list[exp.Window]:
    found: list[exp.Window] = []
    places = [*select.expressions, select.args.get("qualify"), select.args.get("order")]
    for place in places:
        if place is not None:
            inner = place.walk(prune=lambda node: isinstance(node, exp.Query))
            found += [node for node in inner if isinstance(node, exp.Window)]
    return found


def _merged(window: exp.Window, named: dict[str, exp.Window], text: Text) -> exp.Window:
    result = duplicate(window)
    alias = result.args.get("alias")
    if alias is None:
        return result
    base = named.get(alias.name.lower())
    if base is None:
        raise text.error(
            alias, f"unknown window {alias.name}", hint="define it: WINDOW name AS (…)"
        )
    for key in ("partition_by", "order", "spec"):
        if not result.args.get(key) and base.args.get(key):
            value = base.args[key]
            copied = [duplicate(v) for v in value] if isinstance(value, list) else duplicate(value)
            result.set(key, copied)
    result.set("alias", None)
    return result


def with_windows(
    node: Node, expressions: Sequence[exp.Expression], environment: Environment
) -> tuple[Node, list[exp.Expression]]:
    """The plan with a column per window call, and the expressions over those columns."""
    calls: list[exp.Window] = []
    for expression in expressions:
        for found in expression.find_all(exp.Window):
            _check(found, environment)
            if found not in calls:
                calls.append(found)
    if not calls:
        return node, list(expressions)
    columns: dict[exp.Expr, Column] = {}
    for call in calls:
        node, columns[call] = _add(node, call, environment)

    def column_of(part: exp.Expression) -> exp.Expression:
        return ref(columns[part]) if isinstance(part, exp.Window) else part

    return node, [expression.transform(column_of) for expression in expressions]


def _check(call: exp.Window, environment: Environment) -> None:
    inside = [*call.iter_expressions()]
    if any(holds(part, exp.Window) for part in inside):
        raise environment.text.error(
            call, "a window function inside a window function", hint="use a subquery in FROM"
        )
    if not call.args.get("partition_by"):
        name = unwrapped(call.this).sql(dialect="spark").split("(")[0].lower()
        environment.block(
            "UNPARTITIONED_WINDOW",
            call,
            f"{name} has no PARTITION BY: one changed row can change every row",
            "add PARTITION BY, or use refresh mode FULL",
        )


def _add(node: Node, call: exp.Window, environment: Environment) -> tuple[Node, Column]:
    partition = [("partition", part) for part in call.args.get("partition_by") or []]
    node, keys = extended(node, partition, environment.ids)
    unique = tuple(by_id(keys).values())
    written = duplicate(call)
    written.set("partition_by", [ref(key) for key in unique])
    written.type = call.type
    name = unwrapped(call.this).sql(dialect="spark").split("(")[0].lower()
    column = environment.ids.column(name, type_of(call), nullable(call, by_id(node.columns)))
    if isinstance(node, Window) and _same(node.partition_by, unique):
        return Window(node.input, node.partition_by, (*node.calls, (column, written))), column
    return Window(node, unique, ((column, written),)), column


def _same(a: Sequence[Column], b: Sequence[Column]) -> bool:
    return {column.id for column in a} == {column.id for column in b}
