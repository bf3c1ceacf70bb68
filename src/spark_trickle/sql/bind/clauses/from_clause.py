"""FROM: tables, subqueries, VALUES, table functions and joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from spark_trickle.errors import names_hint
from spark_trickle.ir.nodes import Scan, Values
from spark_trickle.ir.types import Column, TableSchema
from spark_trickle.ir.walk import fresh_copy
from spark_trickle.sql.bind.build import constant_row
from spark_trickle.sql.bind.clauses.generators import generate
from spark_trickle.sql.bind.clauses.joins import Side, join, lateral_join
from spark_trickle.sql.bind.expressions import Binder, BindQuery
from spark_trickle.sql.bind.scope import Field, Scope, of_relation
from spark_trickle.sql.bind.session import Environment, NamedPlan, Unbuildable
from spark_trickle.sql.bind.view import bind_view
from spark_trickle.sql.types.coercion import BIGINT, UNKNOWN, canonical, common
from spark_trickle.sql.types.functions import is_generator
from spark_trickle.sql.types.infer import type_of

_TABLE_OPTIONS = {
    "sample": ("TABLESAMPLE", "TABLESAMPLE picks other rows each time"),
    "version": ("TIME_TRAVEL", "a table at a fixed version never changes"),
    "when": ("TIME_TRAVEL", "a table at a fixed time never changes"),
    "pivots": ("PIVOT", "PIVOT and UNPIVOT are not maintained incrementally"),
    "changes": ("TABLE_OPTION", "CHANGES is not maintained incrementally"),
}
_HINTS = {
    "TABLESAMPLE": "filter by a hash of a key: WHERE pmod(hash(id), 10) = 0",
    "TIME_TRAVEL": "copy that version into a table of its own",
    "PIVOT": "write one aggregate with FILTER (WHERE …) per column",
    "TABLE_OPTION": "read the table itself",
}


@dataclass(frozen=True)
class FromClause:
    """Binds the relations of one SELECT, left to right."""

    environment: Environment
    bind_query: BindQuery

    def bind(self, select: exp.Expr) -> Side:
        """Everything in FROM with its joins and lateral views."""
        start = select.args.get("from_")
        if start is None:
            return Side(constant_row(), Scope(outer=self.environment.outer))
        side = self._relation(start.this)
        side = self._joins(side, [*_inner_joins(start.this), *(select.args.get("joins") or [])])
        for lateral in [*_inner_laterals(start.this), *(select.args.get("laterals") or [])]:
            side = self._lateral_view(side, lateral)
        return side

    def _joins(self, side: Side, joins: Sequence[exp.Expr]) -> Side:
        for clause in joins:
            assert isinstance(clause, exp.Join)
            target = clause.this
            if isinstance(target, exp.Lateral):
                side = self._lateral(side, clause, target)
                continue
            right = self._relation(target)
            right = self._joins(right, _inner_joins(target))
            side = join(side, right, clause, self._binder)
        return side

    def _binder(self, scope: Scope) -> Binder:
        return Binder(self.environment, scope, self.bind_query)

    def _relation(self, node: exp.Expr) -> Side:
        self._refuse_options(node)
        if isinstance(node, exp.Table):
            if isinstance(node.this, exp.Func):
                return self._table_function(node, node.this)
            return self._named(node, self._table(node))
        if isinstance(node, exp.Subquery):
            return self._subquery(node)
        if isinstance(node, exp.Values):
            return self._named(node, self._values(node))
        if isinstance(node, exp.Query):
            return self._named(node, self.bind_query(node, self._inner()))
        if isinstance(node, exp.Lateral):
            empty = Side(constant_row(), Scope(outer=self.environment.outer))
            return self._lateral(empty, exp.Join(this=node, kind="CROSS"), node)
        raise self._unsupported(node, "UNSUPPORTED_RELATION", "this relation in FROM")

    def _inner(self) -> Environment:
        return self.environment.inside(self.environment.outer)

    def _refuse_options(self, node: exp.Expr) -> None:
        for option, (code, message) in _TABLE_OPTIONS.items():
            if node.args.get(option):
                self.environment.block(code, node, message, _HINTS[code])
                raise Unbuildable

    def _subquery(self, node: exp.Subquery) -> Side:
        inner = node.this
        if isinstance(inner, exp.Table):
            side = self._joins(self._relation(inner), _inner_joins(inner))
            if not node.args.get("alias"):
                return side
            rows = NamedPlan(side.node, tuple(f.name for f in side.scope.visible))
            return self._named(node, rows)
        return self._named(node, self.bind_query(inner, self._inner()))

    def _table(self, node: exp.Table) -> NamedPlan:
        parts = tuple(part.name for part in node.parts)
        environment = self.environment
        if len(parts) == 1 and parts[0].lower() in environment.ctes:
            rows = environment.ctes[parts[0].lower()]
            return NamedPlan(fresh_copy(rows.node, environment.ids), rows.names)
        name = ".".join(parts)
        source = _lookup(name, environment.session.sources)
        if source is not None:
            return self._scan(environment.session.sources[source])
        view = _lookup(name, environment.session.views)
        if view is not None:
            return bind_view(view, node, environment, self.bind_query)
        session = environment.session
        known = {*session.views, *environment.ctes}
        if session.hint is None:
            hint = names_hint(name, known | session.sources.keys())
        else:
            hint = session.hint(name, known)
        raise environment.text.error(node, f"unknown table {name}", hint=hint)

    def _scan(self, source: TableSchema) -> NamedPlan:
        columns = tuple(
            self.environment.ids.column(column.name, canonical(column.type), column.nullable)
            for column in source.columns
        )
        return NamedPlan(Scan(source.name, columns), tuple(column.name for column in columns))

    def _values(self, node: exp.Values) -> NamedPlan:
        binder = self._binder(Scope(outer=self.environment.outer))
        rows = tuple(tuple(binder.bind(value) for value in _row(item)) for item in node.expressions)
        if not rows or not rows[0]:
            raise self.environment.text.error(node, "VALUES without values", hint="list a row")
        columns: list[Column] = []
        for position in range(len(rows[0])):
            columns.append(self._values_column(node, rows, position))
        return NamedPlan(Values(tuple(columns), rows), tuple(column.name for column in columns))

    def _values_column(
        self, node: exp.Values, rows: tuple[tuple[exp.Expression, ...], ...], position: int
    ) -> Column:
        type: exp.DataType | None = None
        for row in rows:
            if len(row) != len(rows[0]):
                raise self.environment.text.error(
                    node, "the rows of VALUES have different lengths", hint="make them equal"
                )
            given = type_of(row[position])
            type = given if type is None else common(type, given)
            if type is None:
                raise self.environment.text.error(
                    node,
                    f"column {position + 1} of VALUES has no common type",
                    hint="cast the values to one type",
                )
        nullable = any(not isinstance(row[position], exp.Literal) for row in rows)
        return self.environment.ids.column(f"col{position + 1}", type or UNKNOWN, nullable)

    def _table_function(self, node: exp.Table, call: exp.Func) -> Side:
        if call.name.lower() == "range":
            return self._range(node, call)
        if is_generator(call):
            empty = Side(constant_row(), Scope(outer=self.environment.outer))
            return self._generated(empty, call, node.args.get("alias"), outer=False)
        raise self._unsupported(node, "TABLE_FUNCTION", f"the table function {call.name}")

    def _range(self, node: exp.Table, call: exp.Func) -> Side:
        bounds = [str(value) for value in call.expressions]
        try:
            numbers = range(*map(int, bounds[:3]))
        except (ValueError, TypeError):
            raise self._unsupported(node, "TABLE_FUNCTION", "range with these arguments") from None
        if len(numbers) > 100_000:
            raise self._unsupported(node, "TABLE_FUNCTION", "range of more than 100000 rows")
        column = self.environment.ids.column("id", BIGINT, nullable=False)
        rows = tuple((exp.cast(exp.Literal.number(n), BIGINT),) for n in numbers)
        return self._named(node, NamedPlan(Values((column,), rows), ("id",)))

    def _lateral(self, left: Side, clause: exp.Join, node: exp.Lateral) -> Side:
        alias = node.args.get("alias")
        outer = clause.side == "LEFT"
        if is_generator(node.this):
            if clause.args.get("on") is not None and not _is_true(clause.args["on"]):
                raise self._unsupported(
                    node, "LATERAL_CONDITION", "a lateral join with a condition"
                )
            return self._generated(left, node.this, alias, outer=outer)
        scope = replace(left.scope, outer=self.environment.outer)
        rows = self.bind_query(node.this, self.environment.inside(scope))
        right = self._named(node, rows)
        return lateral_join(left, right, clause, self._binder, node)

    def _lateral_view(self, side: Side, node: exp.Expr) -> Side:
        outer = bool(node.args.get("outer"))
        return self._generated(side, node.this, node.args.get("alias"), outer=outer)

    def _generated(
        self, side: Side, call: exp.Expr, alias: exp.Expr | None, *, outer: bool
    ) -> Side:
        names = [column.name for column in alias.args.get("columns") or []] if alias else []
        binder = self._binder(replace(side.scope, outer=self.environment.outer))
        node, columns = generate(side.node, binder.bind(call), names, outer, self.environment)
        label = alias.name if alias is not None and alias.this else "lateral"
        fields = tuple(Field(column.name, column) for column in columns)
        scope = side.scope.joined(of_relation((label,), fields, None))
        return Side(node, scope)

    def _named(self, node: exp.Expr, rows: NamedPlan) -> Side:
        """A relation under its alias, with its columns renamed if the alias lists names."""
        alias = node.args.get("alias")
        listed = [column.name for column in (alias.args.get("columns") or [])] if alias else []
        if listed and len(listed) != len(rows.names):
            raise self.environment.text.error(
                alias,
                f"{len(listed)} names for {len(rows.names)} columns",
                hint="give each column one name",
            )
        names = tuple(listed) or rows.names
        fields = tuple(map(Field, names, rows.node.columns))
        return Side(rows.node, of_relation(_label(node, alias), fields, self.environment.outer))

    def _unsupported(self, node: exp.Expr, code: str, what: str) -> Exception:
        self.environment.block(
            code,
            node,
            f"{what} is not maintained incrementally",
            "use refresh mode FULL, or a table in its place",
        )
        return Unbuildable()


def _label(node: exp.Expr, alias: exp.Expr | None) -> tuple[str, ...]:
    if alias is not None and isinstance(alias.this, exp.Identifier):
        return (alias.this.name,)
    if isinstance(node, exp.Table) and not isinstance(node.this, exp.Func):
        return tuple(part.name for part in node.parts)
    return ("",)


def _row(item: exp.Expr) -> list[exp.Expr]:
    if isinstance(item, exp.Tuple):
        # VALUES 1, 2 AS t(x): the parser gives the alias of the table to the last value.
        return [v.this if isinstance(v, exp.Alias) else v for v in item.expressions]
    return [item.this if isinstance(item, exp.Paren) else item]


def _inner_joins(node: exp.Expr) -> list[exp.Expr]:
    return list(node.args.get("joins") or [])


def _inner_laterals(node: exp.Expr) -> list[exp.Expr]:
    return list(node.args.get("laterals") or [])


def _is_true(node: exp.Expr) -> bool:
    return isinstance(node, exp.Boolean) and bool(node.this)


def _lookup(name: str, known: Mapping[str, object]) -> str | None:
    """The key under which a name is known, whatever its case."""
    return next((key for key in known if key.lower() == name.lower()), None)
