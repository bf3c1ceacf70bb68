"""Files rewritten by Spark's executors, for compaction: sorted, in ranges of the key that do not overlap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from spark_trickle.spark import bitmaps
from spark_trickle.spark.bitmaps import KEY
from spark_trickle.spark.failures import spark_errors
from spark_trickle.spark.frames import (
    ROW,
    FileKeys,
    check_present,
    grouped,
    local_frame,
    quote,
    read_group,
    union,
)
from spark_trickle.spark.types import FIELD_ID, spark_schema
from spark_trickle.spark.writing.write import (
    file_options,
    gathered,
    ordered,
    with_ids,
    write_parquet,
)
from spark_trickle.storage.files import parquet, positions
from spark_trickle.storage.records import (
    FILE_ROW_ID,
    FILE_ROW_ID_FIELD,
    FILE_VERSION,
    FILE_VERSION_FIELD,
    ROW_ID,
    DataFile,
)
from spark_trickle.storage.upkeep import rewriting
from spark_trickle.storage.upkeep.rewriting import BEGUN, ENDED, Task
from spark_trickle.storage.versions.staging import Owned


class SparkExecutors:
    """Those of the session that is asked for when there is something to rewrite."""

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self._session = session

    def living(self, task: Task, owned: Owned) -> Sequence[str]:
        files = [replace(f, deleted=task.deaths[f.id].positions) for f in _whole(task)]
        spark = self._session()
        parts = _read(spark, task, files)
        rows = task.inlined.filter(pc.is_null(task.inlined.column(ENDED)))
        if rows.num_rows:
            parts.append(_inlined(spark, task, rows))
        live = sum(f.rows - len(f.deleted) for f in files) + rows.num_rows
        return _write(task, union(parts), live, owned) if live else []

    def dead(self, task: Task, version: int, owned: Owned) -> Sequence[str]:
        spark = self._session()
        files = _whole(task)
        chosen = {}
        for file in files:
            found = task.deaths[file.id]
            there = found.positions.filter(pc.equal(found.versions, version))
            if len(there):
                chosen[file.id] = there
        touched = [file for file in files if file.id in chosen]
        keys = FileKeys(touched)
        parts = []
        for group, some in grouped(task.table, touched, located=True):
            frame = read_group(spark, task.table, group, some, keys, located=True, versions=True)
            places = {keys.code(file): chosen[file.id] for file in some}
            parts.append(bitmaps.only(spark, frame, places))
        # What died in the version that inserted it was never there.
        rows = union(parts).where(f"{FILE_VERSION} < {version}")
        return _write(task, rows, sum(map(len, chosen.values())), owned)


def _whole(task: Task) -> list[DataFile]:
    """All rows of the files, whatever version they are of."""
    check_present(task.table, task.files)
    return [
        replace(file, deleted=positions.EMPTY, inserted_after=None, inserted_through=None)
        for file in task.files
    ]


def _read(spark: SparkSession, task: Task, files: Sequence[DataFile]) -> list[DataFrame]:
    keys = FileKeys(files)
    return [
        read_group(spark, task.table, group, some, keys, located=True, versions=True)
        for group, some in grouped(task.table, files, located=True)
    ]


def _inlined(spark: SparkSession, task: Task, rows: pa.Table) -> DataFrame:
    names = [column.name for column in task.table.columns]
    rows = rows.select([*names, ROW_ID, BEGUN]).rename_columns([*names, ROW, FILE_VERSION])
    frame = local_frame(spark, task.table, rows, [ROW, FILE_VERSION])
    shown = [*map(quote, names), FILE_VERSION, f"CAST(NULL AS BIGINT) AS {KEY}", ROW]
    return frame.selectExpr(*shown)


def _write(task: Task, frame: DataFrame, rows: int, owned: Owned) -> list[str]:
    table = task.table
    schema = spark_schema(table.columns)
    for name, number in ((FILE_ROW_ID, FILE_ROW_ID_FIELD), (FILE_VERSION, FILE_VERSION_FIELD)):
        schema.add(name, t.LongType(), True, {FIELD_ID: number})
    folder = f"{table.location}{uuid4().hex}"
    owned.add(folder)
    every = sum(file.rows for file in task.files)
    size = sum(file.bytes for file in task.files) * rows // max(1, every)
    with spark_errors():
        plain = with_ids(frame.withColumnRenamed(ROW, FILE_ROW_ID), schema)
        ready = ordered(plain, table.sort_key, max(1, -(-size // rewriting.TARGET_BYTES)))
        _, paths = write_parquet(table.files, folder, ready, file_options(table))
    made = []
    for path in gathered(table, folder, paths, owned.add):
        copy = parquet.new_path(table)
        owned.add(copy)
        made.append(parquet.with_inner_ids(path, table, copy))
    return [path for path in made if table.files.footer(path).num_rows]
