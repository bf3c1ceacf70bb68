"""A clock that tests put forward and back, and queries at what it says, run by DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa


@dataclass
class Clock:
    """``Settings(clock=…)`` asks it."""

    now: datetime

    def __call__(self) -> datetime:
        return self.now

    def jump(self, **by: float) -> None:
        self.now += timedelta(**by)


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


def answers(
    clock: datetime, tables: Mapping[str, pa.Table], queries: Mapping[str, str]
) -> dict[str, Any]:
    """What DuckDB makes of each query, later ones over earlier ones, at a clock and in UTC."""
    wall = clock.astimezone(UTC).replace(tzinfo=None)
    constants = {
        "localtimestamp()": f"TIMESTAMP '{wall}'",
        "current_date()": f"DATE '{wall.date()}'",
        "now()": f"TIMESTAMP '{wall}'",
    }
    duck = duckdb.connect(":memory:", config={"threads": 1})
    for name, rows in tables.items():
        duck.register(f"__{name}", rows)
        duck.execute(f"CREATE TABLE {name} AS SELECT * FROM __{name}")
    found = {}
    for name, query in queries.items():
        for call, constant in constants.items():
            query = query.replace(call, constant)
        found[name] = duck.sql(query).to_arrow_table()
        duck.execute(f"CREATE TABLE {name} AS {query}")
    duck.close()
    return found
