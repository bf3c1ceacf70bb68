"""What statements may not do to stream tables and to what they read; every refusal names them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

from spark_trickle.compile import CompiledQuery
from spark_trickle.errors import DependencyError, NotFoundError, UserError
from spark_trickle.execute.ddl import Ddl
from spark_trickle.execute.engine import Change
from spark_trickle.execute.states import table_name
from spark_trickle.ir.nodes import Distinct, UnionAll
from spark_trickle.ir.walk import children, nodes, reads, scans
from spark_trickle.maintain.records import graph
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.statements import parse as ast
from spark_trickle.statements.cursor import Name
from spark_trickle.storage.records import HIDDEN_SCHEMA, Table, TableName
from spark_trickle.storage.versions.transaction import Connection, Transaction

Compile = Callable[[StreamTable], CompiledQuery]


class Guard:
    """Looks at a statement before it runs."""

    def __init__(self, streams: Iterable[StreamTable], tx: Transaction, compile: Compile) -> None:
        self._streams = list(streams)
        self._tx = tx
        self._compile = compile

    def check(self, statement: Change | Ddl) -> None:
        """UserError or DependencyError if the statement would break a stream table."""
        match statement:
            case ast.Insert() | ast.Update() | ast.Delete() | ast.Merge():
                self.writes(table_name(statement.target))
            case ast.Truncate():
                self.writes(table_name(statement.name))
            case ast.DropTable() | ast.RenameTable():
                verb = "dropped" if isinstance(statement, ast.DropTable) else "renamed"
                self._removes(statement.name, verb)
            case ast.CreateTable():
                if statement.or_replace:
                    self._removes(statement.name, "replaced")
            case ast.DropColumns():
                for column in statement.columns:
                    self._column(statement.name, column, "dropped")
            case ast.RenameColumn():
                self._column(statement.name, statement.column, "renamed")
            case ast.DropSchema():
                self._drops_schema(statement.name)
            case ast.AddColumns():
                self._own(statement.name)
            case ast.CreateSchema():
                pass
            case _:
                assert_never(statement)

    def writes(self, name: TableName) -> None:
        """Rows may be written into tables only."""
        if name.schema.lower() == HIDDEN_SCHEMA:
            raise UserError(f"{name} is private state of a stream table and cannot be written")
        stream = self._stream(name)
        if stream is not None:
            raise UserError(
                f"{stream.name} is a stream table: its rows follow from its query",
                hint="change the tables it reads, then refresh it",
            )

    def _stream(self, name: TableName) -> StreamTable | None:
        keys = {TableName.of(stream.name).key: stream for stream in self._streams}
        return keys.get(name.key)

    def _table(self, name: Name) -> Table | None:
        try:
            return self._tx.table(table_name(name))
        except NotFoundError:
            return None

    def _own(self, name: Name) -> None:
        stream = self._stream(table_name(name))
        if stream is not None or table_name(name).schema.lower() == HIDDEN_SCHEMA:
            raise UserError(
                f"{name} is a stream table: it changes with its query only",
                hint=f"use ALTER STREAM TABLE {name} AS SELECT …, or DROP STREAM TABLE {name}",
            )

    def _removes(self, name: Name, verb: str) -> None:
        self._own(name)
        table = self._table(name)
        if table is not None:
            self._unread(table, verb)

    def _column(self, name: Name, column: str, verb: str) -> None:
        self._own(name)
        table = self._table(name)
        if table is None:
            return
        readers = [
            stream
            for stream in graph.dependents(self._streams, table.uuid)
            if self._reads(stream, str(table), column)
        ]
        self._refuse(f"column {column} of {table}", verb, readers)

    def _reads(self, stream: StreamTable, source: str, column: str) -> bool:
        plan = self._compile(stream).bound.plan
        if plan is None:
            return True
        used = {c.id for c in plan.columns}
        for node in nodes(plan):
            used |= reads(node)
            if isinstance(node, Distinct | UnionAll):
                used |= {c.id for child in children(node) for c in child.columns}
        return any(
            c.id in used and c.name.lower() == column.lower()
            for scan in scans(plan)
            if scan.source == source
            for c in scan.columns
        )

    def _drops_schema(self, name: str) -> None:
        if name.lower() == HIDDEN_SCHEMA:
            raise UserError(f"schema {name} holds private state of stream tables")
        for table in self._tx.tables():
            if table.schema.lower() == name.lower():
                stream = self._stream(table.full_name)
                if stream is not None:
                    raise DependencyError(
                        f"schema {name} holds stream table {stream.name}",
                        hint=f"DROP STREAM TABLE {stream.name} first",
                    )
                self._unread(table, "dropped")

    def _unread(self, table: Table, verb: str) -> None:
        """Nobody may read the table, neither now nor when the statement is committed."""
        self._refuse(str(table), verb, graph.dependents(self._streams, table.uuid))

        def record(connection: Connection, _: int) -> None:
            readers = graph.dependents(records.load(connection), table.uuid)
            self._refuse(str(table), verb, readers)

        self._tx.record(record)

    def _refuse(self, what: str, verb: str, readers: list[StreamTable]) -> None:
        if readers:
            names = ", ".join(stream.name for stream in readers)
            raise DependencyError(
                f"{what} cannot be {verb}: stream tables {names} read it",
                hint="drop those stream tables first, or give them another query",
            )
