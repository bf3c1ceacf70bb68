"""Rows of tables as markup, and the first changed rows of a refresh; no Spark is started."""

from __future__ import annotations

import pyarrow as pa

from spark_trickle import formats
from spark_trickle.errors import NotFoundError
from spark_trickle.serve.pages.markup import Child, Html, cut, table, tag
from spark_trickle.serve.sight import Sight
from spark_trickle.storage.read.reader import first_changes
from spark_trickle.storage.records import WEIGHT

FIRST = 50
"""Changed rows that are shown of a refresh."""
_LETTERS = 10_000


def shown(rows: pa.Table) -> Html:
    """All rows; long texts are cut."""
    head = list(rows.schema.names)
    numbers = tuple(field.name for field in rows.schema if formats.is_number(field.type))
    records = zip(*formats.cells(rows), strict=True)
    cells: list[list[Child]] = [[_cell(value) for value in record] for record in records]
    return table([cut(name, 200) for name in head], cells, numbers=numbers)


def _cell(value: str) -> Child:
    return tag("i", value, cls="quiet") if value == formats.NULL else cut(value, _LETTERS)


def changed_rows(sight: Sight, uuid: str, version: int) -> pa.Table:
    """The first rows that the commit of a version changed in a table, with their weights first."""
    found = sight.catalog.find(uuid, version)
    if found is None:
        raise NotFoundError(f"there was no such table at version {version}")
    rows = first_changes(sight.catalog.changes(found, version - 1, version), FIRST)
    return rows.select([WEIGHT, *(name for name in rows.schema.names if name != WEIGHT)])
