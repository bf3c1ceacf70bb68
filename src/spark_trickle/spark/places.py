"""Rows of a scan by the places that a query brought along: deleted, or read twice the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame

from spark_trickle.errors import UserError
from spark_trickle.spark.bitmaps import KEY
from spark_trickle.spark.frames import ROW, FileKeys
from spark_trickle.storage.records import ROW_ID, ScanPlan
from spark_trickle.storage.versions.preimages import FILE, POSITION, remember
from spark_trickle.storage.versions.transaction import Transaction

OLD = "__trickle_old"
MOST = 50_000_000
"""The places of so many rows, 16 bytes each, are brought into this process at once, no more."""


def fetched(places: DataFrame, rows: int) -> pa.Table:
    """Places as Arrow; ``rows``: there cannot be more than these."""
    if rows <= MOST:
        return places.toArrow()
    found = places.limit(MOST + 1).toArrow()
    if found.num_rows > MOST:
        raise UserError(
            f"more than {MOST:,} rows are to be changed at once",
            hint="change a part of them at a time, by a condition on the key; all rows of a table "
            "go with TRUNCATE or INSERT OVERWRITE",
        )
    return found


class Places:
    """Deletes rows of one scan by the places that a query brought along."""

    def __init__(self, tx: Transaction, plan: ScanPlan) -> None:
        self._tx = tx
        self._plan = plan
        self._keys = FileKeys(plan.files)

    def delete(self, located: pa.Table) -> int:
        """``located`` has KEY and ROW; every row once.

        Columns that start with OLD are the rows as they were: the change feed is spared reading them.
        """
        keys = located.column(KEY).combine_chunks()
        rows = located.column(ROW).combine_chunks()
        inlined = pc.is_null(keys)
        in_files = located.filter(pc.invert(inlined))
        keys = keys.filter(pc.invert(inlined))
        self._remember(in_files, keys)
        return self._tx.delete_rows(
            self._plan.table, self._keys.by_file(keys), rows.filter(inlined)
        )

    def _remember(self, located: pa.Table, keys: pa.Array) -> None:
        columns = self._plan.table.columns
        names = [old_name(i) for i in range(len(columns))]
        if not located.num_rows or not set(names) <= set(located.column_names):
            return
        files, positions = self._keys.decode(keys)
        kept = {FILE: files, POSITION: positions, ROW_ID: located.column(ROW)}
        for column, name in zip(columns, names, strict=True):
            kept[column.name] = located.column(name)
        remember(self._tx, self._plan.table, pa.table(kept))


def old_name(index: int) -> str:
    """The hidden column with the value that the table's column had before."""
    return f"{OLD}{index}"


@contextmanager
def held(frame: DataFrame) -> Iterator[DataFrame]:
    """The frame with its rows kept: what reads it twice must see the same rows twice."""
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()
