"""What statements may not do to stream tables and to what they read; every refusal names them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

from spark_trickle.errors import DependencyError, NotFoundError, UserError
from spark_trickle.execute.ddl import Alteration, Ddl
from spark_trickle.execute.engine import ChangingStatement
from spark_trickle.execute.states import table_name
from spark_trickle.maintain.define.compiling import Compile, columns_used
from spark_trickle.maintain.records import graph, view_uses
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.statements import parse as ast
from spark_trickle.statements.text.cursor import Name
from spark_trickle.storage.records import HIDDEN_SCHEMA, Table, TableName, View
from spark_trickle.storage.versions.transaction import Connection, Transaction

Readers = Callable[[list[StreamTable]], list[StreamTable]]


class Guard:
    """Looks at a statement before it runs."""

    def __init__(self, streams: Iterable[StreamTable], tx: Transaction, compile: Compile) -> None:
        self._streams = list(streams)
        self._tx = tx
        self._compile = compile

    def check(self, statement: ChangingStatement | Ddl) -> None:
        """UserError or DependencyError if the statement would break a stream table."""
        match statement:
            case ast.Insert() | ast.Update() | ast.Delete() | ast.Merge():
                self.writes(table_name(statement.target))
            case ast.Truncate() | ast.Restore():
                self.writes(table_name(statement.name))
            case ast.DropTable():
                self._removes(statement.name, "dropped")
            case ast.CreateTable():
                if statement.or_replace:
                    self._removes(statement.name, "replaced")
            case ast.DropView():
                self._drops_view(statement)
            case ast.DropSchema():
                self._drops_schema(statement.name)
            case ast.CreateSchema() | ast.Comment() | ast.CreateView():
                pass
            case _:
                self._alters(statement)

    def _alters(self, statement: Alteration) -> None:
        self._own(statement.name)
        match statement:
            case ast.DropColumns():
                for column in statement.columns:
                    self._changes_column(statement.name, column, "dropped")
            case ast.AlterColumn():
                # Stream tables know the types of what they read, and what is never NULL.
                if statement.action in ("TYPE", "DROP NOT NULL"):
                    self._changes_column(statement.name, statement.column, "altered")
            case ast.AddColumns() | ast.RenameTable() | ast.RenameColumn():
                pass
            case _:
                assert_never(statement)

    def _drops_view(self, statement: ast.DropView) -> None:
        view = self._tx.view(table_name(statement.name))
        if view is not None:
            self._unused_view(view)

    def _unused_view(self, view: View) -> None:
        self._tx.record(lambda connection, _: _refuse_view(connection, view))
        with self._tx.reading() as connection:
            _refuse_view(connection, view)

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

    def _changes_column(self, name: Name, column: str, verb: str) -> None:
        table = self._table(name)
        found = None if table is None else table.column(column)
        if table is not None and found is not None:
            number = found.id
            self._unused(
                f"column {found.name} of {table}",
                verb,
                lambda streams: [s for s in streams if self._reads(s, table.uuid, number)],
            )

    def _reads(self, stream: StreamTable, uuid: str, column: int) -> bool:
        for source in stream.sources:
            names = {c.name.lower() for c in source.bound.columns if c.id == column}
            if source.uuid == uuid and names & columns_used(self._compile(stream), source):
                return True
        return False

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
        for view in self._tx.views():
            if view.schema.lower() == name.lower():
                self._unused_view(view)

    def _unread(self, table: Table, verb: str) -> None:
        self._unused(str(table), verb, lambda streams: graph.dependents(streams, table.uuid))

    def _unused(self, what: str, verb: str, readers: Readers) -> None:
        """Nobody may read it, neither now nor when the statement is committed."""
        self._refuse(what, verb, readers(self._streams))

        def record(connection: Connection, _: int) -> None:
            self._refuse(what, verb, readers(records.load(connection)))

        self._tx.record(record)

    def _refuse(self, what: str, verb: str, readers: list[StreamTable]) -> None:
        if readers:
            names = ", ".join(stream.name for stream in readers)
            raise DependencyError(
                f"{what} cannot be {verb}: stream tables {names} read it",
                hint="drop those stream tables first, or give them another query",
            )


def _refuse_view(connection: Connection, view: View) -> None:
    readers = view_uses.readers(connection, view.uuid)
    if readers:
        raise DependencyError(
            f"view {view} cannot be dropped: stream tables {', '.join(readers)} were written with it",
            hint="drop those stream tables first, or give them another query",
        )
