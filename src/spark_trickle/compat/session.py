"""Statements one after the other, with transactions: BEGIN, COMMIT, ROLLBACK, SAVEPOINT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spark_trickle.errors import UserError
from spark_trickle.statements import script
from spark_trickle.statements.control import (
    Begin,
    Control,
    End,
    Release,
    RollbackTo,
    Savepoint,
    SetTransaction,
)
from spark_trickle.statements.read import AnyStatement, read_statement
from spark_trickle.statements.text.parameters import Arguments
from spark_trickle.transaction import READ_COMMITTED, LakeTransaction, SavepointHandle


class Session:
    """What a script or a shell keeps between statements: the open transaction and its savepoints."""

    def __init__(
        self,
        begin: Callable[[str], LakeTransaction],
        outside: Callable[[str, AnyStatement, str], Any],
        dialect: str,
    ) -> None:
        self._begin = begin
        self._outside = outside
        self.dialect = dialect
        self._tx: LakeTransaction | None = None
        self._started = False
        self._level = READ_COMMITTED
        self._failed = False
        self._savepoints: list[tuple[str, SavepointHandle]] = []

    def script(self, text: str, args: Arguments) -> Any:
        """Run the statements of a text; the answer of the last one."""
        try:
            answer = script.run(text, args, self.dialect, self.statement)
        finally:
            open_at_end = self.end()
        if open_at_end:
            raise UserError(
                "the text ends inside a transaction, which was rolled back", hint="COMMIT"
            )
        return answer

    def statement(self, text: str) -> Any:
        """Run one statement, inside the transaction if one is open."""
        try:
            statement = read_statement(text, self.dialect)
        except BaseException:
            self._failed = self._started
            raise
        if isinstance(statement, Control):
            return self._control(statement)
        if not self._started:
            return self._outside(text, statement, self.dialect)
        if self._failed:
            raise UserError(
                "current transaction is aborted, statements are ignored until its end",
                hint="ROLLBACK, or ROLLBACK TO a savepoint",
            )
        try:
            return self._open()._statement(text, statement)
        except BaseException:
            self._failed = True
            raise

    @property
    def inside(self) -> bool:
        """Whether a transaction is open."""
        return self._started

    def end(self) -> bool:
        """Whether a transaction was still open; it is rolled back."""
        was = self._started
        self._leave(commit=False)
        return was

    def _open(self) -> LakeTransaction:
        if self._tx is None:
            self._tx = self._begin(self._level)
        return self._tx

    def _control(self, statement: Control) -> None:
        match statement:
            case Begin(level):
                if self._started:
                    raise UserError(
                        "there is already a transaction in progress", hint="COMMIT or ROLLBACK"
                    )
                self._level, self._started = level or READ_COMMITTED, True
            case SetTransaction(level):
                self._inside("SET TRANSACTION")
                if self._tx is not None:
                    raise UserError(
                        "SET TRANSACTION ISOLATION LEVEL must be called before any statement"
                    )
                self._level = level or self._level
            case End(commit):
                self._leave(commit=commit)
            case Savepoint(name):
                self._inside("SAVEPOINT")
                self._savepoints.append((name, self._open().savepoint()))
            case RollbackTo(name):
                self._back(name)
            case Release(name):
                self._savepoints = self._savepoints[: self._find(name)]

    def _leave(self, *, commit: bool) -> None:
        tx, failed = self._tx, self._failed
        self._tx, self._started, self._failed, self._savepoints = None, False, False, []
        if tx is None:
            return
        if commit and not failed:
            tx.commit()
        else:
            tx.rollback()
        if commit and failed:
            raise UserError("the transaction had failed and was rolled back")

    def _back(self, name: str) -> None:
        place = self._find(name)
        self._savepoints = self._savepoints[: place + 1]
        self._savepoints[place][1].rollback()
        self._failed = False

    def _find(self, name: str) -> int:
        self._inside("a savepoint")
        for place in range(len(self._savepoints) - 1, -1, -1):
            if self._savepoints[place][0] == name:
                return place
        raise UserError(f"savepoint {name} does not exist")

    def _inside(self, what: str) -> None:
        if not self._started:
            raise UserError(f"{what} can only be used in a transaction", hint="BEGIN first")
