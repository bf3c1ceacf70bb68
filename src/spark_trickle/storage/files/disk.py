"""Failures of the storage below the data files, as errors in our own words."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from spark_trickle.errors import CatalogError, ReadOnlyError, StorageFullError, TrickleError

LOST_FILE = (
    "if its version has expired meanwhile, make the query or the transaction anew; "
    "if the catalog still lists the file, restore it, or expire the versions that need it"
)


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
        hint=LOST_FILE,
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
    refused = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    if refused or "ACCESS_DENIED" in str(error):
        return ReadOnlyError(
            f"the lake is read-only for you: {path} cannot be written: {_first_line(error)}",
            hint="queries work; to write, get the permission to write there",
        )
    return CatalogError(f"{path} cannot be written: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__
