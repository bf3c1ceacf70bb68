"""Wall times as instants, by the rules of Spark's session zone."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_trickle.spark.failures import spark_errors
from spark_trickle.spark.sessions.classic import active_kept


def instants(spark: SparkSession, wall: pa.ChunkedArray) -> pa.ChunkedArray:
    """Wall times (microseconds) of the session's zone as instants."""
    with spark_errors(), active_kept(spark):
        frame = spark.createDataFrame(pa.table({"v": wall.combine_chunks()}), "v TIMESTAMP_NTZ")
        found = frame.selectExpr("CAST(v AS TIMESTAMP) AS v").toArrow().column(0)
    return found.cast(pa.timestamp("us", "UTC"))
