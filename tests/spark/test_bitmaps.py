"""Positions as bitmaps: just the rows at the places, or just the others."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_trickle.spark import bitmaps

ROWS = 1_000
FILES = {3: 0, 0xFFFFFFFF: 1, 77: 2}
"""Codes of files; the second is the largest checksum there is."""


@pytest.fixture(scope="module")
def located(spark: SparkSession) -> DataFrame:
    """Rows of three files, and one that is in none."""
    keys = [(code << bitmaps.POSITION_BITS) + place for code in FILES for place in range(ROWS)]
    return spark.createDataFrame(pa.table({bitmaps.KEY: pa.array([*keys, None], pa.int64())}))


def keys(frame: DataFrame) -> set[int | None]:
    return {row[0] for row in frame.collect()}


@pytest.mark.parametrize("seed", range(4))
def test_rows_at_the_places_and_the_others(
    spark: SparkSession, located: DataFrame, seed: int
) -> None:
    chance = random.Random(seed)
    edges = [0, 63, 64, 127, 128, ROWS - 1]
    places = {
        code: sorted({*chance.sample(range(ROWS), chance.choice([1, 5, 400])), *edges[:number]})
        for number, code in enumerate(chance.sample(list(FILES), 2), start=2 * (seed % 3))
    }
    wanted = {(code << bitmaps.POSITION_BITS) + p for code, found in places.items() for p in found}
    given = {code: pa.array(found, pa.int64()) for code, found in places.items()}
    assert keys(bitmaps.only(spark, located, given)) == wanted
    assert keys(bitmaps.without(spark, located, given)) == keys(located) - wanted


@pytest.mark.parametrize("share", [0.001, 0.3])
def test_the_living_rows_of_a_scan(spark: SparkSession, tmp_path: Path, share: float) -> None:
    """One file has no dead row; positions beyond the last dead one of any file are alive."""
    chance = random.Random(7)
    places, alive = {}, set()
    for number, name in enumerate(("a.parquet", "b.parquet", "c.parquet")):
        values = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
        pq.write_table(pa.table({"v": values}), tmp_path / name)
        dead = sorted({0, 64, *chance.sample(range(ROWS - 100), int(share * ROWS))})[
            : number * ROWS
        ]
        if dead:
            places[zlib.crc32(name.encode())] = pa.array(dead, pa.int64())
        alive |= {number * ROWS + place for place in range(ROWS)} - {
            number * ROWS + d for d in dead
        }
    assert bitmaps.sparse(places) is (share < 0.1)
    scan = spark.read.parquet(str(tmp_path))
    code = "crc32(cast(_metadata.file_name AS BINARY))"
    assert keys(bitmaps.living(spark, scan, places, code)) == alive


def test_a_bitmap_ends_with_its_last_position() -> None:
    assert bitmaps.bitmap(pa.array([0, 1, 63], pa.int64())).tolist() == [3 - (1 << 63)]
    assert bitmaps.bitmap(pa.array([64], pa.int64())).tolist() == [0, 1]
    assert bitmaps.bitmap(pa.array([], pa.int64())).dtype == np.int64
