"""A source as it was when a query was bound: its columns by identity, and its keys.

Law: a query is compiled and run over these columns only. Whatever was added, renamed or dropped
since, the source is shown under the names of then; its rows are found by column id.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from spark_trickle.storage.records import Column, Table, TableName


@dataclass(frozen=True)
class Binding:
    """The columns and keys that the names of a query stand for."""

    columns: tuple[Column, ...] = ()
    primary_key: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    """Kept too: where a query is cut into parts depends on the keys."""

    @classmethod
    def of(cls, table: Table) -> Binding:
        return cls(tuple(map(_plain, table.columns)), table.primary_key, table.cluster_by)

    @cached_property
    def json(self) -> str:
        return json.dumps(asdict(self))

    def show(self, name: str, table: Table) -> Table:
        """The table as it is now, under the name and with the columns of then."""
        place = TableName.of(name)
        now = {column.id: column for column in table.columns}
        return replace(
            table,
            schema=place.schema,
            name=place.name,
            columns=tuple(
                replace(column, initial_default=now[column.id].initial_default)
                if column.id in now
                else column
                for column in self.columns
            ),
            primary_key=self.primary_key,
            cluster_by=self.cluster_by,
        )

    def retyped(self, table: Table) -> list[str]:
        """What became of columns that no longer hold what they held, in words."""
        now = {column.id: _plain(column) for column in table.columns}
        return [
            f"column {column.name} was {_kind(column)} and is {_kind(now[column.id])}"
            for column in self.columns
            if column.id in now and not _fits(column, now[column.id])
        ]

    def lacking(self, table: Table, names: Iterable[str]) -> list[str]:
        """Which of these columns the table no longer has."""
        now = {column.id for column in table.columns}
        wanted = {name.lower() for name in names}
        return [c.name for c in self.columns if c.name.lower() in wanted and c.id not in now]


@lru_cache(maxsize=1024)
def bound_from_json(text: str) -> Binding:
    values = json.loads(text)
    return Binding(
        tuple(map(_column, values["columns"])),
        tuple(values["primary_key"]),
        tuple(values["cluster_by"]),
    )


def _column(values: Mapping[str, Any]) -> Column:
    return Column(**{**values, "children": tuple(map(_column, values["children"]))})


def _plain(column: Column) -> Column:
    """Without what says nothing about the column's identity."""
    children = tuple(map(_plain, column.children))
    return replace(
        column, default=None, initial_default=None, children=children, comment=None, length=None
    )


def _fits(then: Column, now: Column) -> bool:
    """A column may be called otherwise, or have become NOT NULL; what is inside it may not change."""
    same = replace(now, name=then.name, nullable=then.nullable) == then
    return same and (then.nullable or not now.nullable)


def _kind(column: Column) -> str:
    return column.type if column.nullable else f"{column.type} NOT NULL"
