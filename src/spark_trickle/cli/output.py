"""What the commands print."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from spark_trickle.errors import TrickleError

console = Console()
_errors = Console(stderr=True)


def rows(data: pa.Table, more: bool = False) -> None:
    """A small Arrow table."""
    shown = Table(header_style="bold")
    for field in data.schema:
        right = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        right = right or pa.types.is_decimal(field.type)
        shown.add_column(field.name, justify="right" if right else "left")
    for record in zip(*(column.to_pylist() for column in data.columns), strict=True):
        shown.add_row(*(_cell(value) for value in record))
    console.print(shown)
    if more:
        console.print("… and more rows; use --limit to see them", style="dim")


def _cell(value: Any) -> Text:
    return Text("NULL", style="dim") if value is None else Text(str(value))


def answer(result: Any, limit: int) -> None:
    """Whatever ``lake.sql`` answers."""
    if result is None:
        console.print("done")
    elif isinstance(result, int):
        console.print(f"{result} {'row' if result == 1 else 'rows'}")
    else:
        data = result.limit(limit + 1).toArrow()
        rows(data.slice(0, limit), more=data.num_rows > limit)


def error(problem: TrickleError) -> None:
    _errors.print("error:", style="bold red", end=" ")
    _errors.print(Text(str(problem)))
