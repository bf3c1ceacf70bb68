"""Very many rows of the catalog as columns: the database joins each column to one text.

Values that come one by one cost ten times as much as the database's own work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spark_trickle.storage.catalog.database import Connection

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Texts = Sequence[str | None]

_BETWEEN, _NULL = "\x1f", "\x1e"


def read_columns(
    connection: Connection,
    numbers: Sequence[str],
    texts: Sequence[str],
    rest: str,
    parameters: Sequence[Any],
) -> tuple[list[Numbers], list[Texts]]:
    """Expressions over the rows of ``rest``: whole numbers (-1 for NULL), and texts."""
    join = "string_agg" if connection.kind == "postgres" else "group_concat"
    parts = [f"{join}(CAST(coalesce({item}, -1) AS VARCHAR), ',')" for item in numbers]
    parts += [f"{join}(coalesce({item}, ?), ?)" for item in texts]
    marks = (_NULL, _BETWEEN) * len(texts)
    sql = f"SELECT count(*), {', '.join(parts)} FROM {rest}"
    count, *found = connection.execute(sql, (*marks, *parameters))[0]
    if not count:
        return [np.empty(0, np.int64) for _ in numbers], [[] for _ in texts]
    said = [text.split(_BETWEEN) for text in found[len(numbers) :]]
    if any(len(values) != count for values in said):  # our mark is in one of them
        rows = connection.execute(f"SELECT {', '.join((*numbers, *texts))} FROM {rest}", parameters)
        columns = list(zip(*rows, strict=True))
        wide = [[-1 if v is None else int(v) for v in column] for column in columns[: len(numbers)]]
        return [np.array(column, np.int64) for column in wide], [*columns[len(numbers) :]]
    return (
        [np.fromstring(text, np.int64, sep=",") for text in found[: len(numbers)]],
        [[None if value == _NULL else value for value in values] for values in said],
    )
