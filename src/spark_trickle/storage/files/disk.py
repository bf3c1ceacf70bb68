"""The file system below the data files: names, durable writes, and errors in our own words."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs as arrow_fs

from spark_trickle.errors import CatalogError, StorageFullError, TrickleError


def is_uri(path: str) -> bool:
    return "://" in path


def as_folder(path: str) -> str:
    """An absolute folder or URI with a slash at its end."""
    full = path if is_uri(path) else str(Path(path).absolute())
    return full if full.endswith("/") else full + "/"


def same_folder(one: str, other: str) -> bool:
    """Whether two paths or URIs name one folder."""
    names = [re.sub(r"^s3[an]?://", "s3://", as_folder(path)) for path in (one, other)]
    local = not any(map(is_uri, names))
    return names[0] == names[1] or (local and os.path.realpath(one) == os.path.realpath(other))


def file_system(path: str) -> tuple[Any, str]:
    """The pyarrow file system of a path or URI, and the path in its terms."""
    if not is_uri(path):
        return arrow_fs.LocalFileSystem(), path
    scheme, rest = path.split("://", 1)
    scheme = {"s3a": "s3", "s3n": "s3", "gs": "gs"}.get(scheme, scheme)
    system, inner = arrow_fs.FileSystem.from_uri(f"{scheme}://{rest}")
    return system, inner


@contextmanager
def reading(path: str, table: object) -> Iterator[None]:
    """Turns a missing or damaged file into an error that names file and table."""
    try:
        yield
    except FileNotFoundError as error:
        raise missing_file(path, table) from error
    except (pa.ArrowInvalid, OSError) as error:
        raise CatalogError(
            f"the data file {path} of table {table} cannot be read: {_first_line(error)}",
            hint="restore the file from a backup",
        ) from error


def missing_file(path: str, table: object) -> CatalogError:
    return CatalogError(
        f"the data file {path} of table {table} is missing",
        hint="restore the file; it was removed by something other than this lake",
    )


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Turns a full disk and other failures of writing into errors that name the path."""
    try:
        yield
    except OSError as error:
        raise translate(error, path) from error


def translate(error: OSError, path: str) -> TrickleError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if full or "No space left" in str(error):
        return StorageFullError(
            f"no space is left to write {path}; nothing was committed",
            hint="free space and try again",
        )
    return CatalogError(f"{path} cannot be written: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__


def make_folder(path: str) -> None:
    if not is_uri(path):
        with writing(path):
            os.makedirs(path, exist_ok=True)


def sync(paths: Iterable[str]) -> None:
    """Force files and the folders that name them to disk: a commit must not outlive its files."""
    folders = set()
    for path in paths:
        if is_uri(path):
            continue
        with writing(path):
            _fsync(path)
        folders.add(os.path.dirname(path))
    for folder in folders:
        with writing(folder):
            _fsync(folder)


def _fsync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: str) -> bool:
    """Remove a file or a folder with all in it; whether there was one."""
    system, inner = file_system(path)
    kind = system.get_file_info(inner).type
    if kind == arrow_fs.FileType.NotFound:
        return False
    with writing(path):
        if kind == arrow_fs.FileType.Directory:
            system.delete_dir(inner)
        else:
            system.delete_file(inner)
    return True


def size(path: str) -> int:
    system, inner = file_system(path)
    info = system.get_file_info(inner)
    if info.type == arrow_fs.FileType.NotFound:
        raise FileNotFoundError(path)
    return int(info.size)


def list_files(folder: str) -> list[tuple[str, float]]:
    """All files below a folder with their times of modification in seconds."""
    system, inner = file_system(folder)
    selector = arrow_fs.FileSelector(inner, recursive=True, allow_not_found=True)
    prefix = folder[: len(folder) - len(inner)] if folder.endswith(inner) else ""
    return [
        (prefix + info.path, info.mtime.timestamp() if info.mtime else 0.0)
        for info in system.get_file_info(selector)
        if info.is_file
    ]
