"""Rows on their way into a table: few travel as Arrow, many are written by Spark's executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql import types as t

from spark_trickle.errors import ExecutionError
from spark_trickle.settings import Settings
from spark_trickle.spark.failures import spark_errors
from spark_trickle.spark.fetching import few
from spark_trickle.spark.frames import ROW, quote
from spark_trickle.spark.types import FIELD_ID, spark_schema
from spark_trickle.spark.writing.holding import held
from spark_trickle.storage.files import parquet
from spark_trickle.storage.files.filesystem import FileSystem
from spark_trickle.storage.files.types import arrow_schema
from spark_trickle.storage.records import (
    FILE_ROW_ID,
    FILE_ROW_ID_FIELD,
    NewFile,
    Table,
)
from spark_trickle.storage.versions.transaction import Transaction

_DIRECT = 10
"""A result that cannot have more rows than this many inline limits is fetched without a probe."""
ROWS_PER_GROUP = 128 * 1024
_ROWS_PER_FILE = 1024 * 1024


@dataclass(frozen=True)
class WaitingRows:
    """Rows that wait to be inserted: in memory, or in files that no version knows yet."""

    rows: pa.Table | None = None
    """The table's columns, and ROW where rows keep their ids."""
    files: tuple[NewFile, ...] = ()


class Writer:
    """Writes DataFrames into the tables of one transaction."""

    def __init__(self, tx: Transaction, settings: Settings) -> None:
        self._tx = tx
        self.settings = settings
        self._limit = settings.inline_row_limit
        self._direct = _DIRECT * settings.inline_row_limit

    def stage(
        self, table: Table, frame: DataFrame, bound: int | None = None, reads: int = 0
    ) -> WaitingRows:
        """Fetch or write the rows; ``frame`` has the table's columns (and ROW, if ids are kept).

        ``bound``: no more rows than these, ``reads``: bytes that are read for them, where known.
        """
        much = reads > self.settings.limits.written_bytes
        rows = None if much else self.fetch(frame, bound)
        if rows is not None:
            return WaitingRows(rows=rows)
        if much and table.sort_key:
            with held(frame) as same:  # for the ranges of the key, Spark looks at all rows before
                with spark_errors():
                    count = same.count()
                files = self.write_files(table, same, count)
        else:
            files = self.write_files(table, frame)
        found = [table.files.footer(file.path).num_rows for file in files]
        if ROW not in frame.columns and sum(found) <= self._limit:
            return WaitingRows(rows=_read(table, files))
        return WaitingRows(files=tuple(files))

    def fetch(self, frame: DataFrame, bound: int | None = None) -> pa.Table | None:
        """All rows as Arrow if they are few and fit, else None; asks for no more than that."""
        known = bound is not None and bound <= self._direct
        with spark_errors():
            most = self._direct if known else self._limit
            rows, _ = few(frame, most, self.settings.limits.fetched_bytes)
        return rows

    def insert(self, table: Table, staged: WaitingRows) -> int:
        if staged.rows is None:
            return self._tx.insert_files(table, staged.files)
        names = [column.name for column in table.columns]
        row_ids = None
        if ROW in staged.rows.column_names:
            row_ids = staged.rows.column(ROW).combine_chunks()
        return self._tx.insert_rows(table, staged.rows.select(names), row_ids)

    def write_files(self, table: Table, frame: DataFrame, rows: int | None = None) -> list[NewFile]:
        """Parquet files of the frame's rows, sorted by the table's key, written by executors.

        ``rows``: how many there are, if that is known; it decides the number of files.
        """
        schema = spark_schema(table.columns)
        keeps_ids = ROW in frame.columns
        if keeps_ids:
            frame = frame.withColumnRenamed(ROW, FILE_ROW_ID)
            schema.add(FILE_ROW_ID, t.LongType(), True, {FIELD_ID: FILE_ROW_ID_FIELD})
        folder = f"{table.location}{uuid4().hex}"
        self._tx.discard(folder)
        with spark_errors():
            files = None if rows is None else -(-rows // _ROWS_PER_FILE)
            frame = with_ids(without_negative_zeros(frame, schema), schema)
            ready = ordered(frame, table.sort_key, files)
            _, paths = write_parquet(table.files, folder, ready, file_options(table))
        made = gathered(table, folder, paths, self._tx.discard)
        return [NewFile(path, keeps_ids) for path in made]


def file_options(table: Table) -> dict[str, str]:
    """How Spark writes data files of the table."""
    if not table.sort_key:
        return {"compression": "zstd"}
    # Sorted rows in small groups let Spark skip all but a few of them.
    return {"compression": "zstd", "parquet.block.row.count.limit": str(ROWS_PER_GROUP)}


def gathered(
    table: Table, folder: str, paths: Sequence[str], discard: Callable[[str], None]
) -> list[str]:
    """The files in the table's own folder, where moving them there costs nothing."""
    if table.files.stored(folder):
        return list(paths)
    found = []
    for path in paths:
        # Short names: every row of a file with dead rows pays for the checksum of its name.
        found.append(f"{table.location}{uuid4().hex[:16]}.parquet")
        discard(found[-1])
        table.files.move(path, found[-1])
    table.files.remove(folder)
    return found


def write_parquet(
    files: FileSystem,
    folder: str,
    frame: DataFrame,
    options: Mapping[str, str] | None = None,
    by: str | None = None,
) -> tuple[int, list[str]]:
    """Have executors write the rows into a folder: how many, and the files.

    ``by``: a column that is left out; each of its values has a folder inside. Law: the rows that
    Spark counted are those in the files that this process sees.
    """
    counted = Observation()
    writer = frame.observe(counted, F.count(F.lit(1)).alias("rows")).write
    writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    if files.stored(folder):
        # There a rename is a copy: one is enough, since what the folder has is counted anyhow.
        writer = writer.option("mapreduce.fileoutputcommitter.algorithm.version", "2")
    if by is not None:
        writer = writer.partitionBy(by).option("maxRecordsPerFile", "0")
    writer.options(**(options or {})).parquet(files.for_spark(folder))
    rows = int(counted.get["rows"])
    found = [path for path, _ in files.list(folder, recursive=by is not None)]
    paths = sorted(path for path in found if path.endswith(".parquet"))
    written = sum(files.footer(path).num_rows for path in paths)
    if written != rows:
        raise ExecutionError(
            f"Spark wrote {rows} rows into {folder}, but the files there have {written}; "
            "nothing was committed",
            hint="Spark's executors and this process must see the same storage: give a data_path "
            "that all of them share",
        )
    return rows, paths


def _read(table: Table, files: Sequence[NewFile]) -> pa.Table:
    """The few rows of files that Spark wrote."""
    names = [column.name for column in table.columns]
    schema = arrow_schema(table.columns)
    parts = [part for file in files for part in parquet.batches(file.path, table, names)]
    return pa.concat_tables(
        [schema.empty_table(), *(pa.Table.from_batches([p]).cast(schema) for p in parts)]
    )


def with_ids(frame: DataFrame, schema: t.StructType) -> DataFrame:
    """The schema's columns with its field ids (``DataFrame.to`` loses those of strings)."""
    return frame.select(
        *(F.col(quote(f.name)).cast(f.dataType).alias(f.name, metadata=f.metadata) for f in schema)
    )


def without_negative_zeros(frame: DataFrame, schema: t.StructType) -> DataFrame:
    """-0.0 in a column becomes 0.0, as changes have it: -0.0 + 0.0 is 0.0."""
    kinds = {
        f.name: f.dataType for f in schema if isinstance(f.dataType, t.FloatType | t.DoubleType)
    }
    shown = {
        name: F.col(quote(name)).cast(kind) + F.lit(0.0).cast(kind) for name, kind in kinds.items()
    }
    return frame.withColumns(shown) if shown else frame


def ordered(frame: DataFrame, key: Sequence[str], files: int | None) -> DataFrame:
    """Sorted by the key, so many files with ranges that do not overlap: min/max can prune then."""
    columns = [F.col(quote(name)) for name in key]
    if not key:
        return frame if files is None else frame.coalesce(max(1, files))
    if files is None:
        return frame.repartitionByRange(*columns).sortWithinPartitions(*columns)
    if files <= 1:
        return frame.coalesce(1).sortWithinPartitions(*columns)
    return frame.repartitionByRange(files, *columns).sortWithinPartitions(*columns)
