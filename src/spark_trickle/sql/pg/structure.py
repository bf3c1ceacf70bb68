"""CREATE TABLE, ALTER TABLE, DROP and TRUNCATE of PostgreSQL as statements of ours."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from spark_trickle.sql.pg.changes import assigned, plain_table
from spark_trickle.sql.pg.expressions import Expressions
from spark_trickle.sql.pg.parts import without_counterpart
from spark_trickle.sql.pg.queries import Lookup, QueryScope, query_in
from spark_trickle.sql.pg.types import from_postgres, length_of, refusal, refuse, spark_type

_SERIAL = (exp.DType.SERIAL, exp.DType.BIGSERIAL, exp.DType.SMALLSERIAL)


def drop(tree: exp.Drop) -> Iterator[exp.Expr]:
    """One statement for each."""
    kind, exists = tree.args["kind"], tree.args.get("exists")
    if kind not in ("TABLE", "SCHEMA"):
        refuse(f"DROP {kind}")
    for item in tree.args.get("tables") or [tree.this]:
        place = plain_table(item) if kind == "TABLE" else item.copy()
        cascade = tree.args.get("cascade") if kind == "SCHEMA" else None
        yield exp.Drop(tables=[place], kind=kind, exists=exists, cascade=cascade)


def create(tree: exp.Create, lookup: Lookup) -> exp.Expr:
    if tree.kind == "SCHEMA":
        return exp.Create(this=tree.this.copy(), kind="SCHEMA", exists=tree.args.get("exists"))
    if tree.kind != "TABLE":
        raise without_counterpart(tree)
    if tree.expression is not None:
        return _create_as(tree, lookup)
    if not isinstance(tree.this, exp.Schema):
        refuse("CREATE TABLE without columns")
    if tree.args.get("properties"):
        refuse("CREATE TABLE with options", "leave TEMPORARY, UNLOGGED, WITH (…) and the like out")
    items: list[exp.Expr] = []
    keys: list[str] = []
    for item in tree.this.expressions:
        if isinstance(item, exp.ColumnDef):
            items.append(_column(item, lookup, keys))
        else:
            keys += _key(item)
    if keys:
        items.append(exp.PrimaryKey(expressions=[exp.to_identifier(k, quoted=True) for k in keys]))
    return exp.Create(
        this=exp.Schema(this=plain_table(tree.this.this), expressions=items),
        kind="TABLE",
        exists=tree.args.get("exists"),
    )


def _create_as(tree: exp.Create, lookup: Lookup) -> exp.Expr:
    if isinstance(tree.this, exp.Schema):
        refuse("CREATE TABLE (columns) AS")
    holder = exp.Paren(this=tree.expression.copy())
    query_in(holder.this, lookup, {})
    return exp.Create(
        this=plain_table(tree.this),
        kind="TABLE",
        exists=tree.args.get("exists"),
        expression=holder.this,
    )


def _key(item: exp.Expr) -> list[str]:
    while isinstance(item, exp.Constraint):
        if len(item.expressions) != 1:
            refuse("a constraint of several parts")
        item = item.expressions[0]
    if not isinstance(item, exp.PrimaryKey):
        refuse(f"{item.sql('postgres')}: a lake checks no such constraint", "leave it out")
    return [part.name for part in item.expressions]


def _column(item: exp.ColumnDef, lookup: Lookup, keys: list[str]) -> exp.ColumnDef:
    kind = item.args["kind"]
    type = from_postgres(kind)
    longest = length_of(kind)
    spelled = spark_type(type)
    if longest is not None:
        spelled = exp.DataType.build(f"VARCHAR({longest})", dialect="spark")
    constraints: list[exp.Expr] = []
    serial = kind.this in _SERIAL
    needed = serial
    for constraint in item.args.get("constraints") or []:
        rule = constraint.args["kind"]
        if isinstance(rule, exp.PrimaryKeyColumnConstraint):
            keys.append(item.name)
        elif isinstance(rule, exp.NotNullColumnConstraint):
            needed = not rule.args.get("allow_null")
        elif isinstance(rule, exp.DefaultColumnConstraint):
            value = Expressions(QueryScope(lookup)).value(rule.this)
            constraints.append(exp.DefaultColumnConstraint(this=assigned(value, type)))
        else:
            refuse(
                f"{constraint.sql('postgres')}: a lake checks no such constraint", "leave it out"
            )
    if needed or item.name in keys:
        constraints.insert(0, exp.NotNullColumnConstraint())
    return exp.ColumnDef(
        this=exp.to_identifier(item.name, quoted=True),
        kind=spelled,
        constraints=[exp.ColumnConstraint(kind=rule) for rule in constraints],
    )


def alter(tree: exp.Alter, lookup: Lookup) -> Iterator[exp.Expr]:
    if tree.kind != "TABLE":
        refuse(f"ALTER {tree.kind}")
    place = plain_table(tree.this)
    for action in tree.args["actions"]:
        if isinstance(action, exp.ColumnDef):
            keys: list[str] = []
            changed: exp.Expr = _column(action, lookup, keys)
            changed.set("exists", action.args.get("exists"))
            if keys:
                refuse("ADD COLUMN … PRIMARY KEY")
        elif isinstance(action, exp.Drop) and action.args.get("kind") == "COLUMN":
            columns = [column.copy() for column in action.args["tables"]]
            exists = action.args.get("exists")
            changed = exp.Drop(tables=columns, kind="COLUMN", exists=exists)
        elif isinstance(action, exp.AlterRename | exp.RenameColumn):
            changed = action.copy()
        else:
            raise refusal(f"ALTER TABLE … {action.sql('postgres')}")
        yield exp.Alter(this=place.copy(), kind="TABLE", actions=[changed])
