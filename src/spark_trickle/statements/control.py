"""Statements about the transaction itself: text in, one small record out."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.statements.text.cursor import Cursor

LEVELS = {
    "READ UNCOMMITTED": "READ COMMITTED",
    "READ COMMITTED": "READ COMMITTED",
    "REPEATABLE READ": "REPEATABLE READ",
    "SERIALIZABLE": "SERIALIZABLE",
}
"""What each level of the standard is here."""


@dataclass(frozen=True)
class Begin:
    """``level``: None if none is named."""

    level: str | None = None


@dataclass(frozen=True)
class SetTransaction:
    level: str | None = None


@dataclass(frozen=True)
class End:
    """COMMIT, or ROLLBACK of all of it."""

    commit: bool


@dataclass(frozen=True)
class Savepoint:
    name: str


@dataclass(frozen=True)
class RollbackTo:
    name: str


@dataclass(frozen=True)
class Release:
    name: str


Control = Begin | SetTransaction | End | Savepoint | RollbackTo | Release


def parse(cursor: Cursor) -> Control | None:
    """The statement at the cursor; None if it is another one."""
    statement = _control(cursor)
    if statement is not None:
        cursor.end()
    return statement


def _control(cursor: Cursor) -> Control | None:
    if cursor.accept("BEGIN") or cursor.accept("START", "TRANSACTION"):
        _skip_noise(cursor)
        return Begin(_level(cursor))
    if cursor.accept("SET", "TRANSACTION"):
        return SetTransaction(_level(cursor))
    if cursor.accept("COMMIT") or cursor.accept("END"):
        _skip_noise(cursor)
        return End(commit=True)
    if cursor.accept("ROLLBACK") or cursor.accept("ABORT"):
        _skip_noise(cursor)
        if not cursor.accept("TO"):
            return End(commit=False)
        cursor.accept("SAVEPOINT")
        return RollbackTo(_name(cursor))
    if cursor.accept("SAVEPOINT"):
        return Savepoint(_name(cursor))
    if cursor.accept("RELEASE"):
        cursor.accept("SAVEPOINT")
        return Release(_name(cursor))
    return None


def _skip_noise(cursor: Cursor) -> None:
    _ = cursor.accept("WORK") or cursor.accept("TRANSACTION")


def _level(cursor: Cursor) -> str | None:
    if not cursor.accept("ISOLATION", "LEVEL"):
        return None
    found = next((level for words, level in LEVELS.items() if cursor.accept(*words.split())), None)
    if found is None:
        cursor.fail("an isolation level is expected here", hint=f"one of {', '.join(LEVELS)}")
    return found


def _name(cursor: Cursor) -> str:
    return cursor.part("a savepoint's name").lower()
