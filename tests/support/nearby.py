"""Deltas over just the rows near the changes, run on DuckDB: they must be the deltas themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pyarrow as pa
from sqlglot import exp

from spark_trickle.compile import CompiledQuery, PartDelta
from spark_trickle.ir.types import Version
from spark_trickle.ir.walk import scans
from spark_trickle.maintain.nearby import nearby
from spark_trickle.storage.reader import Choice, meets
from support.delta_law import Laboratory, table_names
from support.queries import Data, Row


@dataclass
class TableFinder:
    """Finds rows in Arrow tables, in an order that chance decides; counts what it left out."""

    tables: dict[str, pa.Table]
    chance: Random
    left_out: int = 0

    def cost(self, source: str) -> int:
        return self.chance.randrange(3)

    def expected(self, source: str, choice: Choice) -> float:
        return 0 if choice or self.chance.random() < 0.3 else 9_000

    def find(self, source: str, choices: Sequence[Choice]) -> pa.Table:
        rows = self.tables[source]
        found = rows.filter(meets(rows, choices))
        self.left_out += rows.num_rows - found.num_rows
        return found


def wrong_nearby(laboratory: Laboratory, query: CompiledQuery, data: Data, seed: int) -> str | None:
    """After ``laboratory.check``: the first part whose delta differs over the rows nearby."""
    changed = [name for name, delta in data.delta.items() if +delta or -delta]
    inserts = [name for name in changed if not -data.delta[name]]
    known = set(changed)
    for delta in query.delta(changed, inserts).parts:
        found = _delta_nearby(laboratory, delta, known, Random(seed))
        if found is not None and found != _stored(laboratory, delta):
            return f"{delta.part.name}: {found} instead of {_stored(laboratory, delta)}"
        known.add(delta.part.name)
    return None


def _stored(laboratory: Laboratory, delta: PartDelta) -> Counter[Row]:
    table = table_names(delta.part.name, Version.DELTA).sql("duckdb")
    return Counter(laboratory.connection.execute(f"SELECT * FROM {table}").fetchall())


def _delta_nearby(
    laboratory: Laboratory, delta: PartDelta, known: set[str], chance: Random
) -> Counter[Row] | None:
    connection = laboratory.connection

    def rows(source: str, version: Version) -> pa.Table:
        table = table_names(source, version).sql("duckdb")
        return connection.execute(f"SELECT * FROM {table}").to_arrow_table()

    read: dict[str, set[str]] = {}
    for scan in (*scans(delta.plan), *scans(delta.nearby)):
        if scan.version is not Version.DELTA:
            read.setdefault(scan.source, set()).update(column.name for column in scan.columns)
    if not all(read.values()):
        return None
    tables = {
        source: rows(source, Version.AFTER if source in known else Version.BEFORE).select(
            sorted(columns)
        )
        for source, columns in read.items()
    }
    finder = TableFinder(tables, chance)
    deltas = {name: rows(name, Version.DELTA) for name in known}
    near = nearby(read, delta.needs, deltas, finder)
    assert near is not None
    laboratory.left_out += finder.left_out
    connection.execute("CREATE SCHEMA IF NOT EXISTS near")
    for source, both in near.items():
        for version, found in ((Version.BEFORE, both.before), (Version.AFTER, both.after)):
            name = near_name(source, version).sql("duckdb")
            connection.register("found", found)
            connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM found")
            connection.unregister("found")
    sql = delta.query(near_name, nearby=True).sql("duckdb")
    return Counter(connection.execute(sql).fetchall())


def near_name(source: str, version: Version) -> exp.Table:
    """Where the rows near the changes are."""
    if version is Version.DELTA:
        return table_names(source, version)
    name = exp.Identifier(this=f"{source}@{version.value}", quoted=True)
    return exp.Table(this=name, db=exp.Identifier(this="near", quoted=True))
