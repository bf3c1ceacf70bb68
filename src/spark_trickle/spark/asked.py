"""The names by which the columns of a table are asked for in files.

Columns are found by id, but Spark passes over row groups by what the name in a filter means in the
file. By a name that no file has it passes over none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from spark_trickle.spark.types import spark_type, type_text
from spark_trickle.statements.text.splices import quoted
from spark_trickle.storage.records import Column


def asked(
    columns: Sequence[Column], names: Iterable[tuple[int, str]] | None, doubtful: frozenset[int]
) -> Sequence[Column]:
    """The columns as files have them; ``names``, ``doubtful``: those of the files."""
    if names is not None:
        inside = dict(names)
        return [replace(c, name=inside.get(c.id, _hidden(c).name)) for c in columns]
    return [_hidden(c) if c.id in doubtful else c for c in columns] if doubtful else columns


def _hidden(column: Column) -> Column:
    """The column under a name that no file has, and so all inside it."""
    inside = tuple(map(_hidden, column.children))
    return replace(column, name=f"__trickle_{column.id}", children=inside)


def shown(column: Column, inside: Column) -> str:
    """SQL text of a column that was asked for as ``inside``."""
    name = quoted(inside.name)
    if inside.children != column.children:
        # Of a nested column Spark reads just the fields that it needs, and then finds some by name.
        # Behind a cast it needs all.
        name = f"CAST({name} AS {type_text(spark_type(column, ids=False))})"
    return f"{name} AS {quoted(column.name)}"
