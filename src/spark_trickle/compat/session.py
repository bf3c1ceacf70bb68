"""Statements one after the other, with transactions: BEGIN, COMMIT, ROLLBACK, SAVEPOINT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spark_trickle.errors import UserError
from spark_trickle.statements import script
from spark_trickle.statements.text.cursor import Cursor
from spark_trickle.statements.text.parameters import Arguments
from spark_trickle.transaction import (
    READ_COMMITTED,
    REPEATABLE_READ,
    SERIALIZABLE,
    LakeTransaction,
    SavepointHandle,
)

_LEVELS = {
    "READ UNCOMMITTED": READ_COMMITTED,
    "READ COMMITTED": READ_COMMITTED,
    "REPEATABLE READ": REPEATABLE_READ,
    "SERIALIZABLE": SERIALIZABLE,
}


class Session:
    """What a script or a shell keeps between statements: the open transaction and its savepoints."""

    def __init__(
        self, begin: Callable[[str], LakeTransaction], outside: Callable[[str], Any], dialect: str
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
        if self._controls(Cursor(text, self.dialect)):
            return None
        if not self._started:
            return self._outside(text)
        if self._failed:
            raise UserError(
                "current transaction is aborted, statements are ignored until its end",
                hint="ROLLBACK, or ROLLBACK TO a savepoint",
            )
        try:
            return self._open().sql(text, dialect=self.dialect)
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

    def _controls(self, cursor: Cursor) -> bool:
        """Whether it was a statement about the transaction itself."""
        if cursor.accept("BEGIN") or cursor.accept("START", "TRANSACTION"):
            _ = cursor.accept("WORK") or cursor.accept("TRANSACTION")
            self._start(cursor)
        elif cursor.accept("SET", "TRANSACTION"):
            self._set(cursor)
        elif cursor.accept("COMMIT") or cursor.accept("END"):
            _ = cursor.accept("WORK") or cursor.accept("TRANSACTION")
            cursor.end()
            self._leave(commit=True)
        elif cursor.accept("ROLLBACK") or cursor.accept("ABORT"):
            _ = cursor.accept("WORK") or cursor.accept("TRANSACTION")
            if cursor.accept("TO"):
                cursor.accept("SAVEPOINT")
                self._back(_name(cursor))
            else:
                cursor.end()
                self._leave(commit=False)
        elif cursor.accept("SAVEPOINT"):
            name = _name(cursor)
            self._inside("SAVEPOINT")
            self._savepoints.append((name, self._open().savepoint()))
        elif cursor.accept("RELEASE"):
            cursor.accept("SAVEPOINT")
            self._release(_name(cursor))
        else:
            return False
        return True

    def _start(self, cursor: Cursor) -> None:
        if self._started:
            raise UserError("there is already a transaction in progress", hint="COMMIT or ROLLBACK")
        self._level = READ_COMMITTED
        self._modes(cursor)
        self._started = True

    def _set(self, cursor: Cursor) -> None:
        self._inside("SET TRANSACTION")
        if self._tx is not None:
            raise UserError("SET TRANSACTION ISOLATION LEVEL must be called before any statement")
        self._modes(cursor)

    def _modes(self, cursor: Cursor) -> None:
        if cursor.accept("ISOLATION", "LEVEL"):
            for words, level in _LEVELS.items():
                if cursor.accept(*words.split()):
                    self._level = level
                    break
            else:
                cursor.fail(
                    "an isolation level is expected here", hint=f"one of {', '.join(_LEVELS)}"
                )
        cursor.end()

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

    def _release(self, name: str) -> None:
        self._savepoints = self._savepoints[: self._find(name)]

    def _find(self, name: str) -> int:
        self._inside("a savepoint")
        for place in range(len(self._savepoints) - 1, -1, -1):
            if self._savepoints[place][0] == name:
                return place
        raise UserError(f"savepoint {name} does not exist")

    def _inside(self, what: str) -> None:
        if not self._started:
            raise UserError(f"{what} can only be used in a transaction", hint="BEGIN first")


def _name(cursor: Cursor) -> str:
    name = cursor.part("a savepoint's name").lower()
    cursor.end()
    return name
