"""Statements of PostgreSQL's SQL inside a transaction: RETURNING, ON CONFLICT, WITH that changes data.

Law: all parts of one statement see the tables as they were before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from spark_trickle.errors import NotFoundError, UserError
from spark_trickle.execute.engine import Engine
from spark_trickle.execute.kept_rows import arrow_columns, first, repeated
from spark_trickle.execute.states import Conditions, StatementState, TransactionState, met
from spark_trickle.sql.pg.changes import assignments, columns_of, insert, plain_table, target_scope
from spark_trickle.sql.pg.expressions import Expressions
from spark_trickle.sql.pg.parts import all_known
from spark_trickle.sql.pg.queries import Lookup, PgColumns, PgRelation
from spark_trickle.sql.pg.types import PgType, from_spark, refuse
from spark_trickle.sql.postgres import tables_named
from spark_trickle.statements import parse as ast
from spark_trickle.statements.dialect import translated
from spark_trickle.statements.read import PostgresStatement
from spark_trickle.storage.records import DEFAULT_SCHEMA, ScanPlan, Table, TableName
from spark_trickle.storage.versions.savepoints import whole

Modifying = exp.Insert | exp.Update | exp.Delete
_OURS = "trickle"
_numbers = itertools.count(1)


def lookup_in(state: StatementState, used: str = DEFAULT_SCHEMA) -> Lookup:
    """The columns of a state's tables; ``used``: the schema of names without one."""

    def lookup(schema: str, name: str) -> PgColumns | None:
        try:
            table = state.table(TableName(schema or used, name))
        except NotFoundError:
            return None
        return table_columns(table)

    return lookup


def table_columns(table: Table) -> PgColumns:
    return [
        (column.name, from_spark(exp.DataType.build(column.type, dialect="spark")))
        for column in table.columns
    ]


class Before(TransactionState):
    """A transaction's tables as they were when a statement began."""

    def __init__(
        self, state: TransactionState, tables: Iterator[tuple[str, str]], used: str
    ) -> None:
        super().__init__(state.catalog, state.tx, check_reads=state.check_reads)
        self._plans: dict[tuple[int, str], ScanPlan] = {}
        for schema, name in tables:
            try:
                table = state.table(TableName(schema or used, name))
            except NotFoundError:
                continue
            self._plans[table.id, table.uuid] = state.scan(table)

    def scan(self, table: Table, conditions: Conditions = ()) -> ScanPlan:
        plan = self._plans.get((table.id, table.uuid))
        return super().scan(table, conditions) if plan is None else met(plan, conditions)


class PostgresRunner:
    """Runs one statement; what it needs in between is kept as local relations until its end."""

    def __init__(self, engine: Engine, state: TransactionState, tree: exp.Expr) -> None:
        self._engine = engine
        self._tree = tree
        used = engine.names.schema
        self._state = Before(state, tables_named(tree), used)
        self._tables: dict[str, PgColumns] = {}
        plain = lookup_in(self._state, used)
        self._lookup: Lookup = lambda schema, name: (
            self._tables.get(name) if schema == _OURS else plain(schema, name)
        )

    def run(self) -> Any:
        """A DataFrame of a query or RETURNING, the rows affected, None of DDL."""
        with self._relations(), whole(self._state.tx):
            tree = self._tree.copy()
            clause = tree.args.get("with_")
            if clause is not None and self._needs_steps(tree):
                self._ctes(tree, clause)
            return self._statement(tree)

    def _needs_steps(self, tree: exp.Expr) -> bool:
        return isinstance(tree, Modifying) or not PostgresStatement(tree).reads

    def _ctes(self, tree: exp.Expr, clause: exp.With) -> None:
        """Each in turn over the state before; those after it see its rows, as the statement does."""
        if clause.recursive:
            refuse("WITH RECURSIVE")
        tree.set("with_", None)
        known: dict[str, str] = {}
        for cte in clause.expressions:
            part = cte.this
            _point(part, known)
            rows = self._rows(part) if isinstance(part, Modifying) else self._read(part)
            if rows is None:
                continue
            names = [c.name for c in (cte.args["alias"].args.get("columns") or [])]
            if names:
                rows = rows.rename_columns([*names, *rows.column_names[len(names) :]])
            known[cte.alias.lower()] = self._keep(rows)
        _point(tree, known)

    def _statement(self, tree: exp.Expr) -> Any:
        if isinstance(tree, exp.Query | exp.Values):
            # What was made on the way is gone when the frame is read: the answer is taken now.
            return self._engine.local(self._read(tree))
        if isinstance(tree, Modifying) and tree.args.get("returning"):
            rows = self._rows(tree)
            assert rows is not None
            return self._engine.local(rows)
        return self._change(tree)

    def _rows(self, tree: exp.Expr) -> pa.Table | None:
        """Do it; the rows of RETURNING, if it has any."""
        returning = tree.args.get("returning")
        tree.set("returning", None)
        if returning is None:
            self._change(tree)
            return None
        if isinstance(tree, exp.Insert):
            return self._inserted(tree, returning)
        if isinstance(tree, exp.Update):
            return self._updated(tree, returning)
        assert isinstance(tree, exp.Delete)
        found = _deleted(tree, returning)
        rows = self._read(found)
        self._change(tree)
        return rows

    def _change(self, tree: exp.Expr) -> int | None:
        if isinstance(tree, exp.Insert) and tree.args.get("conflict"):
            return self._upsert(tree)
        if isinstance(tree, exp.Delete) and tree.args.get("where") is None:
            tree.set("where", exp.Where(this=exp.true()))  # not what this statement inserts
        total: int | None = None
        for text in translated(tree, self._lookup):
            affected = self._run(text)
            total = affected if total is None or affected is None else total + affected
        return total

    def _run(self, text: str) -> int | None:
        text, statement = self._engine.names.parsed(text)
        if isinstance(statement, ast.Query | ast.Listing | ast.Use):
            raise UserError("this statement answers rows, and none are asked for here")
        affected = self._engine.change(text, statement, self._state)
        return affected if isinstance(affected, int) else None

    def _read(self, tree: exp.Expr) -> pa.Table:
        (text,) = translated(tree, self._lookup)
        return self._spark(text)

    def _spark(self, text: str) -> pa.Table:
        text, statement = self._engine.names.parsed(text)
        assert isinstance(statement, ast.Query)
        from spark_trickle.spark.fetching import bounded

        limits = self._engine.settings.limits
        found = self._engine.query(text, statement, self._state)
        return bounded(found, limits.answer_rows, limits.fetched_bytes)

    def _inserted(self, tree: exp.Insert, returning: exp.Expr) -> pa.Table:
        if tree.args.get("conflict"):
            refuse("ON CONFLICT with RETURNING")
        target, names, kept = self._offered(tree)
        self._run(_insert_text(target, names, kept))
        table = self._state.table(self._name(target))
        items: list[exp.Expr] = [
            exp.column(name, quoted=True) if name in names else _default(table, name, type)
            for name, type in columns_of(target, self._lookup)
        ]
        inner = exp.select(*items).from_(_ours(kept))
        return self._returned(returning, exp.Subquery(this=inner, alias=_alias(target)))

    def _offered(self, tree: exp.Insert) -> tuple[exp.Table, list[str], str]:
        """The rows of an INSERT as a relation, cast to the columns that they are for."""
        plain = tree.copy()
        plain.set("conflict", None)
        made = insert(plain, self._lookup)
        names = [c.name for c in made.this.expressions]
        source = made.expression
        if isinstance(source, exp.Values):
            if any(isinstance(v, exp.Var) for row in source.expressions for v in row.expressions):
                refuse("DEFAULT beside RETURNING or ON CONFLICT")
            alias = exp.TableAlias(
                this=exp.to_identifier("v__"),
                columns=[exp.to_identifier(n, quoted=True) for n in names],
            )
            source = exp.select("*").from_(exp.Values(expressions=source.expressions, alias=alias))
        rows = self._spark(source.sql("spark")).rename_columns(names)
        target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        types = dict(columns_of(target, self._lookup))
        kept = self._keep(rows, [(name, types[name]) for name in names])
        return target, names, kept

    def _updated(self, tree: exp.Update, returning: exp.Expr) -> pa.Table:
        if tree.args.get("from_"):
            refuse("UPDATE … FROM with RETURNING")
        scope, _, columns = target_scope(tree.this, self._lookup)
        values = dict(assignments(tree, columns, Expressions(scope)))
        items = [
            exp.alias_(values.get(name, exp.column(name, quoted=True)), name, quoted=True)
            for name, _ in columns
        ]
        place = plain_table(tree.this)
        place.set("alias", _alias(tree.this))
        query = exp.select(*items).from_(place)
        where = tree.args.get("where")
        if where is not None:
            query = query.where(Expressions(scope).condition(where.this))
        kept = self._keep(self._spark(query.sql("spark")), columns)
        rows = self._returned(
            returning,
            exp.Table(
                this=exp.to_identifier(kept), db=exp.to_identifier(_OURS), alias=_alias(tree.this)
            ),
        )
        self._change(tree)
        return rows

    def _returned(self, returning: exp.Expr, relation: exp.Expr) -> pa.Table:
        items = [item.copy() for item in returning.expressions]
        return self._read(exp.select(*items).from_(relation))

    def _upsert(self, tree: exp.Insert) -> int | None:
        conflict = tree.args["conflict"]
        all_known(conflict)
        target, names, kept = self._offered(tree)
        table = self._state.table(self._name(target))
        keys = [item.this.name for item in conflict.args.get("conflict_keys") or []]
        if conflict.args.get("constraint") or not table.primary_key:
            refuse("ON CONFLICT where the table has no primary key, or by the name of a constraint")
        if keys and {k.lower() for k in keys} != {k.lower() for k in table.primary_key}:
            refuse("ON CONFLICT on other columns than the primary key")
        action = str(conflict.args["action"].this).upper()
        rows = self._engine.relations[kept]()
        again = repeated(rows, list(table.primary_key))
        if again and action != "DO NOTHING":
            raise UserError("ON CONFLICT DO UPDATE command cannot affect row a second time")
        if again:
            self._forget(kept)
            kept = self._keep(first(rows, list(table.primary_key)), self._tables.get(kept))
        return self._run(self._merge_text(conflict, target, names, kept, table))

    def _merge_text(
        self, conflict: exp.Expr, target: exp.Table, names: list[str], kept: str, table: Table
    ) -> str:
        alias = target.alias_or_name.lower()
        same = [
            exp.EQ(
                this=exp.column(k, alias, quoted=True),
                expression=exp.column(k, "excluded", quoted=True),
            )
            for k in table.primary_key
        ]
        whens: list[exp.Expr] = []
        if str(conflict.args["action"].this).upper() != "DO NOTHING":
            scope, _, columns = target_scope(target, self._lookup)
            given = [(n, ty) for n, ty in columns if n in names]
            scope.relations.append(PgRelation("excluded", given))
            expressions = Expressions(scope)
            changes = [
                exp.EQ(this=exp.column(name, quoted=True), expression=value)
                for name, value in assignments(conflict, columns, expressions)
            ]
            where = conflict.args.get("where")
            condition = None if where is None else expressions.condition(where.this)
            whens.append(
                exp.When(matched=True, condition=condition, then=exp.Update(expressions=changes))
            )
        values = exp.Tuple(expressions=[exp.column(n, "excluded", quoted=True) for n in names])
        columns_ = exp.Tuple(expressions=[exp.column(n, quoted=True) for n in names])
        whens.append(exp.When(matched=False, then=exp.Insert(this=columns_, expression=values)))
        place = plain_table(target)
        place.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
        source = _ours(kept)
        source.set("alias", exp.TableAlias(this=exp.to_identifier("excluded")))
        merge = exp.Merge(
            this=place, using=source, on=exp.and_(*same), whens=exp.Whens(expressions=whens)
        )
        return str(merge.sql("spark"))

    def _name(self, table: exp.Table) -> TableName:
        place = plain_table(table)
        return TableName(place.db or self._engine.names.schema, place.name)

    def _keep(self, rows: pa.Table, columns: PgColumns | None = None) -> str:
        """Rows as a relation that the rest of the statement can read; its name."""
        name = f"__step_{next(_numbers)}"
        self._tables[name] = columns or arrow_columns(rows)
        self._engine.relations[name] = partial(_same, rows)
        return name

    def _forget(self, name: str) -> None:
        del self._engine.relations[name]

    @contextmanager
    def _relations(self) -> Iterator[None]:
        try:
            yield
        finally:
            for name in self._tables:
                self._engine.relations.pop(name, None)


def _same(table: pa.Table) -> pa.Table:
    return table


def _default(table: Table, name: str, type: PgType) -> exp.Expr:
    """What a column that was not given holds."""
    column = table.column(name)
    text = column.default if column is not None else None
    value = sqlglot.parse_one(text, read="spark") if text else exp.Null()
    if not isinstance(
        value.this if isinstance(value, exp.Neg) else value, exp.Literal | exp.Null | exp.Boolean
    ):
        refuse(f"RETURNING where {name} takes a default that is computed", "give all columns")
    if type.element is not None:
        return exp.alias_(exp.Null(), name, quoted=True)
    kind = exp.DataType.build(str(type), dialect="postgres")
    return exp.alias_(exp.Cast(this=value, to=kind), name, quoted=True)


def _alias(table: exp.Table) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(table.alias_or_name))


def _ours(name: str) -> exp.Table:
    return exp.Table(this=exp.to_identifier(name), db=exp.to_identifier(_OURS))


def _insert_text(target: exp.Table, names: list[str], kept: str) -> str:
    columns = [exp.to_identifier(name, quoted=True) for name in names]
    place = exp.Schema(this=plain_table(target), expressions=columns)
    query = exp.select(*(exp.column(name, quoted=True) for name in names)).from_(_ours(kept))
    return str(exp.Insert(this=place, expression=query).sql("spark"))


def _deleted(tree: exp.Delete, returning: exp.Expr) -> exp.Select:
    """The rows that DELETE is about to remove."""
    query = exp.select(*(item.copy() for item in returning.expressions)).from_(tree.this.copy())
    if tree.args.get("using"):
        refuse("DELETE … USING with RETURNING")
    where = tree.args.get("where")
    return query if where is None else query.where(where.this.copy())


def _point(tree: exp.Expr, known: dict[str, str]) -> None:
    """Names of WITH queries that were computed, as the relations that hold their rows."""
    for table in tree.find_all(exp.Table):
        kept = known.get(table.name.lower()) if not table.db else None
        if kept is not None:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
            table.set("this", exp.to_identifier(kept))
            table.set("db", exp.to_identifier(_OURS))
