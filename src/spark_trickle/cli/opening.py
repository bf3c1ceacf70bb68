"""Which lake a command is about: ``--lake``, else TRICKLE_LAKE, else ``trickle.toml``, else ``./lake``."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_trickle.errors import UserError

if TYPE_CHECKING:
    from spark_trickle.lake import Lake

VARIABLE, FILE, USUAL = "TRICKLE_LAKE", "trickle.toml", "./lake"
_KEYS = ("lake", "data_path")

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


def place(lake: str | None, data_path: str | None) -> tuple[str, str | None]:
    """The lake's location and its data path."""
    if lake is not None:
        return lake, data_path
    named = os.environ.get(VARIABLE)
    if named is not None:
        return named, data_path
    found = _from_file()
    return (found[0], data_path or found[1]) if found else (USUAL, data_path)


def open_lake(lake: str | None, data_path: str | None, *, create: bool = False) -> Lake:
    """The lake; one that is not there is an error unless it is to be made."""
    import spark_trickle

    location, files = place(lake, data_path)
    return spark_trickle.connect(location, data_path=files, create=create)


def _from_file() -> tuple[str, str | None] | None:
    for folder in (Path.cwd(), *Path.cwd().parents):
        path = folder / FILE
        if path.is_file():
            return _read(path)
    return None


def _read(path: Path) -> tuple[str, str | None]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    unknown = sorted(values.keys() - set(_KEYS))
    if unknown or "lake" not in values or not all(isinstance(v, str) for v in values.values()):
        what = f"it has {', '.join(unknown)}" if unknown else "it names no lake"
        raise UserError(f"{path}: {what}", hint='write lake = "…", and data_path = "…" if need be')
    files = values.get("data_path")
    return _beside(path, values["lake"]), None if files is None else _beside(path, files)


def _beside(path: Path, text: str) -> str:
    """A folder is meant from the file that names it."""
    return text if "://" in text or not text.strip() else str(path.parent / text)
