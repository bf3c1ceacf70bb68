"""Runs the statements of a lake: finds out whom each is for, and commits what changes something."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from spark_trickle.compat.door import Door
from spark_trickle.errors import InvariantError, ParseError
from spark_trickle.execute.engine import Engine
from spark_trickle.execute.postgres import PostgresRunner, lookup_in
from spark_trickle.execute.states import SnapshotState, StatementState, TransactionState
from spark_trickle.maintain.service import StreamTables
from spark_trickle.maintain.statements import StreamStatements
from spark_trickle.statements import parse as ast
from spark_trickle.statements.control import Control
from spark_trickle.statements.dialect import translated
from spark_trickle.statements.read import (
    AnyStatement,
    ForeignQuery,
    PostgresStatement,
    read_statement,
)
from spark_trickle.statements.stream import ShowStreamTables, StreamStatement
from spark_trickle.statements.text.parameters import told_in
from spark_trickle.storage.commits import retrying

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class Statements:
    """Those of one lake."""

    def __init__(
        self, engine: Engine, streams: Callable[[], StreamTables], postgres: Callable[[str], Any]
    ) -> None:
        self._engine = engine
        self._catalog = engine.catalog
        self._streams = streams
        self._of_streams = StreamStatements(engine, streams)
        self._door = Door(engine, streams, postgres)

    def statement(self, text: str, statement: AnyStatement, dialect: str) -> Any:
        """Run one statement, which was read of a text, whoever it is for."""
        match statement:
            case ForeignQuery(tree):
                return self._door.answer(tree, self.now())
            case PostgresStatement():
                return self._postgres(statement)
            case _ if isinstance(statement, StreamStatement):
                return self._of_streams.run(statement, dialect)
            case _ if isinstance(statement, Control):
                raise AssertionError("a session keeps transactions")
            case _:
                sent, placed = self._engine.names.placed(text, statement)
                with told_in(text, sent):
                    return self._run(sent.text, placed)

    def _run(self, text: str, statement: ast.Statement) -> Any:
        """A statement of Spark's dialect that is about no stream table."""
        if self._door.changed(statement):
            return None
        match statement:
            case ast.Use(schema):
                return self._engine.names.use(schema)
            case ast.Query():
                return self._engine.query(text, statement, self.now())
            case _ if isinstance(statement, ast.Listing):
                return self._engine.local(self._engine.listing(statement, self.now()))
            case _:
                changing = statement
                return self.autocommit(lambda tx: self._engine.change(text, changing, tx))

    def _postgres(self, statement: PostgresStatement) -> Any:
        tree = statement.tree
        if statement.reads:
            now = self.now()
            (sql,) = translated(tree, lookup_in(now, self._engine.names.schema))
            sql, query = self._engine.names.parsed(sql)
            assert isinstance(query, ast.Query)
            return self._engine.query(sql, query, now)
        if self._door.restructured(tree):
            return None
        return self.autocommit(lambda tx: PostgresRunner(self._engine, tx, tree).run())

    def listing(self, text: str) -> pa.Table | None:
        """The answer of SHOW or DESCRIBE as Arrow, without Spark; None for other statements."""
        try:
            statement = read_statement(text)
            if isinstance(statement, ShowStreamTables):
                return self._of_streams.listing()
            if not isinstance(statement, ast.Listing):
                return None
            _, placed = self._engine.names.placed(text, statement)
        except ParseError:
            return None
        assert isinstance(placed, ast.Listing)
        return self._engine.listing(placed, self.now())

    def now(self) -> StatementState:
        """The newest version."""
        return SnapshotState(self._catalog, self._catalog.version())

    def failed(self, error: BaseException) -> None:
        """A stream table that a transaction found impossible is taken out of service."""
        if isinstance(error, InvariantError):
            self._streams().note_breach(error)

    def autocommit(self, work: Callable[[TransactionState], T]) -> T:
        """Do the work in a transaction of its own, again after each conflict."""
        try:
            return retrying.committed(
                self._catalog.begin,
                lambda tx: work(TransactionState(self._catalog, tx)),
                self._engine.settings,
            )
        except BaseException as error:
            self.failed(error)
            raise
