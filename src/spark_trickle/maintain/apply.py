"""A delta applied to the table that stores it: lost rows are found and deleted, gained rows inserted.

Law: contents(after) = contents(before) + delta. A lost row must be there, as often as its weight
says; if it is not, the contents were wrong before, and the refresh stops.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.errors import InvariantError
from spark_trickle.maintain.matching import among, row_keys
from spark_trickle.spark.spill import Rows, Spill
from spark_trickle.storage.reader import read_file
from spark_trickle.storage.records import ROW_ID, WEIGHT, ScanPlan, Table
from spark_trickle.storage.transaction import Transaction

if TYPE_CHECKING:
    from spark_trickle.spark.run import Run

READ_HERE = 16 << 20
"""Files of up to this many bytes are searched in this process, larger ones by Spark."""


@dataclass(frozen=True)
class Stored:
    """A table that stores a part, and how its rows are found again."""

    table: Table
    keys: tuple[str, ...]
    """Columns that few rows share; files are sorted by them."""
    unique: bool = False
    """Whether no two rows share a key, so that the key alone finds a row."""

    @property
    def by(self) -> tuple[str, ...]:
        """The columns a lost row is found by."""
        return self.keys if self.unique else tuple(column.name for column in self.table.columns)


@dataclass(frozen=True)
class Applied:
    inserted: int = 0
    deleted: int = 0


def apply_delta(run: Run, tx: Transaction, stored: Stored, delta: Rows) -> Applied:
    """Stage the delta in the transaction."""
    if isinstance(delta, Spill):
        deleted = _delete_by_query(run, tx.scan(stored.table), stored, delta)
        return Applied(run.insert_spilled(stored.table, delta), deleted)
    weights = delta.column(WEIGHT)
    lost = delta.filter(pc.less(weights, 0))
    gained = delta.filter(pc.greater(weights, 0))
    deleted = _delete(run, tx, stored, lost) if lost.num_rows else 0
    inserted = tx.insert_rows(stored.table, repeated(gained)) if gained.num_rows else 0
    return Applied(inserted, deleted)


def repeated(rows: pa.Table) -> pa.Table:
    """Each row as often as its weight says, without the weight."""
    weights = rows.column(WEIGHT).to_numpy()
    rows = rows.drop_columns([WEIGHT])
    if (weights == 1).all():
        return rows
    return rows.take(pa.array(np.repeat(np.arange(len(weights)), weights)))


def _delete(run: Run, tx: Transaction, stored: Stored, lost: pa.Table) -> int:
    plan = tx.scan(stored.table)
    conditions = {key: lost.column(key).to_pylist() for key in stored.keys}
    plan = plan.prune(conditions)
    if plan.bytes > READ_HERE or any(file.filtered for file in plan.files):
        return _delete_by_query(run, plan, stored, lost)
    missing = Counter[tuple[object, ...]]()
    for key, weight in zip(row_keys(lost, stored.by), lost.column(WEIGHT).to_pylist(), strict=True):
        missing[key] -= weight
    needed = missing.total()
    row_ids = _take(plan.inlined, plan.inlined.column(ROW_ID), stored, lost, missing)
    positions = {}
    columns = [column for column in plan.table.columns if column.name in stored.by]
    for file in plan.files:
        if not missing:
            break
        run.note_read(file.live, file.bytes)
        live = pa.array(np.delete(np.arange(file.rows), file.deleted.to_numpy()))
        rows = pa.concat_tables(read_file(plan.table, file, columns, live))
        positions[file.id] = _take(rows, pa.chunked_array([live]), stored, lost, missing)
    _all_found(stored, needed - missing.total(), needed)
    return tx.delete_rows(stored.table, positions, row_ids)


def _take(
    rows: pa.Table,
    places: pa.ChunkedArray,
    stored: Stored,
    lost: pa.Table,
    missing: Counter[tuple[object, ...]],
) -> pa.Array:
    """The places of rows that are still missing, which are then found."""
    if stored.keys:
        chosen = among(rows, stored.keys[0], lost)
        if chosen is not None:
            rows, places = rows.filter(chosen), places.filter(chosen)
    found = []
    for index, key in enumerate(row_keys(rows, stored.by)):
        count = missing.get(key, 0)
        if count:
            found.append(index)
            if count == 1:
                del missing[key]
            else:
                missing[key] = count - 1
    return places.take(pa.array(found, pa.int64()))


def _delete_by_query(run: Run, plan: ScanPlan, stored: Stored, lost: Rows) -> int:
    places, needed = run.locate(plan, stored.by, lost)
    _all_found(stored, places.num_rows, needed)
    return run.delete(plan, places) if needed else 0


def _all_found(stored: Stored, found: int, needed: int) -> None:
    if found != needed:
        raise InvariantError(
            f"{needed} rows were to be deleted from {stored.table}, but only {found} are there",
            hint="the contents are not what the frontier says: run repair_stream_table",
        )
