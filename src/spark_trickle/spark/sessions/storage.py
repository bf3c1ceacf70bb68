"""Spark and the storage of a lake: do both sides see the same files, and by what credentials."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from uuid import uuid4
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as t

from spark_trickle.errors import ExecutionError, ReadOnlyError, TrickleError
from spark_trickle.spark.failures import spark_errors
from spark_trickle.spark.frames import parquet_reader
from spark_trickle.storage.files.filesystem import FileSystem

_CHECKED: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
_COPIES = 256
"""Rows of the probe: more executors than this are not all asked."""
_HINT = "give a data_path that this process and all of Spark's machines share"
_HINT_OF_STORES = (
    "Spark needs the package hadoop-aws, and endpoint and credentials as spark.hadoop.fs.s3a.*: see "
    "docs/deploy.md"
)


def check_shared(spark: SparkSession, files: FileSystem) -> None:
    """ExecutionError if a Spark elsewhere and this process see different storage; asks once.

    One that runs in this process, as ``local[…]`` does, sees the disk that it sees; an object
    store it reaches in a way of its own.
    """
    known = _CHECKED.setdefault(spark, set())
    if files.root in known:
        return
    if files.stored(files.root) or not _runs_here(spark):
        probe(spark, files)
    known.add(files.root)


def _runs_here(spark: SparkSession) -> bool:
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return False
    return _master(spark).split("[")[0] == "local"


def _master(spark: SparkSession) -> str:
    return str(spark.conf.get("spark.master", "an unknown master"))


def probe(spark: SparkSession, files: FileSystem) -> None:
    """Have every executor copy what this process wrote and read the copies, and look at them too."""
    token = uuid4().hex
    folder = f"{files.root}probe_{token}"
    original, copies = f"{folder}/original.parquet", f"{folder}/copies"
    try:
        with files.output(original) as sink:
            pq.write_table(pa.table({"token": [token]}), sink)
    except ReadOnlyError:
        return  # who may only read learns from the first read what Spark does not see
    hint = _HINT_OF_STORES if files.stored(folder) else _HINT
    here, there = f"this process on {socket.gethostname()}", f"Spark at {_master(spark)}"
    try:
        with spark_errors():
            _copy(spark, files.pattern(original), files.for_spark(copies))
        found = [path for path, _ in files.list(copies, recursive=False)]
        found = [path for path in found if path.endswith(".parquet")]
        seen = [row for path in found for row in files.parquet(path).read()["token"].to_pylist()]
        if seen == [token] * _COPIES:
            with spark_errors():
                _read(spark, token, [files.pattern(path) for path in found])
    except TrickleError as error:
        raise ExecutionError(
            f"{there} does not see the files in {folder} that {here} sees: {error.message}",
            hint=hint,
        ) from None
    finally:
        with suppress(TrickleError):
            files.remove(folder)
    if seen != [token] * _COPIES:
        raise ExecutionError(
            f"{here} does not see what the executors of {there} write into {copies}: "
            f"{len(seen)} of {_COPIES} rows",
            hint=hint,
        )


def _copy(spark: SparkSession, original: str, copies: str) -> None:
    """Rows without a source are made by as many tasks as there are cores, and free executors get
    one task each before any gets a second one: all of those that are there now write."""
    rows = spark.range(_COPIES).crossJoin(F.broadcast(_tokens(spark, [original])))
    rows.select("token").write.parquet(copies)


def _read(spark: SparkSession, token: str, copies: Sequence[str]) -> None:
    """Each of so small files is a task, and there are as many of them as cores."""
    rows = _tokens(spark, copies).where(F.col("token") == token).count()
    if rows != _COPIES:
        raise ExecutionError(f"Spark reads {rows} of {_COPIES} rows")


def _tokens(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    schema = t.StructType([t.StructField("token", t.StringType())])
    return parquet_reader(spark, schema).parquet(*paths)


def hadoop_options(storage: Mapping[str, str]) -> dict[str, str]:
    """``Settings.storage`` as a Spark that is started here needs it."""
    if not storage:
        return {}
    names = {
        "endpoint": "endpoint",
        "region": "endpoint.region",
        "access_key": "access.key",
        "secret_key": "secret.key",
        "session_token": "session.token",
        "path_style": "path.style.access",
    }
    own = {"path_style": "true", **storage}
    found = {f"spark.hadoop.fs.s3a.{names[key]}": value for key, value in own.items()}
    if "session_token" in storage:
        provider = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
        found["spark.hadoop.fs.s3a.aws.credentials.provider"] = provider
    return found
