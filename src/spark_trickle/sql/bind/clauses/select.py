"""SELECT: its clauses in the order in which they take effect."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from spark_trickle.ir.nodes import Distinct, Filter, Node, Order, Project, TopK
from spark_trickle.ir.scalars import enclosed, ref, whole_number
from spark_trickle.ir.trees import duplicate, holds
from spark_trickle.ir.types import Column
from spark_trickle.sql.bind.build import boolean, by_id, extended, project, typed
from spark_trickle.sql.bind.clauses.from_clause import FromClause
from spark_trickle.sql.bind.clauses.generators import generate
from spark_trickle.sql.bind.clauses.grouping import GroupBy, Grouping, contains_aggregate
from spark_trickle.sql.bind.clauses.grouping_sets import groups_of
from spark_trickle.sql.bind.clauses.limits import cut_of, cut_rows, only, total
from spark_trickle.sql.bind.clauses.windows import with_named_windows, with_windows
from spark_trickle.sql.bind.expressions import Binder, BindQuery
from spark_trickle.sql.bind.naming import output_name
from spark_trickle.sql.bind.scope import Scope
from spark_trickle.sql.bind.session import Environment, NamedPlan, Unbuildable
from spark_trickle.sql.bind.subqueries.conditions import restrict, with_values
from spark_trickle.sql.types.functions import is_generator
from spark_trickle.sql.types.infer import require_boolean

_REFUSED = {
    "into": "SELECT INTO",
    "connect": "CONNECT BY",
    "match": "MATCH_RECOGNIZE",
    "pivots": "PIVOT",
    "sample": "TABLESAMPLE",
    "kind": "SELECT AS STRUCT",
    "prewhere": "PREWHERE",
}
_DROPPED = {"sort": "SORT BY", "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY"}


@dataclass(frozen=True)
class Item:
    """One output: its name, its bound expression and where it was written."""

    names: tuple[str, ...]
    expression: exp.Expression
    origin: exp.Expr


@dataclass
class SelectBinder:
    """Binds one SELECT."""

    environment: Environment
    bind_query: BindQuery

    def bind(self, select: exp.Select) -> NamedPlan:
        """The plan of the SELECT and its output names."""
        self._refuse(select)
        select = with_named_windows(select, self.environment.text)
        side = FromClause(self.environment, self.bind_query).bind(select)
        self.scope = replace(side.scope, outer=self.environment.outer)
        self.node = side.node
        self._where(select)
        self.items = self._select_list(select, self._time_windows(select))
        self.order = self._order_keys(select)
        self.having = self._clause(select, "having", "HAVING")
        self.qualify = self._clause(select, "qualify", "QUALIFY")
        self._group(select)
        if self.having is not None:
            self.node = restrict(self.node, self.having, self.environment)
        self._values_and_windows()
        self._generate()
        return self._finish(select)

    def _refuse(self, select: exp.Select) -> None:
        for key, name in _REFUSED.items():
            if select.args.get(key):
                self.environment.block(
                    "UNSUPPORTED_CLAUSE",
                    select.args[key] if isinstance(select.args[key], exp.Expr) else select,
                    f"{name} is not maintained incrementally",
                    "write it with joins and aggregates",
                )
                raise Unbuildable
        for key, name in _DROPPED.items():
            if select.args.get(key):
                self.environment.notice(select.args[key], f"{name} is dropped", None)

    def _binder(self, scope: Scope | None = None) -> Binder:
        return Binder(self.environment, scope or self.scope, self.bind_query)

    def _where(self, select: exp.Select) -> None:
        where = select.args.get("where")
        if where is None:
            return
        bound = self._binder().bind(where.this)
        require_boolean(bound, self.environment.text, "WHERE")
        self._no_aggregates(bound, where.this, "WHERE", "use HAVING")
        self.node = restrict(self.node, bound, self.environment)

    def _no_aggregates(
        self, bound: exp.Expression, origin: exp.Expr, clause: str, hint: str
    ) -> None:
        if holds(bound, exp.Window):
            raise self.environment.text.error(
                origin, f"a window function in {clause}", hint="use QUALIFY, or a subquery in FROM"
            )
        if contains_aggregate(bound):
            raise self.environment.text.error(
                origin, f"an aggregate function in {clause}", hint=hint
            )

    def _time_windows(self, select: exp.Select) -> dict[str, exp.Expression]:
        """GROUP BY window(time, …) offers a column ``window``, and drops rows without a time."""
        group = select.args.get("group")
        found: dict[str, exp.Expression] = {}
        for node in group.expressions if group is not None else []:
            name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
            if name in ("window", "session_window"):
                found[name] = bound = self._binder().bind(node)
                missing = exp.Is(
                    this=enclosed(duplicate(bound.expressions[0])), expression=exp.null()
                )
                self.node = Filter(self.node, boolean(exp.Not(this=missing)))
        return found

    def _select_list(self, select: exp.Select, offered: dict[str, exp.Expression]) -> list[Item]:
        if not select.expressions:
            raise self.environment.text.error(select, "nothing is selected", hint="name a column")
        items: list[Item] = []
        aliases = dict(offered)
        for node in select.expressions:
            binder = self._binder(replace(self.scope, aliases=dict(aliases)))
            if isinstance(node, exp.Star) or _is_star(node):
                items += [Item((name,), value, node) for name, value in binder.star(node)]
                continue
            item = self._item(node, binder)
            items.append(item)
            if isinstance(node, exp.Alias) and not is_generator(item.expression):
                aliases.setdefault(node.alias.lower(), _as_column(item.expression))
        self.aliases = aliases
        return items

    def _item(self, node: exp.Expr, binder: Binder) -> Item:
        if isinstance(node, exp.Aliases):
            names = tuple(part.name for part in node.expressions)
            return Item(names, binder.bind(node.this), node)
        inner = node.this if isinstance(node, exp.Alias) else node
        bound = binder.bind(inner)
        if is_generator(bound):
            return Item((node.alias,) if isinstance(node, exp.Alias) else (), bound, node)
        if any(is_generator(part) for part in bound.walk()):
            raise self.environment.text.error(
                node, "a row-making function inside an expression", hint="use LATERAL VIEW"
            )
        return Item((output_name(node),), bound, node)

    def _clause(self, select: exp.Select, key: str, name: str) -> exp.Expression | None:
        clause = select.args.get(key)
        if clause is None:
            return None
        scope = replace(self.scope, aliases=self.aliases)
        bound = self._binder(scope).bind(clause.this)
        require_boolean(bound, self.environment.text, name)
        if key == "having" and holds(bound, exp.Window):
            raise self.environment.text.error(
                clause.this, "a window function in HAVING", hint="use QUALIFY"
            )
        return bound

    def _order_keys(self, select: exp.Select) -> list[tuple[exp.Expression, exp.Ordered]]:
        order = select.args.get("order")
        keys: list[tuple[exp.Expression, exp.Ordered]] = []
        for node in order.expressions if order is not None else []:
            if isinstance(node.this, exp.Var) and node.this.name.upper() == "ALL":
                keys += [(item.expression, node) for item in self.items]
            else:
                keys.append((self._output_or_input(node.this, "ORDER BY"), node))
        return keys

    def _output_or_input(self, node: exp.Expr, clause: str) -> exp.Expression:
        """An ordinal, an output's name, or an expression over FROM."""
        ordinal = self._ordinal(node, clause)
        if ordinal is not None:
            return ordinal
        if isinstance(node, exp.Column) and len(node.parts) == 1 and clause == "ORDER BY":
            named = [i for i in self.items if [n.lower() for n in i.names] == [node.name.lower()]]
            if named:
                return named[0].expression
        scope = replace(self.scope, aliases=self.aliases)
        return self._binder(scope).bind(node)

    def _ordinal(self, node: exp.Expr, clause: str) -> exp.Expression | None:
        if not (isinstance(node, exp.Literal) and node.is_int):
            return None
        position = int(node.name)
        if not 1 <= position <= len(self.items):
            raise self.environment.text.error(
                node,
                f"{clause} {position}: there are {len(self.items)} columns in the select list",
                hint="count from 1",
            )
        return self.items[position - 1].expression

    def _group(self, select: exp.Select) -> None:
        group = select.args.get("group")
        used = [item.expression for item in self.items]
        used += [part for part in (self.having, self.qualify) if part is not None]
        used += [key for key, _ in self.order]
        if group is None and self.having is None and not any(map(contains_aggregate, used)):
            return
        grouping = Grouping(self.node, self._groups(group), self.environment)
        grouping.prepare(used)
        self.items = [replace(i, expression=grouping.over_groups(i.expression)) for i in self.items]
        self.order = [(grouping.over_groups(key), node) for key, node in self.order]
        if self.having is not None:
            grouping.aliases = self.aliases
            self.having = grouping.over_groups(self.having)
            grouping.aliases = {}
        if self.qualify is not None:
            self.qualify = grouping.over_groups(self.qualify)
        self.node = grouping.node()

    def _groups(self, group: exp.Expr | None) -> GroupBy:
        if group is None:
            return GroupBy(())
        if group.args.get("all"):
            plain = [i.expression for i in self.items if not contains_aggregate(i.expression)]
            return GroupBy(tuple(dict.fromkeys(plain)))
        return groups_of(group, self._group_key)

    def _group_key(self, node: exp.Expr) -> exp.Expression:
        bound = self._output_or_input(node, "GROUP BY")
        self._no_aggregates(bound, node, "GROUP BY", "group by what goes into it")
        return bound

    def _values_and_windows(self) -> None:
        """Subqueries and window calls in what is left become columns of the plan."""
        parts = [item.expression for item in self.items] + [key for key, _ in self.order]
        if self.qualify is not None:
            parts.append(self.qualify)
        self.node, parts = with_values(self.node, parts, self.environment)
        self.node, parts = with_windows(self.node, parts, self.environment)
        count = len(self.items)
        self.items = [
            replace(item, expression=part)
            for item, part in zip(self.items, parts[:count], strict=True)
        ]
        keys = parts[count : count + len(self.order)]
        self.order = [(key, node) for key, (_, node) in zip(keys, self.order, strict=True)]
        if self.qualify is not None:
            self.node = Filter(self.node, parts[-1])

    def _generate(self) -> None:
        generators = [item for item in self.items if is_generator(item.expression)]
        if len(generators) > 1:
            raise self.environment.text.error(
                generators[1].origin, "two row-making functions", hint="use LATERAL VIEW for one"
            )
        items: list[Item] = []
        for item in self.items:
            if item not in generators:
                items.append(item)
                continue
            names = list(item.names)
            self.node, columns = generate(
                self.node, item.expression, names, False, self.environment
            )
            items += [Item((column.name,), ref(column), item.origin) for column in columns]
        self.items = items

    def _finish(self, select: exp.Select) -> NamedPlan:
        names = tuple(item.names[0] for item in self.items)
        outputs = [(item.names[0], item.expression) for item in self.items]
        distinct = select.args.get("distinct")
        on = distinct.args.get("on") if distinct is not None else None
        plain = project(self.node, outputs, self.environment.ids)
        node, keys = self._with_order_columns(plain, distinct is not None and on is None)
        if on is not None:
            node = self._distinct_on(node, keys, on, plain.columns)
        cut = cut_of(select, self.environment)
        ordered = select.args.get("order")
        limited = cut_rows(node, keys, cut, plain.columns, self.environment, ordered)
        if cut.limit == 0:
            return NamedPlan(limited, names)
        return NamedPlan(only(limited, plain.columns), names)

    def _with_order_columns(self, plain: Project, distinct: bool) -> tuple[Node, list[Order]]:
        """The outputs, and beside them the sort keys that are none of the outputs."""
        by_expression = {expression: column for column, expression in plain.outputs}
        hidden: list[tuple[Column, exp.Expression]] = []
        keys: list[Order] = []
        for expression, node in self.order:
            column = by_expression.get(expression)
            if column is None:
                if distinct:
                    raise self.environment.text.error(
                        node,
                        "ORDER BY of a SELECT DISTINCT needs a selected column",
                        hint="select it, or leave DISTINCT out",
                    )
                _, (column,) = extended(self.node, [("order", expression)], self.environment.ids)
                by_expression[expression] = column
                hidden.append((column, expression))
            keys.append(_order(column, node))
        node_out: Node = plain
        if hidden:
            node_out = Project(plain.input, plain.outputs + tuple(hidden))
        return (Distinct(node_out) if distinct else node_out), keys

    def _distinct_on(
        self, node: Node, keys: list[Order], on: exp.Expr, outputs: tuple[Column, ...]
    ) -> Node:
        """The first row of each group in the query's order; ties by the remaining columns."""
        parts = on.expressions if isinstance(on, exp.Tuple) else [on]
        bound = [self._output_or_input(_inside(part), "ORDER BY") for part in parts]
        assert isinstance(node, Project)
        by_expression = {expression: column for column, expression in node.outputs}
        hidden = []
        partition: list[Column] = []
        for expression in bound:
            column = by_expression.get(expression)
            if column is None:
                _, (column,) = extended(node.input, [("on", expression)], self.environment.ids)
                hidden.append((column, expression))
            partition.append(column)
        below = Project(node.input, (*node.outputs, *hidden)) if hidden else node
        unique = tuple(by_id(partition).values())
        return TopK(below, total(keys, outputs), 1, 0, unique)


def _order(column: Column, node: exp.Ordered) -> Order:
    descending = bool(node.args.get("desc"))
    nulls_first = node.args.get("nulls_first")
    return Order(column, descending, (not descending) if nulls_first is None else bool(nulls_first))


def _as_column(output: exp.Expression) -> exp.Expression:
    """What an alias stands for: beside a decimal, a number has the digits that are written, and a
    column those of its type."""
    if output.type is None or whole_number(output) is None:
        return output
    return typed(exp.cast(output, output.type), output.type)


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and isinstance(node.this, exp.Star)


def _inside(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Paren) else node
