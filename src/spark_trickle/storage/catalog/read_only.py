"""An SQLite catalog that may be read and not written: on a read-only disk, or another user's.

A catalog in WAL mode wants files beside it, which a mere reader cannot make. While somebody has it
open they are there, and SQLite reads along. Otherwise it is copied: SQLite's own way of reading
without them (``immutable``) would answer nonsense if a writer came meanwhile.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import quote

from spark_trickle.errors import CatalogError, TransientError

_BESIDE = ("", "-wal", "-journal")
_Stamp = tuple[tuple[int, int, int] | None, ...]


def may_write(path: Path) -> bool:
    """Whether this process may change the database and make files beside it."""
    there = path.exists()
    return os.access(path.parent, os.W_OK) and (not there or os.access(path, os.W_OK))


class ReadOnlySqlite:
    """Connections to a database that nothing of ours may touch."""

    def __init__(self, path: Path, busy_seconds: float) -> None:
        self._path = path
        self._busy = busy_seconds
        self._lock = threading.Lock()
        self._copy: tuple[_Stamp, tempfile.TemporaryDirectory[str]] | None = None

    def connect(self) -> sqlite3.Connection:
        """A connection for one transaction: what is best may differ at the next."""
        if not self._path.exists():
            raise CatalogError(
                f"there is no catalog at {self._path}, and you may not make one there",
                hint="give the place of a lake, or a folder that you may write",
            )
        if Path(f"{self._path}-wal").exists():
            raw = self._open(self._path, "mode=ro")
            try:
                raw.execute("SELECT 1 FROM sqlite_master LIMIT 1")
                return raw
            except sqlite3.OperationalError:
                raw.close()  # they are not all there, or went away just now
        return self._open(self._copied(), "mode=ro&immutable=1")

    def _open(self, path: Path, options: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"file:{quote(str(path))}?{options}",
            uri=True,
            timeout=self._busy,
            isolation_level=None,
            check_same_thread=False,
        )

    def _copied(self) -> Path:
        """A copy of the newest state; the one at hand as long as nothing has changed."""
        with self._lock:
            stamp = self._stamp()
            if self._copy is None or self._copy[0] != stamp or not self._place(self._copy).exists():
                self._copy = self._new_copy()
            return self._place(self._copy)

    def _place(self, copy: tuple[_Stamp, tempfile.TemporaryDirectory[str]]) -> Path:
        return Path(copy[1].name) / "catalog.sqlite"

    def _new_copy(self) -> tuple[_Stamp, tempfile.TemporaryDirectory[str]]:
        until = time.monotonic() + self._busy
        while time.monotonic() < until:
            folder = tempfile.TemporaryDirectory(prefix="trickle-catalog-")
            target = Path(folder.name) / "catalog.sqlite"
            before = self._stamp()
            for end, found in zip(_BESIDE, before, strict=True):
                if found is not None:
                    try:
                        shutil.copyfile(f"{self._path}{end}", f"{target}{end}")
                    except FileNotFoundError:
                        break  # the stamp will tell
            if self._stamp() == before:
                # Takes over what is only in the log so far, and needs no files beside it then.
                raw = sqlite3.connect(target)
                raw.execute("PRAGMA journal_mode = DELETE")
                raw.close()
                return before, folder
            folder.cleanup()
            time.sleep(0.01)
        raise TransientError(
            f"the catalog {self._path} changed all the time while it was read", hint="try again"
        )

    def _stamp(self) -> _Stamp:
        """Equal twice: nobody wrote in between."""
        found: list[tuple[int, int, int] | None] = []
        for end in _BESIDE:
            try:
                state = os.stat(f"{self._path}{end}")
                found.append((state.st_ino, state.st_size, state.st_mtime_ns))
            except FileNotFoundError:
                found.append(None)
        return tuple(found)

    def close(self) -> None:
        with self._lock:
            if self._copy is not None:
                self._copy[1].cleanup()
                self._copy = None
