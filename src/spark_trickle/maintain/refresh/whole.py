"""All rows of a query against those that are stored: what is published is the difference.

Few rows are compared in this process, many by Spark. Law: rows + difference to them = stored rows,
as multisets, equal as Spark's ``<=>`` says; -0.0 is stored as 0.0, which Spark makes of it in a key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.compile import CompiledQuery
from spark_trickle.delta.support import FullOnly
from spark_trickle.execute.engine import Engine
from spark_trickle.maintain.apply.locating import subtract
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.refresh import locally
from spark_trickle.maintain.refresh.by_text import whole_frame
from spark_trickle.maintain.refresh.job import Pinned, same_columns
from spark_trickle.settings import Limits
from spark_trickle.spark.writing.spill import Rows, Spill
from spark_trickle.storage.read.reader import net, read_scan
from spark_trickle.storage.records import WEIGHT, ScanPlan, Table, TableName
from spark_trickle.storage.versions.planning import plain_schema
from spark_trickle.storage.versions.transaction import Transaction

if TYPE_CHECKING:
    from spark_trickle.spark.run import Run
    from spark_trickle.spark.sessions.session import DataFrame

_FLAT = re.compile(
    r"boolean|tinyint|smallint|int|bigint|float|double|decimal\(.*\)|string|binary|date"
    r"|timestamp|timestamp_ntz"
)
"""Types whose values this process compares as Spark does."""


def by_text(
    engine: Engine,
    run: Run,
    tx: Transaction,
    stream: StreamTable,
    compiled: CompiledQuery,
    pinned: Mapping[str, Pinned],
) -> Rows:
    """A query that needs no plan of ours: its own text again, and the difference to what is stored.

    Where there is a plan, it is good to work on few rows in this process, if that is proven.
    """
    stored = tx.scan(TableName.of(stream.name))
    here, plan = None, compiled.normalized
    full_only = isinstance(compiled.verdict, FullOnly)
    tables = locally.ScannedTables(lambda name, _: pinned[name].relation())
    small = not full_only and compiled.unproven is None and few(stored, run.limits)
    if small and plan is not None and tables.few(plan, engine.settings):
        names = [column.name for column in stored.table.columns]
        here = locally.whole(plan, names, tables, ansi=compiled.ansi)
    if here is not None:
        here = compared(run, stored, here)
        if not locally.doubted():
            run.note_read(tables.taken.rows, tables.taken.bytes)
            return here
    frame = whole_frame(engine, run, stream, compiled, pinned)
    if full_only:
        same_columns(stream, stored.table, [name for name, _ in run.shape(frame)])
    there = difference(run, stored, frame)
    for source in pinned.values():
        plan_read = source.relation()
        run.note_read(plan_read.decoded_rows, plan_read.bytes)
    if here is not None and not isinstance(there, Spill):
        locally.check(stream.name, here, there)
    return there


def few(stored: ScanPlan, limits: Limits) -> bool:
    """Whether what is stored may be compared in this process."""
    flat = all(_FLAT.fullmatch(column.type) for column in stored.table.columns)
    small = stored.rows <= limits.delta_rows and stored.bytes <= limits.searched_bytes
    return flat and small


def difference(run: Run, stored: ScanPlan, frame: DataFrame) -> Rows:
    """What a frame's rows, column by column in order, have more (+) or less (-) than the stored."""
    frame = frame.toDF(*(column.name for column in stored.table.columns))
    most = run.limits.delta_rows
    if not few(stored, run.limits):
        return run.small(run.spill_difference(frame, stored), most)
    rows = run.whole(frame, most, probably=stored.rows > 0)
    if not isinstance(rows, Spill):
        return compared(run, stored, rows)
    if stored.rows == 0 and not _inexact(stored.table):
        return rows
    return run.small(run.spill_difference(run.again(rows, frame.columns), stored), most)


def compared(run: Run, stored: ScanPlan, rows: pa.Table) -> pa.Table:
    """Rows with weights minus those that are stored, net."""
    names = [column.name for column in stored.table.columns]
    schema = plain_schema(stored.table)
    rows = rows.select([*names, WEIGHT])
    rows = rows.cast(schema.append(pa.field(WEIGHT, pa.int64())))
    run.note_read(stored.decoded_rows, stored.bytes)
    there = read_scan(stored).select(names).cast(schema)
    if _inexact(stored.table):
        return subtract(_positive(rows), there)
    lost = there.append_column(WEIGHT, pa.array(np.full(there.num_rows, -1)))
    return net(pa.concat_tables([rows, lost]), names)


def _inexact(table: Table) -> bool:
    return any(column.type in ("float", "double") for column in table.columns)


def _positive(rows: pa.Table) -> pa.Table:
    """No negative zeros."""
    for place, item in enumerate(rows.schema):
        if pa.types.is_floating(item.type):
            zero = pa.scalar(0.0, item.type)
            rows = rows.set_column(place, item, pc.add(rows.column(place), zero))
    return rows
