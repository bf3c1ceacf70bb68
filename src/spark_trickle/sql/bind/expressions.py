"""Scalar expressions: names become columns, subqueries become placeholders, types are inferred."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.errors import BindError
from spark_trickle.ir.aggregates import function_name
from spark_trickle.ir.nodes import Node
from spark_trickle.ir.scalars import enclosed, is_chain, rebuilt_chain, ref
from spark_trickle.ir.temporal import NUMBER, is_clock
from spark_trickle.ir.trees import duplicate
from spark_trickle.sql.bind.scope import Scope, resolve, value_of_key
from spark_trickle.sql.bind.session import Environment, NamedPlan, Nested, NestedQuery, Unbuildable
from spark_trickle.sql.bind.stars import star
from spark_trickle.sql.types import coercion as c
from spark_trickle.sql.types.builtins import BUILTINS
from spark_trickle.sql.types.clock import reads_clock
from spark_trickle.sql.types.functions import (
    ORDER_DEPENDENT,
    SORTING,
    UNIT_FIRST,
    UNPROVEN_CODE,
    VOLATILE_CODE,
    WINDOW_ONLY,
    is_collated,
    is_volatile,
)
from spark_trickle.sql.types.infer import COMPARISONS, infer, require_comparison, type_of

_STORED_HINT = "store the value in a column when a row is written, and use that column"
_CLOCK_HINT = (
    "compare a date or timestamp column of a table with the clock, by itself and not under OR, as in "
    "WHERE ts > now() - INTERVAL 7 DAYS AND d <= current_date(), a TIMESTAMP_NTZ with "
    "localtimestamp(); or store the value in a column when a row is written"
)
BindQuery = Callable[[exp.Expr, Environment], NamedPlan]

_LEAVES = (exp.DataType, exp.Var, exp.Identifier, exp.IntervalSpan, exp.Star)
_MIRRORED: dict[type[exp.Expr], type[exp.Expression]] = {
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
}


def _timely(bound: exp.Expression) -> bool:
    seconds = ("unix_timestamp", "to_unix_timestamp", "current_time")
    return is_clock(bound) or reads_clock(bound) or function_name(bound) in seconds


@dataclass(frozen=True)
class Binder:
    """Binds expressions at one place of a query."""

    environment: Environment
    scope: Scope
    bind_query: BindQuery
    """Passed in, because queries and expressions contain each other."""

    def bind(self, node: exp.Expr) -> exp.Expression:
        """The bound, typed copy of an expression."""
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Subquery | exp.Exists) or _quantified(node):
            return self._nested(node)
        if isinstance(node, exp.In) and _in_query(node) is not None:
            return self._nested(node)
        if isinstance(node, exp.Lambda):
            return self._rebuilt(node)
        if isinstance(node, exp.Any):
            return self._any(node)
        if isinstance(node, exp.Query):
            return self._nested(exp.Subquery(this=duplicate(node)))
        if isinstance(node, exp.Placeholder | exp.Parameter):
            raise self._error(node, "a parameter has no value here", "write the value itself")
        if is_collated(node):
            self.environment.block(
                "COLLATION",
                node,
                "texts that another collation takes for equal are not told apart by their bytes",
                "compare lower(…) or upper(…) of the texts, or use refresh mode FULL",
            )
            raise Unbuildable
        if isinstance(node, exp.Anonymous):
            return self._call(node)
        if isinstance(node, exp.Dot):
            return self._field(node)
        if is_chain(node) and isinstance(node, exp.Expression):
            return rebuilt_chain(node, self.bind, self._typed)
        return self._typed(self._rebuilt(node), node)

    def _typed(self, bound: exp.Expression, origin: exp.Expr) -> exp.Expression:
        """Types belong to every node; what depends on more than its arguments is noted."""
        bound.type = infer(bound, self.environment.text)
        self._note(bound, origin)
        return bound

    def _note(self, bound: exp.Expression, origin: exp.Expr) -> None:
        if is_volatile(bound) or reads_clock(bound):
            text = origin.sql(dialect="spark")
            name = text.split("(")[0].lower() if is_volatile(bound) else text
            clock = is_clock(bound) and not self._names_column(origin)
            bound.meta[NUMBER] = self.environment.block(
                VOLATILE_CODE,
                origin,
                f"{name} gives another value each time it is asked",
                _CLOCK_HINT if _timely(bound) else _STORED_HINT,
                clock=clock,
            )
        elif isinstance(bound, exp.Func) and function_name(bound) in ORDER_DEPENDENT:
            if origin.parent is not None and function_name(origin.parent) in SORTING:
                return
            self.environment.notice(
                origin,
                f"the value of {function_name(bound)} depends on the order of rows, which a "
                "refresh does not promise to keep",
                "use min, max, max_by, or sort the result",
            )

    def _names_column(self, node: exp.Expr) -> bool:
        """Whether CURRENT_DATE and the like, without parentheses, is a column to Spark."""
        if not isinstance(node, exp.CurrentDate | exp.CurrentTimestamp):
            return False
        name = node.sql(dialect="spark").split("(")[0].lower()
        with suppress(BindError):
            resolve(exp.column(name), self.scope, self.environment.text)
            return True
        return False

    def _column(self, node: exp.Column) -> exp.Expression:
        if isinstance(node.this, exp.Star):
            raise self._error(node, "* is not allowed here", "name the columns")
        found = resolve(node, self.scope, self.environment.text)
        return found if isinstance(found, exp.Column) else enclosed(found)

    def _field(self, node: exp.Dot) -> exp.Expression:
        bound = self._rebuilt(node)
        given = type_of(bound.this)
        if c.has_text_keys(given):
            return value_of_key(bound.this, given, node.expression.name)
        return self._typed(bound, node)

    def _rebuilt(self, node: exp.Expr) -> exp.Expression:
        """The same node over bound children."""
        result = duplicate(node) if not node.args else node.__class__()
        for key, value in node.args.items():
            if isinstance(value, list):
                result.set(key, [self._child(item) for item in value])
            else:
                result.set(key, self._child(value))
        result.meta.update(node.meta)
        assert isinstance(result, exp.Expression)
        return result

    def _child(self, value: object) -> object:
        if not isinstance(value, exp.Expr):
            return value
        if isinstance(value, _LEAVES):
            return duplicate(value)
        if isinstance(value, exp.If) and isinstance(value.parent, exp.Case):
            return self._rebuilt(value)
        if isinstance(value, exp.Tuple | exp.Order | exp.WindowSpec | exp.Where):
            return self._rebuilt(value)
        return self.bind(value)

    def _any(self, node: exp.Any) -> exp.Expression:
        """``any(x)`` that is no operand of a comparison is the aggregate of that name."""
        if isinstance(node.parent, exp.Predicate):
            return self._rebuilt(node)
        argument = node.this.this if isinstance(node.this, exp.Paren) else node.this
        return self.bind(exp.LogicalOr(this=duplicate(argument)))

    def _call(self, node: exp.Anonymous) -> exp.Expression:
        name = str(node.name).lower()
        if name not in BUILTINS:
            self._registered(node, name)
        if name == "struct":
            result = exp.Anonymous(this="named_struct", expressions=self._named_fields(node))
        else:
            result = exp.Anonymous(this=node.this, expressions=self._arguments(node, name))
        result.meta.update(node.meta)
        if name in WINDOW_ONLY and not _over(node):
            raise self._error(node, f"{name} needs an OVER clause", f"write {name}(…) OVER (…)")
        if name == "session_window" or (name == "window" and len(result.expressions) > 2):
            self.environment.block(
                "TIME_WINDOW",
                node,
                f"{name} gives a row to several windows",
                "use window(time, 'length') without a slide",
            )
            raise Unbuildable
        return self._typed(result, node)

    def _registered(self, node: exp.Anonymous, name: str) -> None:
        """A function that is not Spark's own may do anything unless Spark says otherwise."""
        known = self.environment.session.functions
        if known is not None and not known.get(name, False):
            self.environment.block(
                UNPROVEN_CODE,
                node,
                f"{name} is not known to give the same value for the same arguments",
                "register it as a deterministic function of one row, or use refresh mode FULL",
            )
            raise Unbuildable

    def _arguments(self, node: exp.Anonymous, name: str) -> list[exp.Expr]:
        arguments: list[exp.Expr] = []
        for position, argument in enumerate(node.expressions):
            if isinstance(argument, exp.Star) or _is_star(argument):
                arguments += [value for _, value in self.star(argument)]
            elif position == 0 and name in UNIT_FIRST and len(node.expressions) == 3:
                arguments.append(exp.Var(this=argument.name.upper()))
            else:
                bound = self._child(argument)
                assert isinstance(bound, exp.Expr)
                arguments.append(bound)
        return arguments

    def _named_fields(self, node: exp.Anonymous) -> list[exp.Expr]:
        """``struct(a, b)`` takes field names from its arguments, which lose their names in a plan."""
        arguments: list[exp.Expr] = []
        for position, argument in enumerate(node.expressions, start=1):
            if isinstance(argument, exp.Star) or _is_star(argument):
                for name, value in self.star(argument):
                    arguments += [exp.Literal.string(name), value]
                continue
            value, name = argument, f"col{position}"
            if isinstance(argument, exp.Alias):
                value, name = argument.this, argument.alias
            elif isinstance(argument, exp.Column | exp.Dot):
                name = argument.name
            arguments += [exp.Literal.string(name), self.bind(value)]
        return arguments

    def star(self, node: exp.Expr) -> list[tuple[str, exp.Expression]]:
        return star(node, self.scope, self.environment, self.bind)

    def _nested(self, node: exp.Expr) -> exp.Expression:
        kind, query, operands, operator = self._parts(node)
        rows = self.bind_query(query, self.environment.inside(self.scope))
        nested = NestedQuery(kind, rows.node, node, operands, operator)
        self._check_arity(nested)
        session = self.environment.session
        session.nested.append(nested)
        result = Nested(this=exp.Literal.number(len(session.nested) - 1))
        result.type = rows.node.columns[0].type if kind == "scalar" else c.BOOLEAN
        return result

    def _parts(
        self, node: exp.Expr
    ) -> tuple[str, exp.Expr, tuple[exp.Expression, ...], type[exp.Expression]]:
        if isinstance(node, exp.Exists):
            return "exists", _without_limit(node.this), (), exp.EQ
        if isinstance(node, exp.In):
            return "any", _in_query(node) or node, self._operands(node.this), exp.EQ
        if isinstance(node, exp.Subquery):
            return "scalar", node, (), exp.EQ
        left, right = node.this, node.expression
        operator = _MIRRORED.get(type(node))
        if isinstance(right, exp.Any | exp.All):
            operator = None if operator is None else _MIRRORED[operator]
        else:
            left, right = right, left
        if operator is None:
            raise self._error(node, "ANY and ALL need one of = <> < <= > >=", "use one of them")
        kind = "any" if isinstance(right, exp.Any) else "all"
        return kind, _unparenthesised(right.this), self._operands(left), operator

    def _operands(self, node: exp.Expr) -> tuple[exp.Expression, ...]:
        parts = node.expressions if isinstance(node, exp.Tuple) else [node]
        return tuple(self.bind(part) for part in parts)

    def _check_arity(self, nested: NestedQuery) -> None:
        plan: Node = nested.plan
        if nested.kind == "exists":
            return
        wanted = max(1, len(nested.operands))
        if len(plan.columns) != wanted:
            raise self._error(
                nested.origin,
                f"the subquery has {len(plan.columns)} columns, {wanted} needed",
                "select as many columns as are compared",
            )
        for operand, column in zip(nested.operands, plan.columns, strict=False):
            require_comparison(nested.origin, operand, ref(column), self.environment.text)

    def _error(self, node: exp.Expr, message: str, hint: str) -> Exception:
        return self.environment.text.error(node, message, hint)


def _without_limit(query: exp.Expr) -> exp.Expr:
    """EXISTS asks for one row: a LIMIT of at least one and an ORDER BY change nothing."""
    limit = query.args.get("limit")
    if not isinstance(limit, exp.Limit) or query.args.get("offset"):
        return query
    if not (isinstance(limit.expression, exp.Literal) and limit.expression.is_int):
        return query
    if int(limit.expression.name) < 1:
        return query
    result = duplicate(query)
    result.set("limit", None)
    result.set("order", None)
    return result


def _quantified(node: exp.Expr) -> bool:
    """A comparison with ANY or ALL of a subquery."""
    if not isinstance(node, COMPARISONS):
        return False
    return any(
        isinstance(side, exp.Any | exp.All) and isinstance(_unparenthesised(side.this), exp.Query)
        for side in (node.this, node.expression)
    )


def _in_query(node: exp.In) -> exp.Expr | None:
    query = node.args.get("query")
    if query is not None:
        return _unparenthesised(query)
    values = node.expressions
    if len(values) == 1 and isinstance(values[0], exp.Subquery | exp.Select):
        return _unparenthesised(values[0])
    return None


def _unparenthesised(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and isinstance(node.this, exp.Star)


def _over(node: exp.Expr) -> bool:
    parent = node.parent
    while isinstance(parent, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        parent = parent.parent
    return isinstance(parent, exp.Window)
