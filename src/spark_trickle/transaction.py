"""Transactions as users hold them: statements that commit together, at a level of isolation."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from spark_trickle.calls import guarded_methods
from spark_trickle.errors import UserError
from spark_trickle.execute.engine import Engine
from spark_trickle.execute.postgres import PostgresRunner
from spark_trickle.execute.states import TransactionState
from spark_trickle.statements import parse as ast
from spark_trickle.statements import script
from spark_trickle.statements.control import Control
from spark_trickle.statements.read import (
    AnyStatement,
    ForeignQuery,
    PostgresStatement,
    read_statement,
)
from spark_trickle.statements.stream import StreamStatement
from spark_trickle.statements.text.parameters import Arguments, told_in
from spark_trickle.statements.text.splices import quoted
from spark_trickle.storage.records import Said, TableName
from spark_trickle.storage.versions.transaction import Record, Transaction

if TYPE_CHECKING:
    from spark_trickle.spark.sessions.session import DataFrame

READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE = LEVELS = (
    "READ COMMITTED",
    "REPEATABLE READ",
    "SERIALIZABLE",
)


OnFailure = Callable[[BaseException], None]
"""Told of the error that ended a transaction, after it was rolled back."""


class SavepointHandle:
    """A point of a transaction to go back to."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._mark = tx.savepoint()

    def rollback(self) -> None:
        """Undo what was done since; the savepoint can be used again."""
        self._tx.rollback_to(self._mark)

    def __enter__(self) -> SavepointHandle:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.rollback()


@guarded_methods
class LakeTransaction:
    """Statements that commit together; reads see the transaction's own writes.

    Leaving the ``with`` block commits; an exception rolls back.
    """

    def __init__(
        self, engine: Engine, failed: OnFailure, isolation: str, said: Said | None = None
    ) -> None:
        self._isolation = " ".join(isolation.upper().split())
        if self._isolation not in LEVELS:
            raise UserError(
                f"{isolation!r} is not an isolation level", hint=f"one of {', '.join(LEVELS)}"
            )
        self._engine = engine
        self._failed = failed
        self._tx: Transaction = engine.catalog.begin()
        self._tx.said = said or self._tx.said
        check_reads = self._isolation == SERIALIZABLE
        self._state = TransactionState(engine.catalog, self._tx, check_reads=check_reads)
        self._open = True

    def sql(self, text: str, args: Arguments = None, *, dialect: str = "spark") -> Any:
        """As ``Lake.sql``, inside the transaction; statements about stream tables stay outside.

        >>> tx.sql("UPDATE orders SET who = ? WHERE id = 7", ["bob"])
        """
        self._must_be_open()
        return script.run(
            text, args, dialect, lambda one: self._statement(one, read_statement(one, dialect))
        )

    def _statement(self, text: str, statement: AnyStatement) -> Any:
        self._begin_statement()
        match statement:
            case PostgresStatement(tree):
                return PostgresRunner(self._engine, self._state, tree).run()
            case ForeignQuery():
                raise _of_its_own()
            case _ if isinstance(statement, StreamStatement):
                raise _of_its_own()
            case _ if isinstance(statement, Control):
                raise UserError(
                    "this transaction is held by a program, not by statements",
                    hint="use tx.commit(), tx.rollback() and tx.savepoint()",
                )
            case _:
                sent, placed = self._engine.names.placed(text, statement)
                with told_in(text, sent):
                    return self._run(sent.text, placed)

    def _run(self, text: str, statement: ast.Statement) -> Any:
        match statement:
            case ast.Use(schema):
                return self._engine.names.use(schema)
            case ast.Query():
                return self._engine.query(text, statement, self._state)
            case _ if isinstance(statement, ast.Listing):
                return self._engine.local(self._engine.listing(statement, self._state))
            case _:
                return self._engine.change(text, statement, self._state)

    def append(self, name: str, data: Any) -> int:
        """As ``Lake.append``, inside the transaction.

        >>> tx.append("orders", [{"id": 8, "who": "eve"}])
        """
        self._begin_statement()
        return self._engine.append(self._state, TableName.of(name), data)

    def table(self, name: str) -> DataFrame:
        """The table or view with the transaction's own writes.

        >>> tx.table("orders").count()
        """
        self._begin_statement()
        where = TableName.of(name)
        if self._tx.view(where) is not None:
            text = f"SELECT * FROM {quoted(where.schema)}.{quoted(where.name)}"
            found: DataFrame = self._statement(text, read_statement(text, "spark"))
            return found
        return self._engine.scan(self._state.scan(self._state.table(where)))

    def savepoint(self) -> SavepointHandle:
        """A point to go back to: by its ``rollback()``, or as a ``with`` block that an error leaves.

        >>> before = tx.savepoint()
        """
        self._must_be_open()
        return SavepointHandle(self._tx)

    def record(self, callback: Record) -> None:
        """Have ``callback(connection, version)`` write its own rows inside the commit.

        >>> tx.record(lambda connection, version: None)
        """
        self._must_be_open()
        self._tx.record(callback)

    @property
    def base(self) -> int:
        """The version that the transaction reads.

        >>> tx.base
        """
        return self._tx.base

    def commit(self) -> int:
        """Commit; the new version. CommitConflictError if another writer got in the way.

        >>> tx.commit()
        """
        self._must_be_open()
        self._open = False
        try:
            return self._tx.commit(newest=self._isolation == READ_COMMITTED)
        except BaseException as error:
            self._tx.rollback()
            self._failed(error)
            raise

    def rollback(self) -> None:
        """Forget everything that was done in it.

        >>> tx.rollback()
        """
        self._must_be_open()
        self._open = False
        self._tx.rollback()

    def __enter__(self) -> LakeTransaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._open:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def _begin_statement(self) -> None:
        self._must_be_open()
        if self._isolation == READ_COMMITTED:
            self._tx.rebase()

    def _must_be_open(self) -> None:
        if not self._open:
            raise UserError(
                "the transaction is over", hint="begin another one with lake.transaction()"
            )


def _of_its_own() -> UserError:
    return UserError(
        "statements about stream tables are transactions of their own",
        hint="run it with lake.sql, before or after this transaction",
    )
