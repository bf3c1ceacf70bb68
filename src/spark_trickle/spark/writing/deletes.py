"""Delete files written by Spark's executors: one for each data file that loses rows.

Nothing comes into this process for a row: it gets the names of the files, and how many rows each has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as t

from spark_trickle.spark.bitmaps import KEY, POSITION_BITS
from spark_trickle.spark.frames import FileKeys, parquet_reader
from spark_trickle.spark.sessions.classic import active_kept
from spark_trickle.spark.types import FIELD_ID
from spark_trickle.spark.writing.holding import held
from spark_trickle.spark.writing.write import write_parquet
from spark_trickle.storage.faults import reach
from spark_trickle.storage.manifest.pieces import DeleteRow
from spark_trickle.storage.records import FILE_VERSION, DataFile, ScanPlan
from spark_trickle.storage.versions import deaths
from spark_trickle.storage.versions.deaths import FIELDS, PATH, POSITION, DeathFile
from spark_trickle.storage.versions.transaction import Transaction

_CODE, _TIMES = "__trickle_file", "__trickle_times"
_ROWS_PER_TASK = 500_000
_OF_FILE = re.compile(rf"{_CODE}=(\d+)/[^/]*$")


@dataclass
class Deleted:
    """What was written so far."""

    files: dict[int, DeathFile] = field(default_factory=dict)
    """By the id of the data file."""
    rows: int = 0
    """Each counted once."""
    once: bool = True
    """Whether none was named twice."""


class DeathWriter:
    """Writes delete files for rows of one scan, which wait for the commit of a transaction."""

    def __init__(self, tx: Transaction, plan: ScanPlan) -> None:
        self._tx = tx
        self._plan = plan
        self._table = plan.table
        self._keys = FileKeys(plan.files)
        self._files = {self._keys.code(file): file for file in plan.files}

    def write(self, places: DataFrame, rows: int | None = None) -> Deleted:
        """``places`` has KEYs; ``rows``: how many at most, if that is known.

        Where a data file has a delete file, the new one has its deaths too, and their versions.
        """
        made = Deleted()
        mask = (1 << POSITION_BITS) - 1
        named = places.selectExpr(
            f"shiftright({KEY}, {POSITION_BITS}) AS {_CODE}", f"{KEY} & {mask} AS {POSITION}"
        ).withColumn(_TIMES, F.lit(1).cast("bigint"))
        most = self._plan.rows if rows is None else rows
        found, guess = self._tx.earlier_deletes(self._table)
        earlier = {c: found[f.id] for c, f in self._files.items() if f.id in found}
        if not earlier:
            self._write(made, named, most)
            return made
        again = F.col(_CODE).isin(list(earlier))
        with held(named) as same:
            self._write(made, same.where(~again), most)
            new = same.where(again).withColumn(FILE_VERSION, F.lit(guess).cast("bigint"))
            both = new.unionByName(self._earlier(named.sparkSession, earlier))
            self._write(made, both, most, earlier, guess)
        return made

    def _write(
        self,
        made: Deleted,
        named: DataFrame,
        most: int,
        earlier: Mapping[int, Sequence[DeleteRow]] | None = None,
        guess: int | None = None,
    ) -> None:
        """One file for each data file, which one task writes; each row once, in order."""
        tasks = max(1, min(len(self._files), most // _ROWS_PER_TASK + 1))
        sums = [F.sum(_TIMES).alias(_TIMES)]
        if earlier is not None:
            sums.append(F.min(FILE_VERSION).alias(FILE_VERSION))
        each = named.repartition(tasks, F.col(_CODE)).groupBy(_CODE, POSITION).agg(*sums)
        counted = Observation()
        new = [F.count_if(F.col(_TIMES) > 0).alias("rows"), F.max(_TIMES).alias("times")]
        rows = each.observe(counted, *new).join(self._paths(each.sparkSession), _CODE)
        columns = [PATH, POSITION, *([] if earlier is None else [FILE_VERSION])]
        rows = rows.select(_CODE, *map(_with_id, columns)).sortWithinPartitions(_CODE, POSITION)
        folder = f"{self._table.location}{uuid4().hex}"
        self._tx.discard(folder)
        _, paths = write_parquet(self._table.files, folder, rows, {}, by=_CODE)
        reach("delete-file-written")
        if not paths:
            return  # and nothing was counted: Spark leaves out what has no rows
        made.rows += counted.get["rows"]
        made.once = made.once and counted.get["times"] <= 1
        for path in paths:
            code = int(_OF_FILE.search(path).group(1))  # type: ignore[union-attr]
            begin = None if earlier is None else min(row.begin for row in earlier[code])
            one = deaths.opened(self._placed(path), self._table, begin, guess)
            untouched = earlier is not None and one.rows == sum(d.rows for d in earlier[code])
            if not untouched:
                made.files[self._files[code].id] = one

    def _placed(self, path: str) -> str:
        """The file in the table's own folder, where moving it there costs nothing."""
        if self._table.files.stored(path):
            return path
        target = deaths.new_path(self._table)
        self._tx.discard(target)
        self._table.files.move(path, target)
        return target

    def _paths(self, spark: SparkSession) -> DataFrame:
        """By code the path of a data file, as delete files name it."""
        paths = pa.array([file.path for file in self._files.values()], pa.string())
        return _local(spark, {_CODE: pa.array(list(self._files), pa.int64()), PATH: paths})

    def _earlier(
        self, spark: SparkSession, deletes: Mapping[int, Sequence[DeleteRow]]
    ) -> DataFrame:
        """The deaths in delete files, up to the base."""
        schema = t.StructType([t.StructField(POSITION, t.LongType())])
        schema.add(FILE_VERSION, t.LongType())
        owner = {row.path: (code, row) for code, rows in deletes.items() for row in rows}
        files = [DataFile(r.id, path, 0, 0, None, 0) for path, (_, r) in owner.items()]
        keys = FileKeys(files)
        reader = parquet_reader(spark, schema)
        read = reader.parquet(*(self._table.files.pattern(path) for path in owner))
        of_file = {
            "__trickle_code": pa.array([keys.code(file) for file in files], pa.int64()),
            "__trickle_begin": pa.array([row.begin for _, row in owner.values()], pa.int64()),
            _CODE: pa.array([code for code, _ in owner.values()], pa.int64()),
        }
        found = read.selectExpr("*", f"{keys.code_text} AS __trickle_code")
        found = found.join(_local(spark, of_file), "__trickle_code")
        version = f"coalesce({FILE_VERSION}, __trickle_begin)"
        return found.where(f"{version} <= {self._plan.version}").selectExpr(
            _CODE, POSITION, f"0L AS {_TIMES}", f"{version} AS {FILE_VERSION}"
        )


def _with_id(name: str) -> Column:
    return F.col(name).alias(name, metadata={FIELD_ID: FIELDS[name]})


def _local(spark: SparkSession, columns: Mapping[str, pa.Array]) -> DataFrame:
    with active_kept(spark):
        return F.broadcast(spark.createDataFrame(pa.table(dict(columns))))
