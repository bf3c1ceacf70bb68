"""Runs the statements of a lake: finds out whom each is for, and commits what changes something."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from spark_trickle.compat.door import Door
from spark_trickle.errors import (
    InvariantError,
    ParseError,
    TrickleError,
)
from spark_trickle.execute.engine import Engine
from spark_trickle.execute.postgres import PostgresRunner, is_query, lookup_in, one_statement
from spark_trickle.execute.states import SnapshotState, StatementState, TransactionState
from spark_trickle.maintain.service import StreamTables
from spark_trickle.maintain.statements import StreamStatements
from spark_trickle.statements import parse as ast
from spark_trickle.statements.dialect import is_listing, translated
from spark_trickle.statements.text.parameters import in_users_text
from spark_trickle.storage.versions import retrying

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

    def statement(self, text: str, dialect: str) -> Any:
        """Run one statement, whoever it is for."""
        answered, answer = self._door.answer(text, self.now())
        if answered:
            return answer
        about_streams, answer = self._of_streams.run(text, dialect)
        if about_streams:
            return answer
        if dialect != "spark" and not is_listing(text):
            return self._postgres(text, dialect)
        sent = self._engine.names.statement(text)
        try:
            return self.run(sent.text)
        except TrickleError as error:
            in_users_text(error, text, sent)
            raise

    def run(self, text: str) -> Any:
        """Run a statement of Spark's dialect that is about no stream table."""
        statement = ast.parse_statement(text)
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

    def _postgres(self, text: str, dialect: str) -> Any:
        tree = one_statement(text, dialect)
        if is_query(tree):
            now = self.now()
            (sql,) = translated(tree, lookup_in(now, self._engine.names.schema))
            sql = self._engine.names.statement(sql).text
            statement = ast.parse_statement(sql)
            assert isinstance(statement, ast.Query)
            return self._engine.query(sql, statement, now)
        if self._door.restructured(tree):
            return None
        return self.autocommit(lambda tx: PostgresRunner(self._engine, tx, tree).run())

    def listing(self, text: str) -> pa.Table | None:
        """The answer of SHOW or DESCRIBE as Arrow, without Spark; None for other statements."""
        try:
            about_streams = self._of_streams.listing(text)
            if about_streams is not None:
                return about_streams
            statement = ast.parse_statement(self._engine.names.statement(text).text)
        except ParseError:
            return None
        if not isinstance(statement, ast.Listing):
            return None
        return self._engine.listing(statement, self.now())

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
