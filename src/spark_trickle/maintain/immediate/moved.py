"""The rows of a folded stream table that a commit replaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_trickle.errors import InvariantError
from spark_trickle.ir.exact import ExactType
from spark_trickle.local.fold import Fold, Folder
from spark_trickle.local.values import to_arrow, to_plain
from spark_trickle.maintain.immediate.memory import Memory, Place, PlacedRows, Row
from spark_trickle.storage.commits.dml import next_row_ids
from spark_trickle.storage.files import positions
from spark_trickle.storage.files.values import PlainRows
from spark_trickle.storage.records import Column, Table
from spark_trickle.storage.versions.staging import Staged, computed
from spark_trickle.storage.versions.transaction import Connection

FEW = 100
"""Of up to so many rows, columns of Arrow cost more than the rows themselves."""


@dataclass(frozen=True)
class MovedRows:
    """Rows of one table that go and come in a commit."""

    rows: PlacedRows
    gone: list[Place]
    come: dict[Place, Row]

    @property
    def table(self) -> Table:
        return self.rows.table

    def staged(self, inlined: int) -> Staged:
        """``inlined``: so many rows at most are kept in the catalog."""
        dead: dict[int, list[int]] = {}
        for file, position in self.gone:
            if file is not None:
                dead.setdefault(file, []).append(position)
        few = len(self.come) <= min(FEW, inlined)
        plain = self._plain() if few and self.come else None
        return Staged(
            rows=(self._arrow(),) if self.come and plain is None else (),
            plain=plain,
            dead={file: positions.of(found) for file, found in dead.items()},
            dead_inlined=positions.of([number for file, number in self.gone if file is None]),
        )

    def _plain(self) -> PlainRows | None:
        """The rows that come as the catalog keeps them; None where Arrow has to make them fit."""
        if not self.rows.plain:
            return None
        found = {}
        for column, type, values in self._columns():
            plain = to_plain(values, type)
            if plain is None or not (column.nullable or None not in plain):
                return None
            found[column.id] = plain
        return PlainRows(found, self._ids())

    def _columns(self) -> Iterator[tuple[Column, ExactType, list[Any]]]:
        rows = self.come.values()
        for place, column in enumerate(self.table.columns):
            yield column, self.rows.types[place], [row[place] for row in rows]

    def _ids(self) -> list[int]:
        return [number for _, number in self.come]

    def _arrow(self) -> pa.Table:
        arrays = [to_arrow(values, type) for _, type, values in self._columns()]
        return computed(self.table, arrays, pa.array(self._ids(), pa.int64()))


def moved_rows(
    connection: Connection, folder: Folder, memory: Memory, fold: Fold
) -> list[MovedRows]:
    """The rows of the state, then of the result, that a fold replaces."""
    gone = [memory.groups.places(key)[0] for key in fold.before]
    come = [(*key, *sums) for key, sums in fold.after.items()]
    state = _placed(connection, memory.groups, gone, come)
    lost: list[Place] = []
    gained: list[Row] = []
    for row, weight in folder.shown(fold).items():
        if weight > 0:
            gained += [row] * weight
            continue
        places = memory.shown.places(row)
        if len(places) < -weight:
            raise InvariantError(
                f"a row was to be deleted from {memory.result}, but it is not there",
                hint="the contents are not what the frontier says: run repair_stream_table",
            )
        lost += places[:-weight]
    return [state, _placed(connection, memory.shown, lost, gained)]


def _placed(
    connection: Connection, rows: PlacedRows, gone: list[Place], come: list[Row]
) -> MovedRows:
    """Rows that come take the ids of rows that go, as in an UPDATE, before they take new ones."""
    ids = [number for file, number in gone if file is None][: len(come)]
    more = len(come) - len(ids)
    if more:
        first = next_row_ids(connection, rows.table, more)
        ids += range(first, first + more)
    placed: dict[Place, Row] = {(None, n): row for n, row in zip(ids, come, strict=True)}
    return MovedRows(rows, gone, placed)
