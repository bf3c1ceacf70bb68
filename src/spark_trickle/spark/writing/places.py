"""Rows of a scan, deleted by the places that a query brought along.

Few places come into this process. Of many, Spark's executors write the delete files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from spark_trickle.settings import Settings
from spark_trickle.spark.bitmaps import KEY
from spark_trickle.spark.failures import spark_errors
from spark_trickle.spark.fetching import few, first
from spark_trickle.spark.frames import ROW, FileKeys
from spark_trickle.spark.writing.deletes import DeathWriter
from spark_trickle.storage.files import positions
from spark_trickle.storage.records import ROW_ID, ScanPlan
from spark_trickle.storage.versions.deaths import DeathFile
from spark_trickle.storage.versions.preimages import FILE, PACKED, POSITION, remember
from spark_trickle.storage.versions.transaction import Transaction

OLD = "__trickle_old"


@dataclass(frozen=True)
class Gone:
    """Rows that are to be deleted: few by their places, many by the delete files that have them."""

    rows: int
    """Each counted once."""
    once: bool
    """Whether none was named twice."""
    places: pa.Table | None = None
    """KEY and ROW of each row, once; columns that start with OLD are the rows as they were."""
    files: Mapping[int, DeathFile] = field(default_factory=dict)
    """By the id of the data file."""
    row_ids: pa.Array = field(default_factory=lambda: positions.EMPTY)
    """Those of rows in the catalog, where ``files`` has the others."""


def at_places(located: pa.Table) -> Gone:
    """The rows at these places."""
    keys = located.select([KEY, ROW]).group_by([KEY, ROW]).aggregate([])
    once = bool(keys.num_rows == located.num_rows)
    return Gone(keys.num_rows, once, located if once else keys.select([KEY, ROW]))


class Places:
    """Deletes rows of one scan by the places that a query brought along."""

    def __init__(self, tx: Transaction, plan: ScanPlan, settings: Settings) -> None:
        self._tx = tx
        self._plan = plan
        self._keys = FileKeys(plan.files)
        self._most = settings.inline_delete_limit
        """No more places come into this process."""
        self._most_bytes = settings.inline_bytes

    def find(self, places: DataFrame, rows: int | None = None) -> Gone:
        """The rows whose places (KEY, ROW) a frame has; ``rows``: how many at most, if that is known.

        Of many, the delete files are written now and wait for the commit. Of few, the rows as they
        were come along, if the frame has them and they take no more bytes than can be kept.
        """
        old = [name for name in places.columns if name.startswith(OLD)]
        with spark_errors():
            if old and rows is not None and rows <= self._most:
                whole = places.select(KEY, ROW, *old)
                located, _ = few(whole, rows, PACKED * self._most_bytes)
                if located is not None:
                    return at_places(located)
            places = places.select(KEY, ROW)
            if (self._plan.rows if rows is None else rows) <= self._most:
                return at_places(places.toArrow())
            if rows is None:
                found = first(places, self._most + 1).toArrow()
                if found.num_rows <= self._most:
                    return at_places(found)
            return self._many(places, rows)

    def _many(self, places: DataFrame, rows: int | None) -> Gone:
        ids = pa.chunked_array([], pa.int64())
        if self._plan.inlined.num_rows:
            ids = places.where(f"{KEY} IS NULL").select(ROW).toArrow().column(0)
        inlined = positions.of(ids)
        there = places.where(f"{KEY} IS NOT NULL")
        made = DeathWriter(self._tx, self._plan).write(there, rows)
        once = made.once and len(inlined) == len(ids)
        return Gone(made.rows + len(inlined), once, None, made.files, inlined)

    def delete(self, gone: Gone) -> int:
        """How many rows; where they are known as they were, the change feed is spared reading them."""
        if gone.places is None:
            self._tx.delete_written(self._plan.table, gone.files, gone.row_ids)
            return gone.rows
        keys = gone.places.column(KEY).combine_chunks()
        rows = gone.places.column(ROW).combine_chunks()
        inlined = pc.is_null(keys)
        in_files = gone.places.filter(pc.invert(inlined))
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
        files, places = self._keys.decode(keys)
        kept = {FILE: files, POSITION: places, ROW_ID: located.column(ROW)}
        for column, name in zip(columns, names, strict=True):
            kept[column.name] = located.column(name)
        remember(self._tx, self._plan.table, pa.table(kept), self._most_bytes)


def old_name(index: int) -> str:
    """The hidden column with the value that the table's column had before."""
    return f"{OLD}{index}"
