"""Where a statement calls functions of pg_ivm or pg_trickle, or reads their tables.

``SELECT f(…)`` and ``SELECT * FROM f(…)`` are answered here. Whatever else is around a call in FROM, or
a table of theirs, is an ordinary query over the answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from spark_trickle.compat.functions import FunctionCall, FunctionContext, PgFunction, bound
from spark_trickle.errors import NotFoundError, UserError, names_hint
from spark_trickle.statements.foreign import SCHEMAS, is_call, is_table


class Answerer:
    """Answers such queries; ``functions`` by schema and name."""

    def __init__(
        self, functions: Mapping[tuple[str, str], PgFunction], desk: FunctionContext
    ) -> None:
        self._functions = functions
        self._desk = desk

    def alone(self, tree: exp.Select) -> pa.Table | None:
        """The answer of a query that is nothing but calls, or one call in FROM; else None."""
        clauses = {key for key, value in tree.args.items() if value}
        if clauses == {"expressions"}:
            return self._values(tree)
        if clauses == {"expressions", "from_"} and tree.is_star and len(tree.expressions) == 1:
            table = tree.args["from_"].this
            if isinstance(table, exp.Table) and not table.args.get("joins"):
                call = _table_call(table)
                return None if call is None else self._run(call)
        return None

    def relations(self, tree: exp.Select) -> tuple[exp.Select, dict[str, pa.Table]]:
        """The query with every call and table of theirs as a relation of its own name."""
        found: dict[str, pa.Table] = {}
        tree = tree.copy()
        for node in list(tree.find_all(exp.Dot)):
            if is_call(node):
                node.replace(self._looked_up(node))
        for table in list(tree.find_all(exp.Table)):
            call = _table_call(table)
            if call is None:
                continue
            name = f"__trickle_{call.schema}_{call.name}_{len(found)}"
            found[name] = self._run(call)
            alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(call.name))
            place = exp.Table(
                this=exp.to_identifier(name), db=exp.to_identifier("trickle"), alias=alias
            )
            table.replace(place)
        return tree, found

    def _looked_up(self, node: exp.Dot) -> exp.Expr:
        """``pgivm.get_immv_def(x)`` of a column: looked up beside it."""
        call = node.expression
        if str(call.this).lower() != "get_immv_def" or len(call.expressions) != 1:
            raise UserError(
                f"{node.sql('postgres')} is not possible inside a query over tables",
                hint="call it by itself: SELECT f(…), or SELECT … FROM f(…)",
            )
        text = (
            "(SELECT max(i__.viewdef) FROM pgivm.pg_ivm_immv AS i__ "
            f"WHERE i__.immvrelid = {call.expressions[0].sql('postgres')})"
        )
        return sqlglot.parse_one(text, read="postgres")

    def _values(self, tree: exp.Select) -> pa.Table:
        """``SELECT f(…) [AS name], …``: one row, or the rows of the only call."""
        columns: dict[str, Any] = {}
        for item in tree.expressions:
            inner = item.unalias()
            while isinstance(inner, exp.Cast):
                inner = inner.this
            call = _call_of(inner)
            if call is None:
                raise UserError(
                    f"{item.sql('postgres')} stands beside a call of {'/'.join(SCHEMAS)}",
                    hint="call the functions by themselves",
                )
            answer = self._run(call)
            if answer.num_columns != 1 or (len(tree.expressions) > 1 and answer.num_rows != 1):
                raise UserError(
                    f"{call.schema}.{call.name} answers rows",
                    hint=f"SELECT * FROM {call.schema}.{call.name}(…)",
                )
            columns[item.alias or answer.column_names[0]] = answer.column(0)
        return pa.table(columns)

    def _run(self, call: FunctionCall) -> pa.Table:
        function = self._functions.get((call.schema, call.name))
        if function is None:
            known = [name for schema, name in self._functions if schema == call.schema]
            raise NotFoundError(
                f"there is no function {call.schema}.{call.name}",
                hint=names_hint(call.name, known, "functions"),
            )
        if function.run is None:
            raise UserError(f"{function} is not there: {function.does}", hint="see docs/compat.md")
        return function.run(self._desk, bound(function, call))


def _table_call(table: exp.Table) -> FunctionCall | None:
    if not is_table(table):
        return None
    if isinstance(table.this, exp.Func):
        return _called(table.db.lower(), table.this)
    return FunctionCall(table.db.lower(), table.name.lower())


def _call_of(node: exp.Expr) -> FunctionCall | None:
    return _called(node.this.name.lower(), node.expression) if is_call(node) else None


def _called(schema: str, call: exp.Func) -> FunctionCall:
    positional: list[Any] = []
    named: dict[str, Any] = {}
    name = str(call.this) if isinstance(call, exp.Anonymous) else call.sql_name()
    for argument in call.expressions if isinstance(call, exp.Anonymous) else ():
        if isinstance(argument, exp.Kwarg | exp.PropertyEQ):
            named[argument.this.name.lower()] = constant(argument.expression)
        elif named:
            raise UserError(f"{schema}.{name}: a positional argument cannot follow a named one")
        else:
            positional.append(constant(argument))
    return FunctionCall(schema, name.lower(), tuple(positional), named)


def constant(node: exp.Expr) -> Any:
    """The value of a literal, an array of them, or a cast of one; UserError for anything else."""
    match node:
        case exp.Paren():
            return constant(node.this)
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(node.this)
        case exp.Literal() if not node.is_string:
            return int(node.this) if str(node.this).isdigit() else float(node.this)
        case exp.Literal() | exp.RawString() | exp.ByteString() | exp.National():
            return str(node.this)
        case exp.Interval():
            unit = node.args.get("unit")
            return f"{constant(node.this)} {unit.name if unit else ''}".strip()
        case exp.Neg():
            return -constant(node.this)
        case exp.Array():
            return [constant(item) for item in node.expressions]
        case exp.Cast():
            return _cast(constant(node.this), node.to)
        case exp.ParseJSON():
            return _cast(constant(node.this), exp.DataType.build("jsonb", dialect="postgres"))
        case _:
            raise UserError(
                f"a constant is needed here, not {node.sql('postgres')}",
                hint="the arguments of these functions are known before any row is read",
            )


def _cast(value: Any, to: exp.DataType) -> Any:
    if isinstance(value, str) and to.this in (exp.DType.JSON, exp.DType.JSONB):
        try:
            return json.loads(value)
        except ValueError:
            raise UserError(f"{value!r} is not JSON") from None
    if isinstance(value, str) and to.this == exp.DType.BOOLEAN:
        return value.strip().lower() in ("t", "true", "on", "yes", "1", "y")
    if isinstance(value, str) and to.this == exp.DType.ARRAY:
        return [part.strip().strip('"') for part in value.strip("{}").split(",") if part.strip()]
    return value
