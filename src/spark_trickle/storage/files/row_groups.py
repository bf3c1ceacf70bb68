"""Which row groups of a file can hold rows that meet conditions: judged by the footer alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_trickle.storage.files import parquet
from spark_trickle.storage.files.values import bound
from spark_trickle.storage.read.pruning import WantedValues, may_meet
from spark_trickle.storage.records import Bounds, DataFile, Table


@dataclass(frozen=True)
class RowGroup:
    """A row group that may hold a wanted row."""

    number: int
    start: int
    """Position of its first row in the file."""
    rows: int


def possible(
    footer: Any, table: Table, file: DataFile, wanted: Sequence[WantedValues]
) -> tuple[RowGroup, ...]:
    """The row groups that may hold a row which meets one of several sets of conditions."""
    schema = footer.schema.to_arrow_schema()
    first = parquet.leaf_indexes(schema)
    names = parquet.names_by_id(schema, file)
    places = {id: schema.get_field_index(name) for id, name in names.items()}
    flat = {id: first[place] for id, place in places.items()}
    judged = {column for conditions in wanted for column in conditions}
    found = []
    start = 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        bounds = _bounds(table, group, flat, judged)
        if any(may_meet(bounds, conditions) for conditions in wanted):
            found.append(RowGroup(number, start, group.num_rows))
        start += group.num_rows
    return tuple(found)


def _bounds(
    table: Table, group: Any, flat: Mapping[int, int], judged: set[int]
) -> dict[int, Bounds]:
    found = {}
    for column in table.columns:
        if column.id in judged and column.id in flat and not column.children:
            chunk = group.column(flat[column.id])
            stats = parquet.column_stats([chunk], column, True)
            low, high = bound(column, stats.low), bound(column, stats.high)
            found[column.id] = Bounds(low, high, stats.nulls, stats.values, stats.nan)
    return found
