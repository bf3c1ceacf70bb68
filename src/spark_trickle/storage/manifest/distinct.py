"""How many values columns have: estimated when somebody first asks, then known in this process and,
with the next refresh that is committed, in the catalog.

A count that is wrong costs time and nothing else. So whoever fails to keep one does without.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from threading import Lock

from spark_trickle.errors import CatalogError
from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.manifest.pieces import Reading
from spark_trickle.storage.read.column_cache import Taken
from spark_trickle.storage.read.sampling import distinct_values
from spark_trickle.storage.records import Column, ScanPlan

SMALL = 10_000
"""Of tables of no more rows nothing is counted: whatever is done with them is quick."""

_NAME = "trickle_distinct"
_TABLE = f"""CREATE TABLE IF NOT EXISTS {_NAME} (
  table_id BIGINT NOT NULL, column_id BIGINT NOT NULL, row_count BIGINT NOT NULL,
  distinct_count BIGINT NOT NULL, PRIMARY KEY (table_id, column_id))"""


@dataclass(frozen=True)
class _Count:
    rows: int
    """Of the table when it was made."""
    distinct: int | None
    """None: it was too much to read."""

    def fits(self, rows: int) -> bool:
        """Whether the table is still about as large."""
        return self.rows <= 2 * rows and rows <= 2 * self.rows


class DistinctCounts:
    """Of all tables of one open lake."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._known: dict[int, dict[int, _Count]] = {}
        """By table and column, what the catalog had included."""
        self.unsaved: set[tuple[int, int]] = set()
        """By table and column, what is to be written."""
        self._lock = Lock()

    def known(self, plan: ScanPlan, column: Column) -> int | None:
        """The count, if somebody made it before; reads nothing but the catalog, once for each table."""
        found = self._find(plan, column) if _large(plan, column) else None
        return None if found is None else found.distinct

    def count(self, plan: ScanPlan, column: Column, most: int, taken: Taken) -> int | None:
        """The count, made now if need be, from ``most`` bytes; None: it cannot be told."""
        if not _large(plan, column):
            return None
        found = self._find(plan, column)
        if found is None and not plan.within:
            found = _Count(plan.rows, None)
            with suppress(CatalogError):  # a file that cannot be read is told by whoever needs it
                found = _Count(plan.rows, distinct_values(plan, column, most, taken))
            with self._lock:
                self._known[plan.table.id][column.id] = found
                if found.distinct is not None:
                    self.unsaved.add((plan.table.id, column.id))
        return None if found is None else found.distinct

    def _find(self, plan: ScanPlan, column: Column) -> _Count | None:
        """Of ranges of a table that of the whole table is as good as any."""
        found = self._of(plan.table.id).get(column.id)
        return found if found is not None and (plan.within or found.fits(plan.rows)) else None

    def _of(self, table: int) -> dict[int, _Count]:
        with self._lock:
            known = self._known.get(table)
        if known is None:
            with self._reading() as connection:
                known = _load(connection, table)
            with self._lock:
                known = self._known.setdefault(table, known)
        return known

    def save(self, connection: Connection) -> None:
        """Write what is not in the catalog yet, in somebody's commit.

        To be called last. If the commit fails after all, another process makes the counts anew.
        """
        with self._lock:
            counts = {place: self._known[place[0]][place[1]] for place in self.unsaved}
            self.unsaved.clear()
        if not counts:
            return
        if not connection.has_table(_NAME):
            connection.execute(_TABLE)
        connection.execute_many(
            f"INSERT INTO {_NAME} VALUES (?, ?, ?, ?) ON CONFLICT (table_id, column_id) "
            "DO UPDATE SET row_count = excluded.row_count, distinct_count = excluded.distinct_count",
            [(*place, count.rows, count.distinct) for place, count in sorted(counts.items())],
        )


def _large(plan: ScanPlan, column: Column) -> bool:
    """Whether the column can be counted and the table is worth it; one that nobody else sees is not."""
    flat = not column.children and plan.table.id >= 0
    return flat and len(plan.files) > 0 and plan.rows - plan.inlined.num_rows > SMALL


def _load(connection: Connection, table: int) -> dict[int, _Count]:
    if not connection.has_table(_NAME):
        return {}
    rows = connection.execute(
        f"SELECT column_id, row_count, distinct_count FROM {_NAME} WHERE table_id = ?", (table,)
    )
    return {column: _Count(made, distinct) for column, made, distinct in rows}


def forget(connection: Connection, table: int) -> None:
    """What is known of a table that is no more."""
    if connection.has_table(_NAME):
        connection.execute(f"DELETE FROM {_NAME} WHERE table_id = ?", (table,))
