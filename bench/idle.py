"""What a scheduler costs that has nothing to do: 500 stream tables, no change, no Spark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import spark_trickle
from bench.figures import Figure
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.streams import Dependency, StreamTable
from spark_trickle.storage.catalog import database
from spark_trickle.storage.records import NewColumn

TABLES = 500
BAR = 2.0
"""Per cent of a core."""


def run(folder: Path, seconds: float = 60.0) -> list[Figure]:
    """CPU seconds and catalog statements of one idle minute."""
    with spark_trickle.connect(folder / "idle") as lake:
        _make(lake, TABLES)
        with _counting() as statements, lake.scheduler():
            time.sleep(2.0)  # the first look
            before, began = len(statements), time.process_time()
            time.sleep(seconds)
            used = time.process_time() - began
            asked = len(statements) - before
        assert lake.refresh_history() == [], "an idle lake has no history"
    share = 100 * used / seconds
    detail = f"{used:.2f} CPU s, {asked} statements in {seconds:.0f} s"
    name = f"{TABLES} idle stream tables: share of a core"
    return [Figure(name, used, None, share, BAR, "%", detail)]


def _make(lake: spark_trickle.Lake, count: int) -> None:
    """Filled stream tables as creating them leaves them, by metadata alone: no Spark is started."""
    lake.sql("CREATE TABLE base (id BIGINT)")
    lake.sql("INSERT INTO base VALUES (1)")
    catalog = lake._catalog
    lake.stream_tables()
    tx = catalog.begin()
    made = [tx.create_table(f"s{i}", [NewColumn("id", "bigint")]) for i in range(count)]
    tx.commit()
    version, base = catalog.version(), catalog.table("base")
    with catalog.writing() as connection:
        for table in made:
            source = Dependency(base.uuid, "base", version)
            stream = StreamTable(
                catalog.table(table.name).uuid,
                table.name,
                "SELECT id FROM base",
                schedule="1s",
                populated=True,
                sources=(source,),
            )
            records.save(connection, stream)


class _counting:
    """Counts the statements that go to an SQLite catalog."""

    def __enter__(self) -> list[str]:
        self._plain = database._SqliteConnection.execute
        seen: list[str] = []
        plain = self._plain

        def execute(own: Any, sql: str, parameters: Any = ()) -> Any:
            seen.append(sql)
            return plain(own, sql, parameters)

        database._SqliteConnection.execute = execute  # type: ignore[method-assign]
        return seen

    def __exit__(self, *_: object) -> None:
        database._SqliteConnection.execute = self._plain  # type: ignore[method-assign]
