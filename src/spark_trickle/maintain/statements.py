"""Statements about stream tables, each one call of the service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_never

import pyarrow as pa

from spark_trickle.errors import UserError
from spark_trickle.execute.engine import Engine
from spark_trickle.maintain.define.definition import Definition
from spark_trickle.maintain.records.monitor import tables_relation
from spark_trickle.maintain.service import StreamTables
from spark_trickle.statements import stream as ast
from spark_trickle.storage.records import DEFAULT_SCHEMA, TableName


@dataclass(frozen=True)
class StreamStatements:
    """Runs them on one lake; the service is made on first need."""

    engine: Engine
    streams: Callable[[], StreamTables]

    def listing(self) -> pa.Table:
        """The answer of SHOW STREAM TABLES."""
        return tables_relation(self.streams().described())

    def run(self, statement: ast.StreamStatement, dialect: str) -> Any:
        """The answer of a statement about stream tables."""
        match statement:
            case ast.CreateStreamTable(explain=True):
                query = self._query(statement.query, dialect)
                return self.streams().explain_query(query, dialect, statement.refresh_mode)
            case ast.CreateStreamTable():
                return self.streams().create(
                    Definition(
                        self._name(statement.name),
                        self._query(statement.query, dialect),
                        dialect,
                        statement.schedule,
                        statement.refresh_mode,
                        statement.initialize,
                        fast_path=statement.fast_path,
                    ),
                    or_replace=statement.or_replace,
                    if_not_exists=statement.if_not_exists,
                )
            case ast.RefreshStreamTable():
                return self.streams().refresh(self._name(statement.name), full=statement.full)
            case ast.DropStreamTable():
                dropped = self.streams().drop(
                    self._name(statement.name),
                    cascade=statement.cascade,
                    if_exists=statement.if_exists,
                )
                return dropped if statement.cascade else None
            case ast.AlterStreamTable():
                return self._alter(statement, dialect)
            case ast.ShowStreamTables():
                return self.engine.local(self.listing())
            case ast.ExplainStreamTable():
                return self.streams().explain_table(self.streams().get(self._name(statement.name)))
            case _:
                assert_never(statement)

    def _name(self, parts: tuple[str, ...]) -> TableName:
        return _name(parts, self.engine.names.schema)

    def _query(self, query: str, dialect: str) -> str:
        """With names in the schema that is used."""
        return self.engine.names.query(query, dialect)

    def _alter(self, statement: ast.AlterStreamTable, dialect: str) -> str | None:
        query = None if statement.query is None else self._query(statement.query, dialect)
        if statement.explain:
            assert query is not None
            return self.streams().preview(self._name(statement.name), query, dialect)
        if statement.rename_to is not None:
            self.streams().rename(self._name(statement.name), self._name(statement.rename_to))
            return None
        self.streams().alter(
            self._name(statement.name),
            query=query,
            schedule=statement.schedule,
            refresh_mode=statement.refresh_mode,
            status=statement.status,
            fast_path=statement.fast_path,
            dialect=dialect if statement.query is not None else None,
        )
        return None


def _name(parts: tuple[str, ...], schema: str = DEFAULT_SCHEMA) -> TableName:
    if len(parts) > 2:
        raise UserError(
            f"the name {'.'.join(parts)} has too many parts", hint="schema.name at most"
        )
    return TableName(parts[0] if len(parts) == 2 else schema, parts[-1])
