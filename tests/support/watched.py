"""IMMEDIATE stream tables judged by DuckDB: after any statement, inside a transaction or outside.

DuckDB gets the base tables as the reader sees them and runs the same query on them; the contents
are read without Spark, as the same reader sees them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from spark_trickle import Lake, LakeTransaction
from spark_trickle.execute.states import SnapshotState
from spark_trickle.storage.read.reader import read_scan
from spark_trickle.storage.records import TableName

Reader = Lake | LakeTransaction


def contents(reader: Reader, name: str) -> pa.Table:
    """A table as the reader sees it, its own writes included."""
    state: Any
    if isinstance(reader, Lake):
        state = SnapshotState(reader._catalog, reader.version)
    else:
        reader._begin_statement()
        state = reader._state
    return read_scan(state.scan(state.table(TableName.of(name))))


def bag(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    """A multiset of rows; numbers that are equal are equal, whatever their type."""
    columns = [column.to_pylist() for column in rows.columns]
    return Counter(zip(*columns, strict=True))


class Watched:
    """Base tables and the queries over them; each query is an IMMEDIATE stream table."""

    def __init__(self, lake: Lake, tables: list[str], views: Mapping[str, str]) -> None:
        self.lake = lake
        self._tables = tables
        self._views = dict(views)
        for name, query in views.items():
            lake.create_stream_table(name, query, refresh_mode="IMMEDIATE")

    def run(self, *statements: str) -> None:
        """Each statement in one transaction that is rolled back, then again in one that stays.

        The contents are checked after every statement and at the end of both.
        """
        before = {name: bag(contents(self.lake, name)) for name in self._views}
        tx = self.lake.transaction()
        for statement in statements:
            tx.sql(statement)
            self.check(tx, statement)
        tx.rollback()
        assert before == {name: bag(contents(self.lake, name)) for name in self._views}
        with self.lake.transaction() as tx:
            for statement in statements:
                tx.sql(statement)
        self.check(self.lake, "after the commit")

    def check(self, reader: Reader, where: str = "") -> None:
        """Every stream table equals its query over what the reader sees."""
        duck = duckdb.connect(":memory:", config={"threads": 1})
        for name in self._tables:
            duck.register(f"__{name}", contents(reader, name))
            duck.execute(f"CREATE TABLE {name} AS SELECT * FROM __{name}")
        for name, query in self._views.items():
            wanted = duck.sql(query).to_arrow_table()
            duck.register(f"__{name}", wanted)
            duck.execute(f"CREATE TABLE {name} AS SELECT * FROM __{name}")
            found = bag(contents(reader, name))
            assert found == bag(wanted), f"{name}: {query}\n{where}"
        duck.close()
