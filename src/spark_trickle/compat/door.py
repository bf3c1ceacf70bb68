"""Where a lake's SQL meets the functions of pg_ivm and pg_trickle."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
from sqlglot import exp

from spark_trickle.compat import pgivm, pgtrickle, watching
from spark_trickle.compat.calls import Answerer
from spark_trickle.compat.functions import FunctionContext, PgFunction
from spark_trickle.execute.engine import Engine
from spark_trickle.execute.kept_rows import arrow_columns
from spark_trickle.execute.postgres import lookup_in
from spark_trickle.execute.states import StatementState, table_name
from spark_trickle.maintain.service import StreamTables
from spark_trickle.sql.pg.changes import plain_table
from spark_trickle.statements import parse as ast
from spark_trickle.statements.dialect import to_spark
from spark_trickle.storage.records import DEFAULT_SCHEMA, TableName

_ALL = (*pgivm.FUNCTIONS, *pgtrickle.FUNCTIONS, *watching.FUNCTIONS, *watching.ABSENT)
FUNCTIONS: dict[tuple[str, str], PgFunction] = {(f.schema, f.name): f for f in _ALL}


class Door:
    """Answers what is theirs."""

    def __init__(
        self, engine: Engine, streams: Callable[[], StreamTables], run: Callable[[str], Any]
    ) -> None:
        self._engine = engine
        self._streams = streams
        self._run = run

    def answer(self, tree: exp.Select, state: StatementState) -> Any:
        """The answer of a query of theirs: a DataFrame."""
        answerer = Answerer(FUNCTIONS, FunctionContext(self._engine, self._streams(), self._run))
        whole = answerer.alone(tree)
        if whole is not None:
            return self._engine.local(whole)
        query, relations = answerer.relations(tree)
        columns = {name: arrow_columns(table) for name, table in relations.items()}
        plain = lookup_in(state)
        (sql,) = to_spark(
            query.sql("postgres"),
            "postgres",
            lambda schema, name: columns.get(name) if schema == "trickle" else plain(schema, name),
        )
        statement = ast.parse_statement(sql)
        assert isinstance(statement, ast.Query)
        for name, table in relations.items():
            self._engine.relations[name] = partial(_same, table)
        try:
            return self._engine.query(sql, statement, state)
        finally:
            for name in relations:
                del self._engine.relations[name]

    def changed(self, statement: ast.Statement) -> bool:
        """Whether it was DROP TABLE or ALTER TABLE … RENAME TO of an IMMV, which is done then."""
        if not isinstance(statement, ast.DropTable | ast.RenameTable):
            return False
        streams = self._streams()
        stream = pgivm.find_immv(streams, table_name(statement.name))
        if stream is None:
            return False
        if isinstance(statement, ast.RenameTable):
            pgivm.rename_immv(streams, stream, table_name(statement.to))
        else:
            pgivm.drop_immv(streams, stream)
        return True

    def restructured(self, tree: exp.Expr) -> bool:
        """Whether it was DROP TABLE or RENAME TO of IMMVs, or with CASCADE of what they read."""
        streams = self._streams()
        if isinstance(tree, exp.Alter) and isinstance(tree.args["actions"][0], exp.AlterRename):
            stream = pgivm.find_immv(streams, _name(tree.this))
            if stream is not None:
                pgivm.rename_immv(streams, stream, _name(tree.args["actions"][0].this))
            return stream is not None
        if not isinstance(tree, exp.Drop) or tree.args.get("kind") != "TABLE":
            return False
        cascade = bool(tree.args.get("cascade"))
        tables = tree.args.get("tables") or [tree.this]
        left = []
        for table in tables:
            stream = pgivm.find_immv(streams, _name(table))
            if stream is not None:
                pgivm.drop_immv(streams, stream, cascade=cascade)
            else:
                left.append(table)
                if cascade:
                    pgivm.drop_readers(self._engine, streams, _name(table))
        tree.set("tables", left)
        return not left


def _name(table: exp.Expr) -> TableName:
    place = plain_table(table)  # type: ignore[arg-type]
    return TableName(place.db or DEFAULT_SCHEMA, place.name)


def _same(table: pa.Table) -> pa.Table:
    return table
