"""One refresh's dealings with Spark: temporary views, queries that are counted, deltas small or large.

A small result travels as Arrow; a large one stays in Parquet files that only Spark opens. Nothing
here decides what to compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from spark_trickle.settings import Limits, Settings
from spark_trickle.spark.bitmaps import KEY
from spark_trickle.spark.budget import Budget
from spark_trickle.spark.comparing import comparable_columns, net
from spark_trickle.spark.constants import all_of, among, among_ranges, any_of
from spark_trickle.spark.failures import spark_errors
from spark_trickle.spark.feed import change_frame
from spark_trickle.spark.fetching import few
from spark_trickle.spark.frames import ROW, Frames, local_frame, parquet_reader, quote
from spark_trickle.spark.sessions.desks import Desk, Desks
from spark_trickle.spark.sessions.facts import Meaning
from spark_trickle.spark.sessions.names import drop_view
from spark_trickle.spark.types import spark_schema, type_text
from spark_trickle.spark.writing.places import Gone, Places
from spark_trickle.spark.writing.spill import Rows, Spill, read_here
from spark_trickle.spark.writing.write import Writer, write_parquet
from spark_trickle.storage.faults import reach
from spark_trickle.storage.files.filesystem import FileSystem
from spark_trickle.storage.files.types import arrow_type
from spark_trickle.storage.read.column_cache import Taken
from spark_trickle.storage.read.search import Restriction
from spark_trickle.storage.records import WEIGHT, ChangePlan, Ranges, ScanPlan, Table
from spark_trickle.storage.versions.planning import plain_schema
from spark_trickle.storage.versions.transaction import Transaction

_NEEDED = "__trickle_needed"
_WANTED = "__trickle_wanted"
_NUMBER = "__trickle_number"


class Run:
    """Views and queries of one refresh inside one transaction."""

    def __init__(
        self,
        desks: Desks,
        meaning: Meaning,
        settings: Settings,
        files: FileSystem,
        tx: Transaction,
    ) -> None:
        self._desks = desks
        self.meaning = meaning
        self._settings = settings
        self._files = files
        self._tx = tx
        self._pace = "quick"
        self._reads = 0
        self._views: list[tuple[SparkSession, str]] = []
        self._folders: list[str] = []
        self._shown: dict[tuple[SparkSession, int], tuple[pa.Table, str]] = {}
        """Views of Arrow tables, by the identity of the table, which is kept alive here."""
        self.budget: Budget | None = None
        """What may be spent on the work, if that is bounded."""
        self.spark_queries = 0
        self.rows_read = 0
        self.bytes_read = 0

    @property
    def limits(self) -> Limits:
        """What is read and held in this process for it."""
        return self._settings.limits

    @property
    def spark(self) -> SparkSession:
        """The session that views and queries are made in."""
        return self._desk().spark

    @property
    def frames(self) -> Frames:
        return self._desk().frames

    def reads(self, bytes: int, *, tiny: bool = False) -> None:
        """Say how much the next query reads: the session for it follows from that.

        What the query names has to be made after this, for views belong to a session. ``tiny``: it
        reads few rows, all from memory.
        """
        self._pace = "tiny" if tiny else self._desks.pace(bytes)
        self._reads = bytes

    def _desk(self, bytes: int | None = None) -> Desk:
        pace = self._pace if bytes is None else self._desks.pace(bytes)
        desk = self._desks.desk(self.meaning, pace)
        if self.budget is not None:
            self.budget.use(desk.spark)
        return desk

    def scan(self, plan: ScanPlan, keep: Sequence[Restriction] = ()) -> str:
        """A view of a table's rows; of those only that may meet one entry of ``keep``, if any."""
        self._count(plan)
        if not keep:
            return self.frames.view(plan)
        frame = self.frames.scan(plan)
        tests = [all_of([among(name, v)[0] for name, v in entry.items()]) for entry in keep]
        return self._view(frame.where(any_of(tests)))

    def changes(self, plan: ChangePlan, within: Ranges = ()) -> str:
        """A view of a table's changes with their weights; of those only that lie in the ranges."""
        taken = Taken()
        frame = change_frame(self.spark, plan, self.limits, taken)
        self.note_read(taken.rows, plan.bytes)
        return self._view(frame.where(among_ranges(plan.table, within)) if within else frame)

    def rows(self, table: Table, rows: Rows) -> str:
        """A view of rows of a table, with their weights and other marks, if they have any."""
        if isinstance(rows, Spill):
            return self._view(self._spilled(rows))
        place = self.spark, id(rows)
        if place not in self._shown:
            self._shown[place] = rows, self._local(table, rows)
        return self._shown[place][1]

    def _local(self, table: Table, rows: pa.Table) -> str:
        columns = tuple(column for column in table.columns if column.name in rows.column_names)
        part = Table(table.id, table.schema, table.name, columns)
        known = {column.name for column in columns}
        extra = [name for name in rows.column_names if name not in known]
        rows = rows.select([*(column.name for column in columns), *extra])
        return self._view(local_frame(self.spark, part, rows, extra))

    def search(
        self, plan: ScanPlan, columns: Sequence[str], restrictions: Sequence[Restriction], most: int
    ) -> pa.Table | None:
        """The rows that meet one of the restrictions; None if they are more than ``most``, or too large."""
        desk = self._desk(plan.bytes)
        with spark_errors():
            frame = desk.frames.scan(plan).select(*(quote(name) for name in columns))
            tests = [
                all_of(
                    [
                        self._exactly(desk, plan.table, n, values)
                        for n, values in restriction.items()
                    ]
                )
                for restriction in restrictions
            ]
            found = self._few(frame.where(any_of(tests)), most)
        if found is None:
            return None
        schema = plain_schema(plan.table)
        return found.cast(pa.schema([schema.field(name) for name in columns]))

    def _exactly(self, desk: Desk, table: Table, name: str, values: pa.Array) -> Expression:
        """Whether a column's value is one of these; many values are looked up in a table."""
        near, exact = among(name, values)
        if exact:
            return near
        column = next(c for c in table.columns if c.name == name)
        part = Table(table.id, table.schema, table.name, (replace(column, name="v"),))
        kept = pa.table({"v": values.drop_null().cast(arrow_type(column))})
        listed = self._view(local_frame(desk.spark, part, kept))
        found = F.expr(f"{quote(name)} IN (SELECT v FROM {listed})")
        if values.null_count:
            found = found | F.col(quote(name)).isNull()
        return near & found

    def analyze(self, sql: str) -> list[tuple[str, str]]:
        """The names and types of a query's columns; runs nothing."""
        with spark_errors():
            return self.shape(self.spark.sql(sql))

    def shape(self, frame: DataFrame) -> list[tuple[str, str]]:
        """The names and types of a frame's columns."""
        with spark_errors():
            return [(f.name, type_text(f.dataType)) for f in frame.schema]

    def fetch(self, sql: str, most: int) -> Rows:
        """The rows of a query: as Arrow if they are at most ``most`` and fit, else in files.

        One that reads much is run once: into files, which are read again if they turn out small.
        """
        if self._reads > self.limits.written_bytes:
            return self.small(self.spill(sql), most)
        with spark_errors():
            frame = self.spark.sql(sql)
            reach("refresh-query-sent")
            found = self._few(frame, most)
        return found if found is not None else self.spill(sql)

    def _few(self, frame: DataFrame, most: int) -> pa.Table | None:
        found, queries = few(frame, most, self.limits.fetched_bytes)
        self.spark_queries += queries
        return found

    def query(self, sql: str) -> DataFrame:
        with spark_errors():
            return self.spark.sql(sql)

    def whole(self, frame: DataFrame, most: int, *, probably: bool) -> Rows:
        """All rows of a frame, each of weight 1: as Arrow if they are few and fit, else in files.

        ``probably``: they are few, as far as is known; if not, they are computed twice.
        """
        with spark_errors():
            frame = frame.withColumn(WEIGHT, F.lit(1).cast("bigint"))
            if probably:
                reach("refresh-query-sent")
                found = self._few(frame, most)
                if found is not None:
                    return found
            spill = self._spill(frame)
        return self.small(spill, most)

    def again(self, spill: Spill, names: Sequence[str]) -> DataFrame:
        """Some columns of a large result."""
        return self._spilled(spill).select(*(quote(name) for name in names))

    def spill(self, sql: str) -> Spill:
        """The rows of a query in files, written by executors."""
        with spark_errors():
            return self._spill(self.spark.sql(sql))

    def _spill(self, frame: DataFrame) -> Spill:
        folder = f"{self._files.root}spill_{uuid4().hex}"
        self._tx.discard(folder)
        self._folders.append(folder)
        # Columns of tables carry their field ids, which need not be unique in a result.
        frame = frame.select(
            *(F.col(quote(n)).alias(n, metadata={"spilled": True}) for n in frame.columns)
        )
        self.spark_queries += 1
        reach("refresh-query-sent")
        rows, _ = write_parquet(self._files, folder, frame)
        return Spill(folder, frame.schema, rows)

    def spill_difference(self, frame: DataFrame, stored: ScanPlan) -> Spill:
        """What ``frame`` has more (+) or less (-) than the stored rows, column by column in order."""
        self._count(stored)
        with spark_errors():
            rows = frame.to(spark_schema(stored.table.columns, ids=False))
            there = self.frames.scan(stored)
            both = rows.withColumn(WEIGHT, F.lit(1).cast("bigint")).unionAll(
                there.withColumn(WEIGHT, F.lit(-1).cast("bigint"))
            )
            return self._spill(net(both, [column.name for column in stored.table.columns]))

    def small(self, spill: Spill, most: int) -> Rows:
        """The same rows as Arrow if they turned out to be few and to fit."""
        if spill.rows > most:
            return spill
        found = read_here(self._files, spill, self.limits.fetched_bytes)
        if found is None:
            with spark_errors():
                found = self._few(self._spilled(spill), most)
        return spill if found is None else found

    def head(self, spill: Spill, most: int) -> pa.Table:
        """The first rows of a large result, in no order: as many as fit, and one if there is any."""
        with spark_errors():
            while most > 1:
                found = self._few(self._spilled(spill).limit(most), most)
                if found is not None:
                    return found
                most //= 10
            self.spark_queries += 1
            return self._spilled(spill).limit(1).toArrow()

    def insert_spilled(
        self, table: Table, spill: Spill, wrong: str | None = None
    ) -> tuple[int, int]:
        """Insert the rows with positive weight, as often as it says; how many, and how many of
        them meet the test ``wrong``."""
        names = [F.col(quote(column.name)) for column in table.columns]
        tested = Observation()
        with spark_errors():
            gained = self._spilled(spill).where(F.col(WEIGHT) > 0)
            if wrong is not None:
                gained = gained.observe(tested, F.count_if(F.expr(wrong)).alias("wrong"))
            copies = F.explode(F.sequence(F.lit(1), F.col(WEIGHT))).alias(_NUMBER)
            frame = gained.select(*names, copies).select(*names)
            frame = frame.to(spark_schema(table.columns, ids=False))
            self.spark_queries += 1
            files = Writer(self._tx, self._settings).write_files(table, frame)
            refused = 0 if wrong is None else int(tested.get["wrong"])
        return self._tx.insert_files(table, files), refused

    def locate(self, plan: ScanPlan, by: Sequence[str], lost: Rows) -> tuple[Gone, int]:
        """The stored rows equal to the lost ones in the columns ``by``, and how many there should
        be: each lost row names as many as its weight says."""
        self._count(plan)
        desk = self._desk(plan.bytes)
        with spark_errors():
            wanted, needed = self._wanted(desk.spark, plan.table, by, lost)
            stored = desk.frames.scan(plan, located=True)
            values = [c.alias(n) for c, n in zip(comparable_columns(stored, by), by, strict=True)]
            stored = stored.select(*values, KEY, ROW)
            match = all_of(
                [stored[quote(n)].eqNullSafe(wanted[quote(f"{_WANTED}_{n}")]) for n in by]
            )
            found = stored.join(wanted, match).select(
                *(F.col(quote(n)) for n in by), KEY, ROW, _NEEDED
            )
            keys = ", ".join(quote(name) for name in by)
            order = F.expr(f"row_number() OVER (PARTITION BY {keys} ORDER BY {KEY}, {ROW})")
            chosen = found.withColumn(_NUMBER, order).where(F.col(_NUMBER) <= F.col(_NEEDED))
            self.spark_queries += 1
            return self._places(plan).find(chosen, needed), needed

    def delete(self, plan: ScanPlan, gone: Gone) -> int:
        return self._places(plan).delete(gone)

    def _places(self, plan: ScanPlan) -> Places:
        return Places(self._tx, plan, self._settings)

    def note_read(self, rows: int, bytes: int) -> None:
        """Rows that were decoded, here or by Spark: more than those that were wanted."""
        self.rows_read += rows
        self.bytes_read += bytes

    def close(self) -> None:
        """Drop the views and remove the files of large results."""
        for spark, view in self._views:
            drop_view(spark, view)
        self._views.clear()
        for folder in self._folders:
            self._files.remove(folder)
        self._folders.clear()

    def _wanted(
        self, spark: SparkSession, table: Table, by: Sequence[str], lost: Rows
    ) -> tuple[DataFrame, int]:
        if isinstance(lost, Spill):
            frame = self._spilled(lost, spark).where(F.col(WEIGHT) < 0)
            self.spark_queries += 1
            needed = -int(frame.agg(F.sum(WEIGHT)).collect()[0][0] or 0)
        else:
            needed = -sum(lost.column(WEIGHT).to_pylist())
            columns = tuple(c for c in table.columns if c.name in by)
            part = Table(table.id, table.schema, table.name, columns)
            names = [column.name for column in columns]
            frame = local_frame(spark, part, lost.select([*names, WEIGHT]), [WEIGHT])
        named = zip(comparable_columns(frame, by), by, strict=True)
        renamed = [column.alias(f"{_WANTED}_{name}") for column, name in named]
        wanted = frame.select(*renamed, (-F.col(WEIGHT)).alias(_NEEDED))
        return (wanted if isinstance(lost, Spill) else F.broadcast(wanted)), needed

    def _spilled(self, spill: Spill, spark: SparkSession | None = None) -> DataFrame:
        reader = parquet_reader(spark or self.spark, spill.schema)
        return reader.parquet(self._files.pattern(spill.folder))

    def _view(self, frame: DataFrame) -> str:
        name = f"__trickle_{uuid4().hex}"
        frame.createTempView(name)
        self._views.append((frame.sparkSession, name))
        return name

    def _count(self, plan: ScanPlan) -> None:
        self.note_read(plan.decoded_rows, plan.bytes)
