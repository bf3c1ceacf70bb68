"""The one way to the files of a lake: a local folder or an object store, whatever its spelling.

Law: inside, a path is either an absolute local path or an ``s3://`` URI, never another spelling of
one: what is listed, what the catalog knows and what a transaction owns can be compared as texts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import quote, unquote

import pyarrow.parquet as pq
from pyarrow import fs as arrow_fs

from spark_trickle.errors import CatalogError, TrickleError, UserError
from spark_trickle.storage.files.disk import writing

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_FILE = re.compile(r"file:(?:/(?!/)|//localhost/|///+)(.*)", re.DOTALL | re.IGNORECASE)
_S3 = "s3://"
_WILD = re.compile(r"[\\{}\[\]*?]")
_KNOWN = ("endpoint", "region", "access_key", "secret_key", "session_token", "path_style")


def canonical(path: str) -> str:
    """The absolute local path or ``s3://`` URI that a spelling means."""
    local = _FILE.fullmatch(path)
    if local:
        return os.path.abspath("/" + unquote(local.group(1)))
    uri = _URI.fullmatch(path)
    if uri is None:
        return os.path.abspath(os.path.expanduser(path))
    scheme, rest = uri.group(1).lower(), uri.group(2)
    if scheme not in ("s3", "s3a", "s3n") or not rest.strip("/"):
        raise CatalogError(
            f"files cannot be kept at {path}",
            hint="give a local folder (a path or file:///…) or s3://bucket/folder",
        )
    return _S3 + re.sub("/+", "/", rest).strip("/")


def as_folder(path: str) -> str:
    """The canonical form of a folder, with a slash at its end."""
    full = canonical(path)
    return full if full.endswith("/") else full + "/"


def check_for_spark(folder: str) -> None:
    """UserError for a folder that Hadoop cannot read: wildcards are escaped, but not beside a colon."""
    if not _stored(folder) and ":" in folder and _WILD.search(folder):
        raise UserError(
            f"Spark cannot read files in {folder}", hint="leave out the colon or any of {}[]*?\\"
        )


def same_folder(one: str, other: str) -> bool:
    """Whether two spellings name one folder; links are followed."""
    places = [canonical(path) for path in (one, other)]
    local = not any(map(_stored, places))
    return places[0] == places[1] or (
        local and os.path.realpath(places[0]) == os.path.realpath(places[1])
    )


def _stored(path: str) -> bool:
    """Whether a canonical path is one of an object store."""
    return path.startswith(_S3)


def checked(storage: Mapping[str, str]) -> Mapping[str, str]:
    """Settings of an object store; UserError for a name that is none."""
    unknown = [name for name in storage if name not in _KNOWN]
    if unknown:
        raise UserError(
            f"Settings.storage has no entry {unknown[0]}", hint=f"it has {', '.join(_KNOWN)}"
        )
    return storage


@dataclass(frozen=True)
class FileSystem:
    """The files of one lake. Every open, look, list, move and removal goes through here."""

    root: str = "/"
    """Folder of the lake's files, canonical, ending in ``/``."""
    storage: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Endpoint and credentials of the object store (``Settings.storage``); never shown."""

    def at(self, path: str) -> tuple[Any, str]:
        """The pyarrow file system of a canonical path, and the path in its terms."""
        return (self._s3, path[len(_S3) :]) if _stored(path) else (_LOCAL, path)

    @cached_property
    def _s3(self) -> Any:
        own = self.storage
        endpoint = own.get("endpoint", "")
        scheme, _, host = endpoint.rpartition("://")
        virtual = own.get("path_style", "true").lower() == "false"
        return arrow_fs.S3FileSystem(
            access_key=own.get("access_key"),
            secret_key=own.get("secret_key"),
            session_token=own.get("session_token"),
            # Without one, the region of a server of one's own would be looked for at Amazon.
            region=own.get("region") or ("us-east-1" if endpoint else None),
            endpoint_override=host or None,
            scheme=scheme or "https",
            force_virtual_addressing=virtual,
        )

    def for_spark(self, path: str) -> str:
        """The path as Hadoop reads it: with its scheme, and nothing escaped."""
        return "s3a://" + path[len(_S3) :] if _stored(path) else "file://" + path

    def pattern(self, path: str) -> str:
        """The path for Spark to read: what Hadoop would take for a wildcard is escaped.

        Spark told not to look for wildcards (``__globPaths__``) reads n such files n times each.
        """
        return _WILD.sub(r"\\\g<0>", self.for_spark(path))

    def stored(self, path: str) -> bool:
        """Whether it is in an object store: there nothing can be moved, and each look is a request."""
        return _stored(path)

    def escaped(self, path: str) -> str:
        """The path in a store as a URI for Hadoop."""
        return "s3a://" + quote(path[len(_S3) :])

    # Parquet

    def parquet(
        self, path: str, footer: Any = None, dictionaries: Sequence[str] = ()
    ) -> pq.ParquetFile:
        """The file, open; of some columns with texts come the numbers in their dictionaries."""
        system, inner = self.at(path)
        return pq.ParquetFile(
            inner, filesystem=system, metadata=footer, read_dictionary=list(dictionaries)
        )

    def footer(self, path: str) -> Any:
        system, inner = self.at(path)
        return pq.read_metadata(inner, filesystem=system)

    @contextmanager
    def output(self, path: str) -> Iterator[Any]:
        """A stream that makes the file and the folder it is in; nothing half-written stays."""
        system, inner = self.at(path)
        with writing(path):
            if not _stored(path):
                os.makedirs(os.path.dirname(inner), exist_ok=True)
            try:
                with system.open_output_stream(inner) as sink:
                    yield sink
            except BaseException:
                with suppress(TrickleError):  # the error that ended the writing is the one to show
                    self.remove(path)
                raise

    # Files

    def make_folder(self, path: str) -> None:
        """An object store has no folders to make."""
        if not _stored(path):
            with writing(path):
                os.makedirs(path, exist_ok=True)

    def sync(self, paths: Iterable[str]) -> None:
        """Force files and the folders that name them to disk: a commit must not outlive its files."""
        local = [path for path in paths if not _stored(path)]
        for path in [*local, *{os.path.dirname(path) for path in local}]:
            with writing(path):
                _fsync(path)

    def exists(self, path: str) -> bool:
        system, inner = self.at(path)
        return bool(system.get_file_info(inner).type != arrow_fs.FileType.NotFound)

    def missing(self, paths: Iterable[str]) -> str | None:
        """A file that is not there, if they are local: a store would be asked once for each."""
        local = (path for path in paths if not _stored(path))
        return next((path for path in local if not os.path.exists(path)), None)

    def size(self, path: str) -> int:
        system, inner = self.at(path)
        info = system.get_file_info(inner)
        if info.type == arrow_fs.FileType.NotFound:
            raise FileNotFoundError(path)
        return int(info.size)

    def list(self, folder: str, *, recursive: bool = True) -> list[tuple[str, float]]:
        """The files below a folder with their times of modification in seconds."""
        system, inner = self.at(folder)
        inner = inner.rstrip("/") or "/"
        selector = arrow_fs.FileSelector(inner, recursive=recursive, allow_not_found=True)
        prefix = _S3 if _stored(folder) else ""
        return [
            (prefix + info.path, info.mtime.timestamp() if info.mtime else 0.0)
            for info in system.get_file_info(selector)
            if info.is_file
        ]

    def move(self, path: str, target: str) -> None:
        """Give a local file another name."""
        with writing(target):
            os.replace(path, target)

    def remove(self, path: str, but: frozenset[str] = frozenset()) -> bool:
        """Remove a file, or a folder with all in it except the files of ``but``; whether any went."""
        if path in but:
            return False
        system, inner = self.at(path)
        with writing(path):
            if _stored(path) and path.endswith(".parquet"):  # what it is need not be asked
                try:
                    system.delete_file(inner)
                except FileNotFoundError:
                    return False
                return True
            kind = system.get_file_info(inner.rstrip("/")).type
            if kind == arrow_fs.FileType.NotFound:
                return False
            if kind != arrow_fs.FileType.Directory:
                system.delete_file(inner)
            elif any(kept.startswith(path.rstrip("/") + "/") for kept in but):
                rest = [found for found, _ in self.list(path) if found not in but]
                return sum(self.remove(found) for found in rest) > 0
            else:
                system.delete_dir(inner)
        return True

    def identity(self, path: str) -> str:
        """What two names of one file have in common: links are followed."""
        return os.path.realpath(path) if not _stored(path) else path


_LOCAL = arrow_fs.LocalFileSystem()


def _fsync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
