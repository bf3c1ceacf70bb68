"""A catalog in PostgreSQL: one write lock, and commits whose outcome can be found out later."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from spark_trickle.errors import (
    CatalogError,
    CommitUnknownError,
    ReadOnlyError,
    StorageFullError,
    TransientError,
)
from spark_trickle.storage.catalog.database import CHANNEL, Connection, Pool, Row, quoted

_MARKS = """CREATE TABLE IF NOT EXISTS trickle_commit (
    writer VARCHAR PRIMARY KEY, number BIGINT NOT NULL, at TIMESTAMP WITH TIME ZONE NOT NULL)"""
_FORGET = "DELETE FROM trickle_commit WHERE at < now() - interval '7 days'"
_MARK = """INSERT INTO trickle_commit VALUES (?, ?, now())
    ON CONFLICT (writer) DO UPDATE SET number = excluded.number, at = excluded.at"""
_MARKED = "SELECT 1 FROM trickle_commit WHERE writer = ? AND number = ?"
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# READ COMMITTED: what is read under the lock must be newer than the wait for it. READ WRITE: a
# standby refuses it, and so never answers for its primary.
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"


@dataclass
class _Session:
    """One connection as the pool keeps it, and what its commits are known by."""

    raw: Any
    writer: str = field(default_factory=lambda: str(uuid.uuid4()))
    number: int = 0
    """How many write transactions it has begun to commit."""
    marks: bool = False
    """Whether the table of marks is known to be there."""

    def close(self) -> None:
        self.raw.close()


class _PostgresConnection:
    kind = "postgres"

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        cursor = self._raw.execute(_pyformat(sql), parameters)
        return cursor.fetchall() if cursor.description is not None else []

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            with self._raw.cursor() as cursor:
                cursor.executemany(_pyformat(sql), rows)

    def has_table(self, name: str) -> bool:
        return self.execute("SELECT to_regclass(?)", (quoted(name),))[0][0] is not None


def _pyformat(sql: str) -> str:
    """``?`` becomes ``%s``, except inside quoted identifiers."""
    parts = sql.replace("%", "%%").split('"')
    return '"'.join(p if i % 2 else p.replace("?", "%s") for i, p in enumerate(parts))


class PostgresDatabase:
    """One advisory lock serialises our commits; the snapshot's primary key guards against others.

    Every commit leaves a mark, the newest one of each connection, in ``trickle_commit``. When the
    connection breaks during COMMIT, the mark tells whether it took effect: a version number would
    not, since another writer may have taken it.
    """

    kind = "postgres"
    LOCK = 7_310_579_604_217

    def __init__(self, url: str, busy_seconds: float) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise CatalogError(
                "a PostgreSQL catalog needs the package psycopg",
                hint="pip install 'spark-trickle[postgres]'",
            ) from error
        self._psycopg = psycopg
        self._url = url
        self._busy = busy_seconds
        secret = "@" in url or "password" in url.lower()
        self.name = psycopg.conninfo.make_conninfo(url, password="***") if secret else url
        self._pool = Pool(self._session, lambda session: not session.raw.closed)

    def _session(self) -> _Session:
        with self._translated():
            return _Session(self._connect(self._busy))

    def _connect(self, lock_seconds: float, **options: Any) -> Any:
        raw = self._psycopg.connect(self._url, autocommit=True, **options)
        raw.execute(f"SET lock_timeout = {max(1, int(lock_seconds * 1000))}")
        raw.execute("SET client_min_messages = warning")
        return raw

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._transaction(_READ) as session:
            yield _PostgresConnection(session.raw)
            session.raw.execute("COMMIT")

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self._transaction(_WRITE) as session:
            connection = _PostgresConnection(session.raw)
            connection.execute("SELECT pg_advisory_xact_lock(?)", (self.LOCK,))
            yield connection
            _mark(connection, session)
            self._commit(session)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[_Session]:
        with self._pool.connection() as session, self._translated(begin):
            self._begin(session, begin)
            try:
                yield session
            except BaseException:
                if not session.raw.closed:
                    session.raw.execute("ROLLBACK")
                raise

    def _begin(self, session: _Session, begin: str) -> None:
        try:
            session.raw.execute(begin)
        except self._psycopg.OperationalError:
            if not session.raw.closed:
                raise
            # It broke while it was idle: nothing was asked of it yet.
            session.raw = self._connect(self._busy)
            session.raw.execute(begin)

    # Commit

    def _commit(self, session: _Session) -> None:
        try:
            session.raw.execute("COMMIT", prepare=False)
        except self._psycopg.Error as lost:
            if not session.raw.closed:
                raise  # the server's own word: nothing was committed
            if not self._took_effect(session, lost):
                raise TransientError(
                    f"the connection to the catalog {self.name} broke before the commit took "
                    "effect: nothing was committed",
                    hint="try again",
                ) from lost
        session.marks = True

    def _took_effect(self, session: _Session, lost: Exception) -> bool:
        """Whether a commit without an answer is in the catalog; CommitUnknownError if nobody says."""
        until = time.monotonic() + self._busy
        while True:
            try:
                return self._has_mark(session, until - time.monotonic())
            except self._psycopg.Error:
                if time.monotonic() > until:
                    raise self._unknown(session) from lost
                time.sleep(min(0.2, self._busy))

    def _has_mark(self, session: _Session, seconds: float) -> bool:
        patience = {"connect_timeout": max(2, int(seconds)), "tcp_user_timeout": 30_000}
        with self._connect(seconds, **patience) as raw:
            connection = _PostgresConnection(raw)
            connection.execute(_WRITE)
            # The lock comes free when the server has ended the other transaction, either way.
            connection.execute("SELECT pg_advisory_xact_lock(?)", (self.LOCK,))
            if not connection.has_table("trickle_commit"):
                return False
            return bool(connection.execute(_MARKED, (session.writer, session.number)))

    def _unknown(self, session: _Session) -> CommitUnknownError:
        return CommitUnknownError(
            f"the connection to the catalog {self.name} broke during COMMIT and the server cannot "
            "be asked: the commit may or may not have taken effect",
            hint="when the server is back, run in the catalog's database: SELECT 1 FROM "
            f"trickle_commit WHERE writer = '{session.writer}' AND number = {session.number}. "
            "A row: it was committed. No row (within 7 days): it was not, and may be done again. "
            "All files are still there; remove_orphans takes those that nothing needs",
        )

    @contextmanager
    def _translated(self, begin: str = _READ) -> Iterator[None]:
        errors = self._psycopg.errors
        try:
            yield
        except (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction) as e:
            text = str(e).strip().split("\n")[0]
            if begin is not _WRITE:
                raise CatalogError(f"the catalog {self.name} cannot be read: {text}") from e
            raise ReadOnlyError(
                f"the lake is read-only for you: the catalog {self.name} cannot be written: {text}",
                hint="queries work; to write, connect as a role that may change the catalog",
            ) from e
        except (errors.LockNotAvailable, errors.UniqueViolation, errors.SerializationFailure) as e:
            raise TransientError(
                f"the catalog {self.name} was held by another writer", hint="try again"
            ) from e
        except errors.DiskFull as e:
            raise StorageFullError(
                f"no space is left for the catalog {self.name}", hint="free space and try again"
            ) from e
        except self._psycopg.Error as e:
            text = str(e).strip().split("\n")[0]
            raise CatalogError(f"the catalog {self.name} cannot be used: {text}") from e

    def listen(self, callback: Callable[[], None], over: threading.Event) -> None:
        """A connection of its own that waits for the notice every commit gives."""
        while not over.is_set():
            try:
                with self._connect(self._busy) as raw:
                    raw.execute(f"LISTEN {CHANNEL}")
                    while not over.is_set():
                        for _ in raw.notifies(timeout=0.5):
                            callback()
            except self._psycopg.Error:
                over.wait(1.0)  # polling goes on meanwhile

    def close(self) -> None:
        self._pool.close()


def _mark(connection: Connection, session: _Session) -> None:
    if not session.marks:
        connection.execute(_MARKS)
        connection.execute(_FORGET)
    session.number += 1
    connection.execute(_MARK, (session.writer, session.number))
