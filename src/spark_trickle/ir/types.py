"""Columns, sides and the names of internal columns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from spark_trickle.errors import Position

WEIGHT = "__weight"
"""The multiplicity of a row in a delta: +n inserted, -n deleted."""


@dataclass(frozen=True)
class Column:
    """A column of a plan. The id is unique in the plan; the name is only for people and scans."""

    id: int
    name: str
    type: exp.DataType
    nullable: bool = True

    def __str__(self) -> str:
        return f"{self.name}#{self.id}"


Schema = tuple[Column, ...]


class Side(Enum):
    """Which state of its source a scan reads; the plan of a query itself reads AFTER."""

    BEFORE = "before"
    AFTER = "after"
    DELTA = "delta"


@dataclass(frozen=True)
class TableSchema:
    """A table or stream table as the binder is told about it."""

    name: str
    columns: Schema
    """Ids are positions here; bind gives every scan ids of its own."""
    primary_key: tuple[str, ...] = ()
    """Declared, not enforced: good for layout and cost, never for correctness."""
    cluster_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Notice:
    """Something the user should know about an accepted query."""

    message: str
    position: Position | None = None
    hint: str | None = None


@dataclass(frozen=True)
class Blocker:
    """Why a legal query cannot be maintained incrementally: the seed of a FullOnly verdict."""

    code: str
    """Stable and machine-readable, for example ``VOLATILE_FUNCTION``."""
    message: str
    position: Position | None = None
    hint: str | None = None
    clock: bool = False
    """It is the clock that is read: no obstacle in a temporal filter."""
