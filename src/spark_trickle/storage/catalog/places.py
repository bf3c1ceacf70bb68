"""Where a lake may be: a folder of this machine, or a PostgreSQL database."""

from __future__ import annotations

import os
import re
from pathlib import Path

from spark_trickle.errors import NotFoundError, UserError
from spark_trickle.storage.files.filesystem import canonical, same_folder

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?:/|$)|(\w+):\w+://")
"""An URL, also one that ``Path`` has made ``s3:/bucket`` of."""
_OBJECTS = ("s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "wasb", "wasbs", "hdfs", "oss")
_KINDS = "a folder, or postgresql://…"
_FILES = "give a folder or an URI such as s3a://bucket/lake"


def folder(location: str) -> Path:
    """The folder that a location names; UserError for what is none, so that none is made by mistake."""
    text = location.strip()
    if not text:
        raise UserError("the lake's location is empty", hint=f"give {_KINDS}")
    found = _SCHEME.match(text)
    if found is not None:
        raise _not_here((found.group(1) or found.group(2)).lower(), text)
    path = Path(canonical(location))
    if path.is_file():
        lake = path.parent if path.name == "catalog.sqlite" else None
        raise UserError(
            f"{path} is a file; a lake is a folder",
            hint=f"give {lake}" if lake else "give the folder that holds catalog.sqlite",
        )
    return path


def check_data_path(path: str) -> None:
    """UserError for what is neither a folder nor an URI of a file system that we reach."""
    if not path.strip():
        raise UserError("data_path is empty", hint=_FILES)
    found = _SCHEME.match(path.strip())
    if found is None:
        return
    scheme = (found.group(1) or found.group(2)).lower()
    if scheme not in ("file", "s3", "s3a", "s3n"):
        raise UserError(f"data files cannot be in {scheme}: {path}", hint=_FILES)
    if "://" not in path and scheme != "file":
        raise UserError(
            f"{path} lacks a slash after {scheme}:/", hint="give an URI as text, not as a Path"
        )


def data_folder(stored: str, given: str | None, usual: str | None) -> str:
    """Where the data files are: as stored, or beside a catalog that was moved or copied with them.

    A copy must not work on the files of the lake it was made of: each would take what the other one
    writes for left over, and remove it.
    """
    place = canonical(stored)
    if "://" not in place and not os.path.isdir(place):
        return given or usual or place
    origin = Path(place).parent
    copied = usual is not None and _is_copy(origin, Path(usual).parent)
    if copied and not os.path.isdir(given or str(usual)):
        raise UserError(
            f"the catalog is a copy of that of the lake in {origin}, and its data files are not here",
            hint=f"copy {place}, too, to {usual}",
        )
    if copied:
        return str(given or usual)
    if given is not None and not same_folder(given, place):
        raise UserError(
            f"the data files of this lake are in {place}, not in {given}",
            hint="leave data_path out; another place needs another lake",
        )
    return place


def _is_copy(origin: Path, here: Path) -> bool:
    return (origin / "catalog.sqlite").is_file() and not same_folder(str(origin), str(here))


def no_lake(place: str) -> NotFoundError:
    return NotFoundError(
        f"there is no lake in {place}", hint="check the spelling, or make one with `trickle init`"
    )


def _not_here(scheme: str, text: str) -> UserError:
    if scheme in _OBJECTS:
        return UserError(
            f"a lake's catalog cannot be in {scheme}: {text}",
            hint=f'data files can: connect("postgresql://…", data_path="{text}")',
        )
    if scheme == "file":
        return UserError(
            f"a folder is named by its path, not by an URL: {text}", hint="leave file: out"
        )
    return UserError(f"a lake cannot be in {scheme}: {text}", hint=f"give {_KINDS}")
