"""Change plans as DataFrames of the table's columns and ``__weight``.

Guarantee of ``net``: equal rows appear once, with the sum of their weights, and never with zero.
NULLs are equal here, and so are NaNs; -0.0 equals 0.0.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_trickle.errors import UserError
from spark_trickle.settings import Limits
from spark_trickle.spark import bitmaps
from spark_trickle.spark.comparing import net
from spark_trickle.spark.failures import spark_errors
from spark_trickle.spark.frames import (
    FileKeys,
    check_present,
    grouped,
    local_frame,
    quote,
    read_group,
    union,
)
from spark_trickle.storage.read.column_cache import Taken
from spark_trickle.storage.read.reader import decoded_bytes, read_changes
from spark_trickle.storage.records import WEIGHT, ChangePlan, DataFile, FileChange, Table


def change_frame(
    spark: SparkSession, plan: ChangePlan, limits: Limits, taken: Taken | None = None
) -> DataFrame:
    """All rows of the plan with their weights, not consolidated; ``taken``: the rows decoded for it."""
    check_present(plan.table, [change.file for change in plan.files])
    with spark_errors():
        few = plan.inserted_rows + plan.deleted_rows <= limits.shipped_rows
        few = few and len(plan.files) <= limits.read_files
        if few and decoded_bytes(plan) <= limits.delta_bytes:
            return _local(spark, plan.table, read_changes(plan, taken=taken))
        if taken is not None:
            taken.rows += plan.decoded_rows
        parts = []
        for weight in (1, -1):
            chosen = [change for change in plan.files if change.weight == weight]
            parts += [
                part.withColumn(WEIGHT, F.lit(weight).cast("bigint"))
                for part in _file_frames(spark, plan.table, chosen)
            ]
        if plan.inlined.num_rows or not parts:
            parts.append(_local(spark, plan.table, plan.inlined))
        return union(parts)


def net_change_frame(spark: SparkSession, plan: ChangePlan, limits: Limits) -> DataFrame:
    """The plan's rows, consolidated."""
    for column in plan.table.columns:
        if "variant" in column.type:
            raise UserError(
                f"changes of {plan.table} cannot be told apart: column {column.name} is a VARIANT, "
                "which Spark cannot compare",
                hint="keep the value as a STRING (to_json) in a table whose changes are needed",
            )
    with spark_errors():
        return net(
            change_frame(spark, plan, limits), [column.name for column in plan.table.columns]
        )


def _local(spark: SparkSession, table: Table, rows: pa.Table) -> DataFrame:
    names = [column.name for column in table.columns]
    return local_frame(spark, table, rows.select([*names, WEIGHT]), [WEIGHT])


def _file_frames(spark: SparkSession, table: Table, changes: list[FileChange]) -> list[DataFrame]:
    whole = [change.file for change in changes if change.positions is None]
    parts = []
    keys = FileKeys(whole)
    for group, files in grouped(table, whole, located=False):
        parts.append(read_group(spark, table, group, files, keys, located=False))
    chosen = {c.file.path: c for c in changes if c.positions is not None}
    # The positions say all: which other rows are dead at some version does not matter here.
    touched: list[DataFile] = [
        replace(
            c.file, deleted=pa.array([], pa.int64()), inserted_after=None, inserted_through=None
        )
        for c in chosen.values()
    ]
    keys = FileKeys(touched)
    for group, files in grouped(table, touched, located=True):
        frame = read_group(spark, table, group, files, keys, located=True)
        joined = bitmaps.only(spark, frame, {keys.code(f): chosen[f.path].positions for f in files})
        parts.append(joined.select(*(F.col(quote(c.name)) for c in table.columns)))
    return parts
