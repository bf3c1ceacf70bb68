"""Sets of rows in files as bitmaps: one row per file, joined by the file, tested by the position.

A position costs a bit. As a row of its own in a local relation it would cost some 70 bytes of
Spark's memory, and a search in a large hash table for every row that is read.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_trickle.spark.classic import active_kept

KEY = "__trickle_key"
"""Hidden column of located scans: which file and position; NULL for inlined rows."""
POSITION_BITS = 31
_FILE, _WORDS = "__trickle_file", "__trickle_words"
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
