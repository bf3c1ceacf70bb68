"""The database that holds the catalog, behind one small interface; who waits for its commits; and SQLite
as such a one."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from spark_trickle.errors import (
    CatalogError,
    ReadOnlyError,
    StorageFullError,
    TransientError,
    TrickleError,
)
from spark_trickle.storage.catalog.read_only import ReadOnlySqlite, may_write

Row = tuple[Any, ...]
_PART = 500

CHANNEL = "trickle_commit"
"""What PostgreSQL notifies on, in the transaction that commits a version."""
_waiting: dict[str, list[Callable[[], None]]] = {}
_waiting_lock = threading.Lock()


class Connection(Protocol):
    """A catalog connection inside a database transaction. Placeholders are ``?``."""

    kind: str
    """``sqlite`` or ``postgres``: for the few statements that differ."""

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run one statement; the rows it answers, if any."""

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each row of parameters."""

    def has_table(self, name: str) -> bool:
        """Whether the database has a table of exactly that name."""


class Database(Protocol):
    kind: str
    name: str
    """What error messages call it."""

    def reading(self) -> Any:
        """A context with one consistent read transaction."""

    def writing(self) -> Any:
        """A context with the lake's write lock; commits at its end, rolls back on an exception.

        An exception means that nothing was committed, but for CommitUnknownError and, since they
        come at any moment, those that are no ``Exception`` (KeyboardInterrupt).
        """

    def listen(self, callback: Callable[[], None], over: threading.Event) -> None:
        """Call back after each commit of any process until ``over``; returns at once if it cannot."""

    def close(self) -> None:
        """Close all connections."""


def quoted(name: str) -> str:
    """An SQL identifier, quoted."""
    return '"' + name.replace('"', '""') + '"'


def in_parts(values: Sequence[Any]) -> Iterator[tuple[Sequence[Any], str]]:
    """Values in parts that fit one statement, each with its placeholders."""
    for start in range(0, len(values), _PART):
        part = values[start : start + _PART]
        yield part, ", ".join("?" * len(part))


def now() -> str:
    """The time as catalogs write it."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f+00")


def tell_committed(lake: str) -> None:
    """Call those who wait for a version: this process committed one."""
    with _waiting_lock:
        waiting = list(_waiting.get(lake, ()))
    for callback in waiting:
        callback()


@contextmanager
def told_of_commits(lake: str, callback: Callable[[], None]) -> Iterator[None]:
    """Have ``callback`` called after each commit of this process, as long as the block runs."""
    with _waiting_lock:
        _waiting.setdefault(lake, []).append(callback)
    try:
        yield
    finally:
        with _waiting_lock:
            _waiting[lake].remove(callback)


class Pool:
    """Idle connections. A forked child starts with none: it must not touch its parent's."""

    def __init__(
        self, connect: Callable[[], Any], usable: Callable[[Any], bool] = lambda _: True
    ) -> None:
        self._connect = connect
        self._usable = usable
        self._idle: list[Any] = []
        self._lock = threading.Lock()
        self._owner = os.getpid()

    @contextmanager
    def connection(self) -> Iterator[Any]:
        with self._lock:
            if self._owner != os.getpid():
                self._idle, self._owner = [], os.getpid()
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect()
        healthy = False
        try:
            yield connection
            healthy = True
        except TrickleError:
            healthy = True
            raise
        finally:
            if healthy and len(self._idle) < 8 and self._usable(connection):
                with self._lock:
                    self._idle.append(connection)
            else:
                connection.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        if self._owner == os.getpid():
            for connection in idle:
                connection.close()


_LONG, _COURTESY = 0.02, 0.005
"""Seconds: who held the write lock for so long lets others have it for a moment."""
_STATEMENTS = 1_000
"""So many are kept prepared: a commit that ten stream tables follow has a hundred of its own."""
_PATIENCE = 0.3
"""Seconds: who has waited for the lock for so long asks more often than all others."""


def _pause(waited: float) -> float:
    """Until the lock is asked for again: longer and longer, so that one writer may commit several
    times in a row, which is quick; then very short."""
    return min(0.025, 0.001 + waited / 2) if waited < _PATIENCE else 0.001


def _read(raw: sqlite3.Connection) -> None:
    raw.execute("BEGIN")


class _SqliteConnection:
    kind = "sqlite"

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self._raw.execute(sql, parameters).fetchall()

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            self._raw.executemany(sql, rows)

    def has_table(self, name: str) -> bool:
        # By name, where sqlite_master would be looked through: a lake may have thousands of tables.
        return bool(self.execute("SELECT 1 FROM pragma_table_info(?) LIMIT 1", (name,)))


class SqliteDatabase:
    """WAL: readers never wait for the writer, nor the writer for readers (DuckDB among them)."""

    kind = "sqlite"

    def __init__(self, path: Path, busy_seconds: float) -> None:
        self.name = str(path)
        self._path = path
        self._busy = busy_seconds
        self._pool = Pool(self._connect)
        self._read_only = None if may_write(path) else ReadOnlySqlite(path, busy_seconds)
        self._let_others = 0.0
        """Until when this process leaves the write lock to others."""

    def _connect(self) -> sqlite3.Connection:
        with self._translated():
            raw = sqlite3.connect(
                self._path,
                timeout=self._busy,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=_STATEMENTS,
            )
            raw.execute("PRAGMA journal_mode = WAL")
            raw.execute("PRAGMA synchronous = FULL")
        return raw

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._connection() as raw, self._transaction(raw, _read) as connection:
            yield connection

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self._read_only is None:
            with self._pool.connection() as raw:
                yield raw
            return
        with self._translated():
            raw = self._read_only.connect()
        try:
            yield raw
        finally:
            raw.close()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        if self._read_only is not None:
            raise self._refused()
        with self._pool.connection() as raw, self._transaction(raw, self._lock) as own:
            began = time.monotonic()
            try:
                yield own
            finally:
                ended = time.monotonic()
                if ended - began > _LONG:
                    self._let_others = ended + _COURTESY

    @contextmanager
    def _transaction(
        self, raw: sqlite3.Connection, begin: Callable[[sqlite3.Connection], object]
    ) -> Iterator[Connection]:
        with self._translated():
            begin(raw)
            try:
                yield _SqliteConnection(raw)
                raw.execute("COMMIT")
            except BaseException:
                if raw.in_transaction:
                    raw.execute("ROLLBACK")
                raise

    def _lock(self, raw: sqlite3.Connection) -> None:
        """Take the write lock. SQLite's own wait asks ever more rarely, so that who came last is
        first; here who has waited for long is."""
        began = time.monotonic()
        if self._let_others > began:
            time.sleep(self._let_others - began)
        raw.execute("PRAGMA busy_timeout = 0")
        try:
            while True:
                try:
                    raw.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    waited = time.monotonic() - began
                    if "locked" not in str(error) or waited > self._busy:
                        raise
                time.sleep(random.uniform(0.5, 1.5) * _pause(waited))
        finally:
            raw.execute(f"PRAGMA busy_timeout = {int(self._busy * 1000)}")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise self._translate(error) from error

    def _translate(self, error: sqlite3.DatabaseError) -> TrickleError:
        text = str(error)
        if "is full" in text:
            return StorageFullError(
                f"no space is left for the catalog {self.name}", hint="free space and try again"
            )
        if "locked" in text or "busy" in text:
            return TransientError(
                f"the catalog {self.name} stayed locked for {self._busy:g} s",
                hint="another process holds the write lock; try again",
            )
        if "readonly database" in text:
            return self._refused()
        if "not a database" in text:
            return CatalogError(f"{self.name} is not a catalog: it is not an SQLite database")
        return CatalogError(f"the catalog {self.name} cannot be used: {text}")

    def _refused(self) -> ReadOnlyError:
        return ReadOnlyError(
            f"the lake is read-only for you: the catalog {self.name} cannot be written",
            hint="queries work; to write, get the permission to write the catalog and its folder",
        )

    def listen(self, callback: Callable[[], None], over: threading.Event) -> None:
        """SQLite tells nobody: the catalog is polled."""

    def close(self) -> None:
        self._pool.close()
        if self._read_only is not None:
            self._read_only.close()
