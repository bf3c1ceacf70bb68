"""Which lake a command is about: ``--lake``, else TRICKLE_LAKE, else ``trickle.toml``, else ``./lake``."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_trickle.errors import UserError
from spark_trickle.settings import Settings

if TYPE_CHECKING:
    from spark_trickle.lake import Lake

VARIABLE, FILE, USUAL = "TRICKLE_LAKE", "trickle.toml", "./lake"
_TEXTS, _TABLES = ("lake", "data_path"), ("storage", "spark")
_HINT = 'write lake = "…"; and if need be data_path = "…", tables [storage] and [spark] of texts'

LakeOption = Annotated[
    str | None,
    typer.Option(
        "--lake",
        help=f"Folder or postgresql:// URL. Else {VARIABLE}, {FILE} here or above, {USUAL}.",
        show_default=False,
    ),
]
DataPathOption = Annotated[
    str | None, typer.Option("--data-path", help="Where the data files are.", show_default=False)
]


@dataclass(frozen=True)
class Place:
    """Where a lake is, and what the file that names it says of its storage and of Spark."""

    location: str
    data_path: str | None = None
    settings: Settings = field(default_factory=Settings)


def place(lake: str | None, data_path: str | None) -> Place:
    """The lake that a command is about."""
    if lake is not None:
        return Place(lake, data_path)
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Place(named, data_path)
    found = _from_file() or Place(USUAL)
    return replace(found, data_path=data_path or found.data_path)


def open_lake(lake: str | None, data_path: str | None, *, create: bool = False) -> Lake:
    """The lake; one that is not there is an error unless it is to be made."""
    import spark_trickle

    found = place(lake, data_path)
    return spark_trickle.connect(
        found.location, data_path=found.data_path, settings=found.settings, create=create
    )


def _from_file() -> Place | None:
    for folder in (Path.cwd(), *Path.cwd().parents):
        path = folder / FILE
        if path.is_file():
            return _read(path)
    return None


def _read(path: Path) -> Place:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    unknown = sorted(values.keys() - {*_TEXTS, *_TABLES})
    if unknown or "lake" not in values:
        what = f"it has {', '.join(unknown)}" if unknown else "it names no lake"
        raise UserError(f"{path}: {what}", hint=_HINT)
    tables = {name: values.pop(name) for name in _TABLES if name in values}
    if not all(isinstance(table, dict) for table in tables.values()) or not all(
        isinstance(text, str) for part in (values, *tables.values()) for text in part.values()
    ):
        raise UserError(f"{path}: what it says must be texts", hint=_HINT)
    files = values.get("data_path")
    return Place(
        _beside(path, values["lake"]),
        None if files is None else _beside(path, files),
        Settings(**tables),
    )


def _beside(path: Path, text: str) -> str:
    """A folder is meant from the file that names it."""
    return text if "://" in text or not text.strip() else str(path.parent / text)
