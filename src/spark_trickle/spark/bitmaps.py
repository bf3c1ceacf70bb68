"""Sets of rows in files as bitmaps: one row per file, joined by the file, tested by the position.

A position costs a bit. As a row of its own in a local relation it would cost some 70 bytes of
Spark's memory, and a search in a large hash table for every row that is read.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_trickle.spark.sessions.classic import active_kept

KEY = "__trickle_key"
"""Hidden column of located scans: which file and position; NULL for inlined rows."""
POSITION_BITS = 31
_FILE, _WORDS = "__trickle_file", "__trickle_words"
_ANY, _FILES = "__trickle_any", "__trickle_files"
_SPARSE = 0.2
_MOST_WORDS = 1 << 19
_TEST = (
    f"shiftright({KEY}, {POSITION_BITS}) = {_FILE} AND getbit(get({_WORDS}, "
    f"cast(shiftright({KEY} & {(1 << POSITION_BITS) - 1}, 6) AS INT)), cast({KEY} & 63 AS INT)) = 1"
)


def only(spark: SparkSession, frame: DataFrame, places: Mapping[int, pa.Array]) -> DataFrame:
    """The rows at the places: positions by the code of their file."""
    return frame.join(_bitmaps(spark, places), F.expr(_TEST), "left_semi")


def without(spark: SparkSession, frame: DataFrame, places: Mapping[int, pa.Array]) -> DataFrame:
    """The rows that are at none of the places."""
    return frame.join(_bitmaps(spark, places), F.expr(_TEST), "left_anti")


def sparse(places: Mapping[int, pa.Array]) -> bool:
    """Whether most positions are dead in no file, and the bitmaps are small enough for every task."""
    if len(places) == 1:
        return sum(map(_words, places.values())) <= _MOST_WORDS
    if sum(map(_words, places.values())) > _MOST_WORDS:
        return False
    every = pa.chunked_array(list(places.values())).combine_chunks()
    return len(every.unique()) <= _SPARSE * 64 * max(map(_words, places.values()))


def living(
    spark: SparkSession, scan: DataFrame, places: Mapping[int, pa.Array], code: str
) -> DataFrame:
    """The rows of a Parquet scan that are at none of the places; ``code``: the text of a file's code.

    A row whose position is dead in no file is alive: a bit tells, without a join. Only of the others
    the file is asked for, whose checksum costs more than the row.
    """
    every = pa.chunked_array(list(places.values())).combine_chunks()
    files = [(file, bitmap(positions)) for file, positions in places.items()]
    rows = pa.table(
        {
            _ANY: pa.array([bitmap(every)], pa.list_(pa.int64())),
            _FILES: pa.array([files], pa.map_(pa.int64(), pa.list_(pa.int64()))),
        }
    )
    with active_kept(spark):
        bits = spark.createDataFrame(rows)
    anywhere = _set(bits.select(_ANY).scalar())
    here = _set(F.element_at(bits.select(_FILES).scalar(), F.expr(code)))
    return scan.where(~(anywhere & here))


def _set(words: Column) -> Column:
    """Whether the bit of a row's position is set."""
    place = F.col("_metadata.row_index")
    word = F.get(words, F.shiftright(place, 6).cast("int"))
    return F.coalesce(F.getbit(word, place.bitwiseAND(F.lit(63)).cast("int")), F.lit(0)) == 1


def _words(positions: pa.Array) -> int:
    return int(pc.max(positions).as_py()) // 64 + 1


def _bitmaps(spark: SparkSession, places: Mapping[int, pa.Array]) -> DataFrame:
    codes = pa.array(list(places), pa.int64())
    words = pa.array([bitmap(positions) for positions in places.values()], pa.list_(pa.int64()))
    with active_kept(spark):
        return F.broadcast(spark.createDataFrame(pa.table({_FILE: codes, _WORDS: words})))


def bitmap(positions: pa.Array) -> np.ndarray:
    """64 positions a word, up to the last one that is set."""
    places = positions.to_numpy(zero_copy_only=False)
    bits = np.zeros((int(places.max()) // 64 + 1) * 64 if len(places) else 0, dtype=bool)
    bits[places] = True
    return np.packbits(bits, bitorder="little").view("<i8")
