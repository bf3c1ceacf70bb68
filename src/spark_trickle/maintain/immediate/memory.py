"""The groups of a folded stream table in memory, each row with its place in the lake.

Law: at ``version`` the rows here are the rows of the two tables. What others commit is caught up with
from the change feed, under the write lock; what is too large for memory is never read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_trickle.errors import InvariantError, SourceChangedError
from spark_trickle.ir.exact import Input
from spark_trickle.local.fold import Folder, GroupKey, Sums
from spark_trickle.local.values import arrow_type, from_arrow
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.catalog.database import Connection
from spark_trickle.storage.commits.conflicts import COMPACTED
from spark_trickle.storage.files.types import arrow_type as stored_type
from spark_trickle.storage.files.values import can_inline
from spark_trickle.storage.read.search import Search
from spark_trickle.storage.records import ROW_ID, WEIGHT, ChangePlan, ScanPlan, Table

Row = tuple[Any, ...]
Place = tuple[int | None, int]
"""A file and a position in it; or None and the id of a row in the catalog."""

_ROW_BYTES, _VALUE_BYTES = 600, 60
"""About what a row and each of its values take in Python."""


def estimated_bytes(rows: int, tables: Iterable[Table]) -> int:
    """What so many rows of these tables take in memory."""
    return sum(rows * (_ROW_BYTES + _VALUE_BYTES * len(table.columns)) for table in tables)


class PlacedRows:
    """Rows of one table by place, and their places by their first ``width`` values."""

    def __init__(self, table: Table, columns: Sequence[Input], width: int) -> None:
        self.table = table
        self.types = tuple(column.type for column in columns)
        self.at: dict[Place, Row] = {}
        self._width = width
        self._places: dict[Row, list[Place]] = {}
        stored = [c.length is None and stored_type(c) for c in table.columns]
        self.plain = can_inline(table.columns) and stored == list(map(arrow_type, self.types))
        """Whether values are kept in the catalog as they are computed."""

    def places(self, key: Row) -> list[Place]:
        return self._places.get(key, [])

    def add(self, place: Place, row: Row) -> None:
        self.at[place] = row
        self._places.setdefault(row[: self._width], []).append(place)

    def remove(self, place: Place) -> None:
        key = self.at.pop(place)[: self._width]
        self._places[key].remove(place)
        if not self._places[key]:
            del self._places[key]

    def load(self, plan: ScanPlan) -> None:
        """All rows of a scan."""
        for row, number in zip(self._rows(plan.inlined), _ids(plan.inlined), strict=True):
            self.add((None, number), row)
        for piece in Search(plan, {}).read(plan.table.columns):
            places = piece.positions.to_pylist()
            for row, position in zip(self._rows(piece.rows), places, strict=True):
                self.add((piece.file.id, position), row)

    def follow(self, plan: ChangePlan) -> bool:
        """Apply changes; False if that takes reading files, and nothing was done."""
        if any(change.weight > 0 or change.positions is None for change in plan.files):
            return False
        for change in plan.files:
            assert change.positions is not None
            for position in change.positions.to_pylist():
                self.remove((change.file.id, position))
        rows = list(self._rows(plan.inlined))
        changes = list(
            zip(plan.inlined.column(WEIGHT).to_pylist(), _ids(plan.inlined), rows, strict=True)
        )
        for weight, number, _ in changes:
            if weight < 0:
                self.remove((None, number))
        for weight, number, row in changes:
            if weight > 0:
                self.add((None, number), row)
        return True

    def _rows(self, rows: pa.Table) -> Iterator[Row]:
        arrays = [from_arrow(rows.column(i), type) for i, type in enumerate(self.types)]
        return zip(*arrays, strict=True)


def _ids(rows: pa.Table) -> list[int]:
    return list(rows.column(ROW_ID).to_pylist())


class Memory:
    """The groups and the shown rows of one stream table."""

    def __init__(self, folder: Folder, segment: Table, result: Table) -> None:
        self.version = -1
        self.segment, self.result = segment, result
        self._folder = folder
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        plan = self._folder.plan
        outputs = [Input(i, name, e.type) for i, (name, e) in enumerate(plan.outputs)]
        self.groups = PlacedRows(self.segment, plan.state, len(plan.keys))
        self.shown = PlacedRows(self.result, outputs, len(outputs))

    def catch_up(self, catalog: Catalog, connection: Connection, version: int) -> None:
        """Hold what the tables hold at the newest version, which the connection sees."""
        with self._lock:
            if self.version == version:
                return
            if self.version < 0 or not self._followed(catalog, connection, version):
                self._forget()
                self.groups.load(catalog.scan(self.segment, version))
                self.shown.load(catalog.scan(self.result, version))
            self.version = version

    def _followed(self, catalog: Catalog, connection: Connection, version: int) -> bool:
        before, moves = self.version, catalog.last_moves
        oldest = connection.execute("SELECT min(snapshot_id) FROM ducklake_snapshot")[0][0]
        if oldest > before + 1:
            return False  # what was done since is not all on record
        moves.since(connection, before, version)
        tables = (self.segment, self.result)
        if all(moves.of(table.id, before) <= before for table in tables):
            return True
        if any(moves.of(t.id, before, COMPACTED.__contains__) > before for t in tables):
            return False  # no row changed, but the places of all
        try:
            plans = [catalog.changes(table, before, version) for table in tables]
            return self.groups.follow(plans[0]) and self.shown.follow(plans[1])
        except (SourceChangedError, KeyError):
            return False

    def stored(self, keys: Iterable[GroupKey]) -> dict[GroupKey, Sums]:
        """What is stored of these groups."""
        width = len(self._folder.plan.keys)
        found = {}
        for key in keys:
            places = self.groups.places(key)
            if len(places) > 1:
                raise InvariantError(
                    "two rows are stored for one group", hint="run repair_stream_table"
                )
            if places:
                found[key] = self.groups.at[places[0]][width:]
        return found

    def moved(
        self,
        before: int,
        after: int,
        changes: Sequence[tuple[PlacedRows, Iterable[Place], Mapping[Place, Row]]],
    ) -> None:
        """What this process committed on top of ``before``, unless somebody caught up with it.

        ``after``: a version, or -1 if all is to be read again.
        """
        with self._lock:
            if self.version != before:
                return
            for rows, gone, come in changes:
                for place in gone:
                    rows.remove(place)
                for place, row in come.items():
                    rows.add(place, row)
            self.version = after
