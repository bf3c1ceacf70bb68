"""The names that the columns of a table have had.

Law: a column is in doubt in a file that may give its name to another column: who asks such a file for
something by that name asks for the other one. So is a nested column that the file may know by other
names, its own or inside: of nested columns Spark forgets ids, and asks by name. A file has the names
of its version or, compacted, of a later one. DuckDB also rewrites files under those of earlier ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.records import Column

_STILL = 1 << 62

Moved = Sequence[tuple[int, int]]
"""Columns whose names have moved, and until which version."""


class NamedColumn(NamedTuple):
    """A row of ducklake_column: a column, or a part of one, under one name."""

    id: int
    parent: int | None
    name: str
    begin: int
    end: int | None


def named_columns(connection: Connection, table: int) -> list[NamedColumn]:
    """The columns of all versions of a table."""
    rows = connection.execute(
        "SELECT column_id, parent_column, column_name, begin_snapshot, end_snapshot "
        "FROM ducklake_column WHERE table_id = ? ORDER BY column_id, begin_snapshot",
        (table,),
    )
    return [NamedColumn(*row) for row in rows]


@dataclass(frozen=True)
class Names:
    """Who has had which name, as far as it was known when files were listed."""

    holders: Mapping[tuple[int | None, str], Mapping[int, int]] = field(default_factory=dict)
    """By the column it is a part of and name, in lower case: the columns, each with the version that
    ended it there."""
    names: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """By column: its names, each with the version that ended it."""

    @classmethod
    def of(cls, columns: Iterable[NamedColumn]) -> Names:
        holders: dict[tuple[int | None, str], dict[int, int]] = defaultdict(dict)
        names: dict[int, dict[str, int]] = defaultdict(dict)
        for column in columns:  # of equal names the last one is the latest
            end = _STILL if column.end is None else column.end
            holders[column.parent, column.name.lower()][column.id] = end
            names[column.id][column.name] = end
        return cls(holders, names)

    def moved(self, columns: Sequence[Column]) -> Moved:
        found = ((column.id, self._until(column, None)) for column in columns)
        return [(number, until) for number, until in found if until >= 0]

    def _until(self, column: Column, parent: int | None) -> int:
        held = self.holders.get((parent, column.name.lower()), {})
        ends = [end for number, end in held.items() if number != column.id]
        if column.children or parent is not None:
            own = self.names.get(column.id, {})
            ends += [end for name, end in own.items() if name != column.name]
        ends += [self._until(child, column.id) for child in column.children]
        return max(ends, default=-1)


def in_doubt(moved: Moved, begin: int, by_duckdb: bool) -> frozenset[int]:
    """The columns that are so in a file."""
    return frozenset(number for number, until in moved if by_duckdb or begin <= until)
