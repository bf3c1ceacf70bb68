"""INSERT, UPDATE, DELETE of PostgreSQL as statements of ours: values are cast as an assignment does."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal

from sqlglot import exp

from spark_trickle.sql.pg import types as t
from spark_trickle.sql.pg.expressions import Expressions
from spark_trickle.sql.pg.queries import (
    Lookup,
    PgColumns,
    PgRelation,
    QueryScope,
    query_in,
    relation_in,
)
from spark_trickle.sql.pg.rules.casts import converted
from spark_trickle.sql.pg.types import PgType, refuse
from spark_trickle.sql.pg.values import PgValue, number

MATCHED = "source__"


def columns_of(table: exp.Table, lookup: Lookup) -> PgColumns:
    schema = table.db.lower()
    columns = lookup("" if schema == "pg_catalog" else schema, table.name.lower())
    if columns is None:
        refuse(f"there is no table {table.name}")
    return columns


def plain_table(table: exp.Table) -> exp.Table:
    """The table's name without alias."""
    schema = table.args.get("db") if table.db.lower() != "pg_catalog" else None
    return exp.Table(this=table.this.copy(), db=None if schema is None else schema.copy())


def assigned(value: PgValue, type: PgType) -> exp.Expr:
    """A value as a column of this type stores it; plain literals stay plain."""
    if value.type == t.UNKNOWN and value.constant is None:
        return exp.Null()
    whole = isinstance(value.constant, int) and value.type.is_int
    if type.is_int and whole:
        return number(int(str(value.constant)))
    if type.kind == "numeric" and value.type.is_exact and value.constant is not None:
        return _decimal(Decimal(str(value.constant)), type)
    if type.kind in ("text", "uuid") and value.type == t.UNKNOWN:
        return converted(value, type).tree
    if value.type.kind in ("float8", "float4") and type.kind == "numeric":
        refuse(f"{value.type} into a column of type {type}", "cast it")
    if type.kind == "text" and value.type not in (t.TEXT, t.UNKNOWN, t.UUID):
        return converted(value, t.TEXT).tree
    return converted(value, type).tree


def _decimal(value: Decimal, type: PgType) -> exp.Expr:
    places = Decimal(1).scaleb(-type.scale)
    if type.free and value != value.quantize(places):
        refuse(
            f"{value}: a numeric column without a scale keeps {type.scale} digits after the point"
        )
    rounded = value.quantize(places, ROUND_HALF_UP)
    if rounded and rounded.adjusted() + 1 > type.precision - type.scale:
        refuse(f"{value} is out of range for type {type}")
    literal = exp.Literal.number(f"{abs(rounded):f}")
    return exp.Neg(this=literal) if rounded < 0 else literal


def insert(tree: exp.Insert, lookup: Lookup) -> exp.Insert:
    """INSERT INTO t (all columns that are given) VALUES or SELECT."""
    for clause in ("conflict", "returning", "with_"):
        assert not tree.args.get(clause), "done by the caller"
    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    columns = columns_of(target, lookup)
    named = (
        [c.name.lower() for c in tree.this.expressions]
        if isinstance(tree.this, exp.Schema)
        else None
    )
    by_name = {name.lower(): (name, type) for name, type in columns}
    source = tree.expression
    if tree.args.get("default") or source is None:
        refuse("INSERT … DEFAULT VALUES", "VALUES (DEFAULT, …)")
    width = _width(source, lookup)
    if named is None:
        named = [name.lower() for name, _ in columns][: width or len(columns)]
    chosen = []
    for name in named:
        if name not in by_name:
            refuse(f"{target.name} has no column {name}")
        chosen.append(by_name[name])
    place = exp.Schema(
        this=plain_table(target),
        expressions=[exp.to_identifier(name, quoted=True) for name, _ in chosen],
    )
    types = [type for _, type in chosen]
    return exp.Insert(this=place, expression=_source(source, types, lookup))


def _width(source: exp.Expr, lookup: Lookup) -> int | None:
    """How many columns are given: PostgreSQL fills the first ones where fewer are."""
    if isinstance(source, exp.Values):
        first = source.expressions[0]
        return len(first.expressions) if isinstance(first, exp.Tuple) else 1
    return len(query_in(exp.Paren(this=source.copy()).this, lookup, {}))


def _source(source: exp.Expr, types: Sequence[PgType], lookup: Lookup) -> exp.Expr:
    if isinstance(source, exp.Values):
        expressions = Expressions(QueryScope(lookup))
        rows = [_row(row, types, expressions) for row in source.expressions]
        return exp.Values(expressions=rows)
    holder = exp.Paren(this=source.copy())
    columns = query_in(holder.this, lookup, {})
    if len(columns) != len(types):
        refuse(f"INSERT of {len(columns)} columns into {len(types)}")
    return cast_columns(holder.this, columns, types)


def cast_columns(query: exp.Expr, columns: PgColumns, types: Sequence[PgType]) -> exp.Expr:
    """A translated query whose columns are cast to these types."""
    if all(
        own == type and own.kind != "numeric" for (_, own), type in zip(columns, types, strict=True)
    ):
        return query
    names = [f"c{i}__" for i in range(len(columns))]
    alias = exp.TableAlias(
        this=exp.to_identifier("q__"), columns=[exp.to_identifier(name) for name in names]
    )
    items = [
        exp.alias_(assigned(PgValue(exp.column(name, "q__"), own), type), name)
        for name, (_, own), type in zip(names, columns, types, strict=True)
    ]
    return exp.select(*items).from_(exp.Subquery(this=query, alias=alias))


def _row(row: exp.Expr, types: Sequence[PgType], expressions: Expressions) -> exp.Tuple:
    items = row.expressions if isinstance(row, exp.Tuple) else [row]
    if len(items) != len(types):
        refuse(f"INSERT of {len(items)} values into {len(types)} columns")
    trees: list[exp.Expr] = []
    for item, type in zip(items, types, strict=True):
        if (
            isinstance(item, exp.Column)
            and item.name.upper() == "DEFAULT"
            and not item.table
            or isinstance(item, exp.Var)
        ):
            trees.append(exp.var("DEFAULT"))
        else:
            trees.append(assigned(expressions.value(item), type))
    return exp.Tuple(expressions=trees)


def target_scope(table: exp.Table, lookup: Lookup) -> tuple[QueryScope, str, PgColumns]:
    """The scope of UPDATE and DELETE: the target under its alias."""
    columns = columns_of(table, lookup)
    alias = table.alias_or_name.lower()
    return QueryScope(lookup, relations=[PgRelation(alias, columns)]), alias, columns


def assignments(
    tree: exp.Expr, columns: PgColumns, expressions: Expressions
) -> list[tuple[str, exp.Expr]]:
    """SET: column and value."""
    by_name = {name.lower(): (name, type) for name, type in columns}
    found = []
    pairs: list[tuple[exp.Expr, exp.Expr]] = []
    for item in tree.expressions:
        if isinstance(item.this, exp.Tuple):
            values = item.expression
            if not isinstance(values, exp.Tuple):
                refuse("SET (…) = (SELECT …)")
            pairs += zip(item.this.expressions, values.expressions, strict=True)
        else:
            pairs.append((item.this, item.expression))
    for column, value in pairs:
        known = by_name.get(column.name.lower())
        if known is None:
            refuse(f"there is no column {column.name}")
        default = isinstance(value, exp.Column) and value.name.upper() == "DEFAULT"
        tree_ = exp.var("DEFAULT") if default else assigned(expressions.value(value), known[1])
        found.append((known[0], tree_))
    return found


def update(tree: exp.Update, lookup: Lookup) -> exp.Expr:
    """UPDATE, or MERGE where it has FROM: a row that is met twice is an error there."""
    target = tree.this
    scope, alias, columns = target_scope(target, lookup)
    source = tree.args.get("from_")
    if source is not None:
        return _merged(tree, scope, alias, columns)
    expressions = Expressions(scope)
    place = plain_table(target)
    if target.alias:
        place.set("alias", exp.TableAlias(this=exp.to_identifier(target.alias)))
    items: list[exp.Expr] = [
        exp.EQ(this=exp.column(name, quoted=True), expression=value)
        for name, value in assignments(tree, columns, expressions)
    ]
    where = tree.args.get("where")
    condition = None if where is None else exp.Where(this=expressions.condition(where.this))
    return exp.Update(this=place, expressions=items, where=condition)


def _merged(tree: exp.Update, scope: QueryScope, alias: str, columns: PgColumns) -> exp.Expr:
    """All relations of FROM as one source, its columns under names of their own."""
    clause = tree.args["from_"].copy()
    inner = QueryScope(scope.lookup)
    relation_in(clause.this, inner)
    items = []
    for relation in inner.relations:
        if relation.columns is None:
            refuse(f"UPDATE … FROM {relation.alias}, whose columns are not known")
        for name, _ in relation.columns:
            column = exp.column(name, relation.alias, quoted=True)
            items.append(exp.alias_(column, _beside(relation.alias, name), quoted=True))
    for relation in inner.relations:
        scope.relations.append(relation)
    expressions = Expressions(scope)
    where = tree.args.get("where")
    condition = expressions.condition(where.this) if where is not None else exp.true()
    moved = _Moved(scope, alias)
    changes = [
        exp.EQ(this=exp.column(name, quoted=True), expression=moved(value))
        for name, value in assignments(tree, columns, expressions)
    ]
    then = exp.Update(expressions=changes)
    place = plain_table(tree.this)
    place.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    query = exp.select(*items).from_(clause.this)
    using = exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(MATCHED)))
    when = exp.When(matched=True, then=then)
    return exp.Merge(
        this=place, using=using, on=moved(condition), whens=exp.Whens(expressions=[when])
    )


def _beside(alias: str, name: str) -> str:
    return f"{alias}__{name}".lower()


class _Moved:
    """Columns of the relations of FROM, looked up in the one source of MERGE."""

    def __init__(self, scope: QueryScope, target: str) -> None:
        self._relations = [r for r in scope.relations if r.alias != target]
        self._own = next(r for r in scope.relations if r.alias == target)

    def __call__(self, tree: exp.Expr) -> exp.Expr:
        if tree.find(exp.Select) is not None:
            refuse("UPDATE … FROM with a subquery in SET or WHERE")
        return tree.transform(self._column)

    def _column(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        name = node.name.lower()
        for relation in self._relations:
            known = any(column.lower() == name for column, _ in relation.columns or ())
            if known and node.table.lower() in ("", relation.alias):
                if not node.table and any(c.lower() == name for c, _ in self._own.columns or ()):
                    refuse(f"column {name} is ambiguous")
                return exp.column(_beside(relation.alias, name), MATCHED, quoted=True)
        return exp.column(node.name, self._own.alias, quoted=True)


def delete(tree: exp.Delete, lookup: Lookup) -> exp.Expr:
    """DELETE; USING becomes EXISTS."""
    target = tree.this
    scope, alias, _ = target_scope(target, lookup)
    where = tree.args.get("where")
    place = plain_table(target)
    if target.alias or tree.args.get("using"):
        place.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    using = tree.args.get("using") or []
    if not using:
        condition = None if where is None else Expressions(scope).condition(where.this)
        return exp.Delete(
            this=place, where=None if condition is None else exp.Where(this=condition)
        )
    query = exp.select("1").from_(using[0].copy())
    for further in using[1:]:
        query = query.join(further.copy(), join_type="cross")
    if where is not None:
        query = query.where(where.this.copy())
    inner = exp.Paren(this=query)
    query_in(inner.this, lookup, {}, scope)
    return exp.Delete(this=place, where=exp.Where(this=exp.Exists(this=inner.this)))
