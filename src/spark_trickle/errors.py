"""Every exception spark-trickle raises; the class says what a caller should do next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True)
class Position:
    """A stretch of SQL text, shown under an error with carets. Lines and columns start at 1."""

    sql: str
    line: int
    column: int
    length: int = 1

    @classmethod
    def of_span(cls, sql: str, start: int, end: int) -> Position:
        """The position of ``sql[start:end]``."""
        before = sql[:start]
        line = before.count("\n") + 1
        column = start - (before.rfind("\n") + 1) + 1
        return cls(sql, line, column, max(1, end - start))

    def caret(self) -> str:
        """The line of SQL with carets under the stretch."""
        text = self.sql.split("\n")[self.line - 1]
        length = max(1, min(self.length, len(text) - self.column + 1))
        number = f"{self.line:>3}"
        return f"{number} | {text}\n{' ' * len(number)} | {' ' * (self.column - 1)}{'^' * length}"


class TrickleError(Exception):
    """The base of all errors: a message, and where it helps a position and a hint."""

    def __init__(
        self, message: str, *, position: Position | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.message]
        if self.position is not None:
            lines.append(self.position.caret())
        if self.hint is not None:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class UserError(TrickleError):
    """The request is at fault: the same request will fail again."""


class ParseError(UserError):
    """The text is not SQL."""


class BindError(UserError):
    """The SQL names or combines things that do not exist or do not fit."""


class UnsupportedQueryError(UserError):
    """The query is legal, but cannot be maintained the way it was asked for."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        position: Position | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, position=position, hint=hint)
        self.code = code


class CycleError(UserError):
    """A stream table would depend on itself."""


class NotFoundError(UserError):
    """A name that does not exist."""


class AlreadyExistsError(UserError):
    """A name that is taken."""


class InvalidDataError(UserError):
    """A value does not fit its column: wrong type, NULL into NOT NULL, out of range."""


class DependencyError(UserError):
    """Other objects depend on the one that was to be changed or dropped."""


class ExecutionError(UserError):
    """Spark refused or failed the query; the message is Spark's own, without its stack trace."""


class CatalogError(UserError):
    """The catalog or a file of the lake is missing, damaged or of a version we do not read."""


class StorageFullError(UserError):
    """No space is left where the lake keeps its files; nothing was committed."""


class ReadOnlyError(CatalogError):
    """The statement writes, and the lake may only be read: by this user, or on this machine."""


class SourceChangedError(TrickleError):
    """A source no longer offers what a stream table was built on: reinitialise it."""


class TransientError(TrickleError):
    """Nothing is wrong with the request: try again."""


class RefreshError(TrickleError):
    """Some of several stream tables could not be refreshed; ``reports`` has what became of each."""

    def __init__(
        self, message: str, *, reports: tuple[object, ...] = (), hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.reports = reports


class CommitConflictError(TransientError):
    """Another writer committed first; the message says which table moved."""


class CommitUnknownError(TrickleError):
    """The connection broke during COMMIT: look whether it took effect before you try again."""


class QuarantineWarning(UserWarning):
    """A stream table was read that is out of service: its rows are those of its last good refresh,
    or were damaged since."""


class SuspendedWarning(UserWarning):
    """An IMMEDIATE stream table was read that is suspended: it does not follow its sources."""


class NoticeWarning(UserWarning):
    """Something was done that was not asked for by name, or asked for and not kept: PostgreSQL's NOTICE."""


class InternalError(TrickleError):
    """A bug in spark-trickle; carries the explain text where there is one."""


class InvariantError(InternalError):
    """A refresh met a state that cannot be: the stream table needs to be reinitialised."""

    stream: str | None = None
    """The uuid of the stream table, where a transaction met it."""


NameHint = Callable[[str, Iterable[str]], str]
"""What to say about a name that is not there; given the name and those in reach."""


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """``did you mean …?`` if something known looks similar."""
    by_lower = {word.lower(): word for word in known}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean {by_lower[close[0]]}?" if close else None


def names_hint(name: str, known: Iterable[str], what: str = "tables") -> str:
    """What to say about a name that does not exist: a similar one, or those that there are."""
    names = sorted(known)
    if not names:
        return f"there are no {what} yet"
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return suggestion(name, names) or f"there are: {shown}"


def invalid_text(place: str = "") -> InvalidDataError:
    """A text whose bytes are no UTF-8: Spark makes such of bytes, and nobody else can read them."""
    return InvalidDataError(
        f"a text{place} is not valid UTF-8",
        hint="keep such bytes in a BINARY column, or mend the text with make_valid_utf8(…)",
    )
