"""Queries: relations and their columns by scope, so that every expression has its type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from spark_trickle.sql.pg import types as t
from spark_trickle.sql.pg.expressions import Expressions
from spark_trickle.sql.pg.naming import output_name
from spark_trickle.sql.pg.parts import all_known
from spark_trickle.sql.pg.rules.casts import coerced
from spark_trickle.sql.pg.types import PgType, common, refusal, refuse
from spark_trickle.sql.pg.values import PgValue, call

PgColumns = Sequence[tuple[str, PgType]]
Lookup = Callable[[str, str], PgColumns | None]
"""By schema (empty if not named) and table: the columns, or None if the lake has no such table."""


@dataclass
class PgRelation:
    alias: str
    columns: PgColumns | None
    """None: nothing is known of it."""


@dataclass
class QueryScope:
    """The names in reach of one SELECT."""

    lookup: Lookup
    ctes: dict[str, PgColumns] = field(default_factory=dict)
    outer: QueryScope | None = None
    relations: list[PgRelation] = field(default_factory=list)
    outputs: dict[str, PgType] = field(default_factory=dict)
    aliases: frozenset[str] = frozenset()
    """Names in the SELECT list, which only ORDER BY and GROUP BY may use."""
    merged: list[str] = field(default_factory=list)
    """The columns of USING and NATURAL: ``*`` shows them once, and first."""

    def column(self, column: exp.Column) -> PgType:
        found = self._find(column.table.lower(), column.name.lower())
        if found is None and not column.table:
            found = self.outputs.get(column.name.lower())
            if found is None and column.name.lower() in self.aliases:
                refuse(f"column {column.name} does not exist: it is a name of this SELECT list")
        return t.OPAQUE if found is None else found

    def _find(self, table: str, name: str) -> PgType | None:
        for relation in self.relations:
            if table and relation.alias != table:
                continue
            for known, type in relation.columns or ():
                if known.lower() == name:
                    return type
        return None if self.outer is None else self.outer._find(table, name)

    def subquery(self, query: exp.Expr) -> list[PgType]:
        inner = query.this if isinstance(query, exp.Subquery) else query
        return [type for _, type in query_in(inner, self.lookup, self.ctes, self)]


def query_in(
    node: exp.Expr, lookup: Lookup, ctes: dict[str, PgColumns], outer: QueryScope | None = None
) -> PgColumns:
    """Translate a query in place; its columns."""
    ctes = dict(ctes)
    all_known(node)
    clause = node.args.get("with_")
    if clause is not None:
        all_known(clause)
    for cte in clause.expressions if clause is not None else ():
        all_known(cte)
        columns = query_in(cte.this, lookup, ctes, outer)
        ctes[cte.alias.lower()] = _renamed(columns, cte.args["alias"])
        cte.set("materialized", None)
    if isinstance(node, exp.Subquery):
        columns = query_in(node.this, lookup, ctes, outer)
        _tail(node, Expressions(QueryScope(lookup, ctes, outer, [], dict(columns))))
        return columns
    if isinstance(node, exp.SetOperation):
        return _set_operation(node, lookup, ctes, outer)
    if isinstance(node, exp.Values):
        return _values(node, QueryScope(lookup, ctes, outer))
    if isinstance(node, exp.Select):
        return _select(node, QueryScope(lookup, ctes, outer))
    raise refusal(f"{type(node).__name__} as a query")


def _renamed(columns: PgColumns, alias: exp.Expr | None) -> PgColumns:
    names = [c.name for c in (alias.args.get("columns") or [])] if alias is not None else []
    return [(names[i] if i < len(names) else name, type) for i, (name, type) in enumerate(columns)]


def _set_operation(
    node: exp.SetOperation, lookup: Lookup, ctes: dict[str, PgColumns], outer: QueryScope | None
) -> PgColumns:
    left = query_in(node.this, lookup, ctes, outer)
    right = query_in(node.expression, lookup, ctes, outer)
    if len(left) != len(right):
        refuse("queries of UNION, INTERSECT or EXCEPT with different numbers of columns")
    columns = [
        (name, common([one, other], "UNION"))
        for (name, one), (_, other) in zip(left, right, strict=True)
    ]
    for (_, one), (_, other) in zip(left, right, strict=True):
        if {one.kind, other.kind} & {"float8", "float4"} and one.kind != other.kind:
            refuse(f"UNION of {one} and {other}", "CAST one of them")
    _tail(node, Expressions(QueryScope(lookup, ctes, outer, [], dict(columns))))
    return columns


def _values(node: exp.Values, scope: QueryScope) -> PgColumns:
    expressions = Expressions(scope)
    rows = [
        [expressions.value(v) for v in (r.expressions if isinstance(r, exp.Tuple) else [r])]
        for r in node.expressions
    ]
    types = [common([row[i].type for row in rows], "VALUES") for i in range(len(rows[0]))]
    tuples = [
        exp.Tuple(expressions=[coerced(v, type).tree for v, type in zip(row, types, strict=True)])
        for row in rows
    ]
    node.set("expressions", tuples)
    return [(f"column{i + 1}", type) for i, type in enumerate(types)]


def _select(node: exp.Select, scope: QueryScope) -> PgColumns:
    clause = node.args.get("from_")
    if clause is not None:
        _relation(clause.this, scope)
    for join in node.args.get("joins") or []:
        _join(join, scope)
    expressions = Expressions(scope)
    scope.aliases = frozenset(item.alias.lower() for item in node.expressions if item.alias)
    if node.args.get("where") is not None:
        node.args["where"].set("this", expressions.condition(node.args["where"].this))
    items, columns = _outputs(node, scope, expressions)
    scope.aliases = frozenset()
    _group(node, expressions, items)
    if node.args.get("having") is not None:
        node.args["having"].set("this", expressions.condition(node.args["having"].this))
    distinct = node.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        keys = distinct.args["on"]
        keys.set("expressions", [expressions.plain(key) for key in keys.expressions])
    node.set("expressions", items)
    scope.outputs = {name.lower(): type for name, type in columns}
    _tail(node, expressions)
    return columns


def _outputs(
    node: exp.Select, scope: QueryScope, expressions: Expressions
) -> tuple[list[exp.Expr], PgColumns]:
    items: list[exp.Expr] = []
    columns: list[tuple[str, PgType]] = []
    for item in node.expressions:
        if item.is_star:
            items.append(item)
            columns += _starred(item, scope)
            continue
        value = _shown(expressions.value(item.unalias()))
        name = output_name(item)
        plain = isinstance(value.tree, exp.Column) and value.tree.name == name and not item.alias
        items.append(value.tree if plain else exp.alias_(value.tree, _identifier(item, name)))
        columns.append((name, value.type))
    return items, columns


def _identifier(item: exp.Expr, name: str) -> exp.Identifier:
    """An alias keeps its place in the text; names that PostgreSQL gives may be any words."""
    given = item.args.get("alias")
    if isinstance(given, exp.Identifier):
        return given.copy()
    return exp.to_identifier(name, quoted=True)


def _shown(value: PgValue) -> PgValue:
    """What a query gives its reader: a bare literal is a text; constants alone are no values."""
    if value.type == t.INTERVAL and isinstance(value.tree, exp.Null):
        refuse("an interval as a result")
    return coerced(value, t.TEXT) if value.type == t.UNKNOWN else value


def _starred(item: exp.Expr, scope: QueryScope) -> PgColumns:
    table = item.table.lower() if isinstance(item, exp.Column) else ""
    found: list[tuple[str, PgType]] = []
    if not table:
        once = [(name, scope._find("", name)) for name in scope.merged]
        found += [(name, type) for name, type in once if type is not None]
    for relation in scope.relations:
        if table and relation.alias != table:
            continue
        kept = relation.columns or ()
        found += [c for c in kept if table or c[0].lower() not in scope.merged]
    return found


def _group(node: exp.Select, expressions: Expressions, items: list[exp.Expr]) -> None:
    group = node.args.get("group")
    if group is None:
        return
    aliases = {item.alias.lower(): item.unalias() for item in items if item.alias}

    def key(tree: exp.Expr) -> exp.Expr:
        if isinstance(tree, exp.Literal) and not tree.is_string:
            return tree
        if isinstance(tree, exp.Column) and not tree.table and tree.name.lower() in aliases:
            known = expressions._scope.column(tree)
            return (
                expressions.plain(tree) if known != t.OPAQUE else aliases[tree.name.lower()].copy()
            )
        return expressions.plain(tree)

    group.set("expressions", [key(item) for item in group.expressions])
    for kind in ("rollup", "cube", "grouping_sets"):
        for part in group.args.get(kind) or []:
            part.set("expressions", [_grouping(item, key) for item in part.expressions])


def _grouping(item: exp.Expr, key: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    if isinstance(item, exp.Tuple):
        return exp.Tuple(expressions=[key(part) for part in item.expressions])
    if isinstance(item, exp.Paren):
        return exp.Paren(this=key(item.this))
    return key(item)


def _tail(node: exp.Expr, expressions: Expressions) -> None:
    """ORDER BY, LIMIT and OFFSET."""
    order = node.args.get("order")
    for item in order.expressions if order is not None else []:
        all_known(item)
        if not isinstance(item.this, exp.Literal):
            item.set("this", expressions.plain(item.this))
    limit = node.args.get("limit")
    if isinstance(limit, exp.Fetch):
        options = limit.args.get("limit_options")
        if options is not None and (options.args.get("with_ties") or options.args.get("percent")):
            refuse("FETCH … WITH TIES or PERCENT")
        node.set("limit", exp.Limit(expression=limit.args.get("count") or exp.Literal.number(1)))
    for clause in ("limit", "offset"):
        given = node.args.get(clause)
        if given is not None and isinstance(given.expression, exp.Column):
            if given.expression.name.lower() != "all":
                refuse(f"{clause.upper()} of a column")
            node.set(clause, None)


def _relation(node: exp.Expr, scope: QueryScope) -> None:
    alias = node.args.get("alias")
    if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
        columns = query_in(node.this, scope.lookup, scope.ctes, scope)
    elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
        if alias is not None or node.args.get("joins"):
            refuse("an alias of joined tables in brackets")
        return _relation(node.this, scope)
    elif isinstance(node, exp.Subquery):
        columns = query_in(node.this, scope.lookup, scope.ctes, scope.outer)
    elif isinstance(node, exp.Values):
        columns = _values(node, QueryScope(scope.lookup, scope.ctes, scope.outer))
    elif isinstance(node, exp.Paren | exp.Table) and node.args.get("joins"):
        return _joined(node, scope)
    elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        return _table(node, scope)
    else:
        return _generated(node, scope)
    name = alias.this.name.lower() if alias is not None and alias.this else ""
    scope.relations.append(PgRelation(name, _renamed(columns, alias)))
    if alias is not None and 0 < len(alias.args.get("columns") or []) < len(columns):
        refuse("an alias with fewer columns than there are")
    return None


def relation_in(node: exp.Expr, scope: QueryScope) -> None:
    """Translate what stands after FROM, with its joins; the scope then knows its columns."""
    _relation(node, scope)


def _joined(node: exp.Expr, scope: QueryScope) -> None:
    joins = node.args.get("joins") or []
    if isinstance(node, exp.Table):
        _table(node, scope)
    else:
        _relation(node.this, scope)
    for join in joins:
        _join(join, scope)


def _table(node: exp.Table, scope: QueryScope) -> None:
    all_known(node)
    schema = node.db.lower()
    if schema == "pg_catalog":
        node.set("db", None)
        schema = ""
    known = scope.ctes.get(node.name.lower()) if not schema else None
    columns = known if known is not None else scope.lookup(schema, node.name.lower())
    alias = node.args.get("alias")
    scope.relations.append(
        PgRelation(
            node.alias_or_name.lower(), None if columns is None else _renamed(columns, alias)
        )
    )


def _join(join: exp.Join, scope: QueryScope) -> None:
    all_known(join)
    before = {c.lower() for r in scope.relations for c, _ in r.columns or ()}
    _relation(join.this, scope)
    shared = [column.name.lower() for column in join.args.get("using") or []]
    if join.method == "NATURAL":
        shared = [c.lower() for c, _ in scope.relations[-1].columns or () if c.lower() in before]
    scope.merged += [name for name in shared if name not in scope.merged]
    condition = join.args.get("on")
    if condition is not None:
        join.set("on", Expressions(scope).condition(condition))


def _generated(node: exp.Expr, scope: QueryScope) -> None:
    """``generate_series`` and ``unnest`` in FROM."""
    inner = node.this if isinstance(node, exp.Lateral | exp.Table) else node
    alias = node.args.get("alias")
    expressions = Expressions(scope)
    if (
        isinstance(inner, exp.Unnest)
        and len(inner.expressions) == 1
        and not inner.args.get("offset")
    ):
        array = expressions.value(inner.expressions[0])
        kind = "unnest"
    elif isinstance(inner, exp.Anonymous) and str(inner.this).lower() in (
        "generate_series",
        "unnest",
    ):
        kind = str(inner.this).lower()
        values = [expressions.value(item) for item in inner.expressions]
        array = values[0] if kind == "unnest" else _series(values)
    else:
        refuse(f"{type(inner).__name__} in FROM")
    if node.args.get("ordinality") or array.type.element is None:
        refuse("WITH ORDINALITY, or no array")
    name = alias.this.copy() if alias is not None and alias.this else exp.to_identifier(kind)
    columns = [c.copy() for c in (alias.args.get("columns") or [])] if alias is not None else []
    table = exp.TableAlias(this=name, columns=columns or [name.copy()])
    explode = exp.Lateral(this=exp.Explode(this=array.tree), alias=table, view=False, outer=False)
    node.replace(explode)
    shown = (columns or [name])[0].name
    scope.relations.append(PgRelation(name.name.lower(), [(shown, array.type.element)]))


def _series(values: Sequence[PgValue]) -> PgValue:
    """Of whole numbers; from high to low it is empty, where Spark would count down."""
    type = common([value.type for value in values], "generate_series")
    if not type.is_int or len(values) not in (2, 3):
        refuse(f"generate_series of {type}")
    trees = [coerced(value, type).tree for value in values]
    step = values[2].constant if len(values) == 3 else 1
    if not isinstance(step, int) or step == 0:
        refuse("generate_series with a step that is not a constant")
    if len(values) == 2:
        trees.append(coerced(PgValue(exp.Literal.number(1), t.INT4), type).tree)
    empty = exp.GT(this=trees[0].copy(), expression=trees[1].copy())
    if step < 0:
        empty = exp.LT(this=trees[0].copy(), expression=trees[1].copy())  # type: ignore[assignment]
    nothing = call(
        "slice", call("array", trees[0].copy()), exp.Literal.number(1), exp.Literal.number(0)
    )
    tree = exp.Case(ifs=[exp.If(this=empty, true=nothing)], default=call("sequence", *trees))
    return PgValue(tree, PgType("array", element=type))
