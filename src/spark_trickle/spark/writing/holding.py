"""Rows that are read more than once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import StorageLevel
from pyspark.sql import DataFrame


@contextmanager
def held(frame: DataFrame) -> Iterator[DataFrame]:
    """The frame with its rows kept: what reads it twice must see the same rows twice."""
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()
