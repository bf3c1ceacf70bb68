"""What the commands print: tables that fit a terminal, plain text in a pipe, formats for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from spark_trickle import formats
from spark_trickle.errors import CatalogError, TrickleError

console = Console()
_errors = Console(stderr=True)
_NEVER_CUT = ("name", "mode", "status", "table", "code")
"""Columns of our own listings with these words in their names are shown whole."""


class Format(StrEnum):
    """How rows are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    MARKDOWN = "markdown"


def write(data: pa.Table, form: Format, output: Path | None, *, more: bool = False) -> None:
    """Rows to a file or to standard output."""
    if output is None:
        _write(data, form, sys.stdout, to_file=False)
    else:
        try:
            with output.open("w", encoding="utf-8", newline="") as file:
                _write(data, form, file, to_file=True)
        except OSError as error:
            raise CatalogError(f"{output} cannot be written: {error.strerror or error}") from None
    if more:
        note("… and more rows; use --limit to see them")


def _write(data: pa.Table, form: Format, file: TextIO, *, to_file: bool) -> None:
    match form:
        case Format.CSV:
            formats.csv(data, file)
        case Format.JSON:
            formats.json_array(data, file)
        case Format.JSONL:
            formats.json_lines(data, file)
        case Format.MARKDOWN:
            formats.markdown(data, file)
        case Format.TABLE if to_file or not console.is_terminal:
            formats.plain(data, file)
        case Format.TABLE:
            rows(data)


def rows(data: pa.Table) -> None:
    """A table as wide as the terminal; where names would not fit, one line for each value."""
    if not console.is_terminal:
        formats.plain(data, sys.stdout)
        return
    cells = formats.cells(data)
    widths = [
        max(_longest(column), len(f.name)) for column, f in zip(cells, data.schema, strict=True)
    ]
    whole = [_is_whole(field, width) for field, width in zip(data.schema, widths, strict=True)]
    needed = sum(w if keep else min(w, 8) for w, keep in zip(widths, whole, strict=True))
    if needed + 3 * len(widths) + 1 > console.width:
        _records(data.schema.names, cells)
        return
    shown = Table(header_style="bold")
    for field, width, keep in zip(data.schema, widths, whole, strict=True):
        shown.add_column(
            Text(field.name),
            justify="right" if formats.is_number(field.type) else "left",
            no_wrap=keep,
            overflow="fold",
            min_width=width if keep else None,
        )
    for record in zip(*cells, strict=True):
        shown.add_row(*(_styled(cell) for cell in record))
    console.print(shown)


def _is_whole(field: pa.Field, width: int) -> bool:
    name = field.name.lower()
    return formats.is_number(field.type) or width <= 12 or any(word in name for word in _NEVER_CUT)


def _longest(column: Sequence[str]) -> int:
    return max((len(line) for cell in column for line in cell.split("\n")), default=0)


def _records(names: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    space = max(map(len, names), default=0)
    for number, record in enumerate(zip(*cells, strict=True), 1):
        console.print(Text(f"row {number}", style="bold"))
        for name, cell in zip(names, record, strict=True):
            console.print(Text(f"{name:<{space}}  ").append_text(_styled(cell)), soft_wrap=True)


def _styled(cell: str) -> Text:
    return Text(cell, style="dim") if cell == formats.NULL else Text(cell)


def text(words: str) -> None:
    """Text as it is, whatever its width."""
    sys.stdout.write(words + "\n")


def note(words: str) -> None:
    """For people only: rows go to standard output, this does not."""
    _errors.print(Text(words), style="dim", soft_wrap=True)


def warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """In place of ``warnings.showwarning``: without a place in the code, which is not the user's."""
    _errors.print(
        Text("warning: ", style="bold yellow").append(str(message), style="default"), soft_wrap=True
    )


@contextmanager
def working(words: str) -> Iterator[None]:
    """A sign of life on a terminal."""
    if not _errors.is_terminal:
        yield
        return
    with _errors.status(words):
        yield


def error(problem: TrickleError) -> None:
    _errors.print(
        Text("error: ", style="bold red").append(str(problem), style="default"), soft_wrap=True
    )


def records(found: Sequence[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Records of ours as rows."""
    return pa.Table.from_pylist(list(found), schema=schema)
