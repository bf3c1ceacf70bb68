"""Spark and the storage of a lake: do both sides see the same files, and by what credentials."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from uuid import uuid4
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from spark_trickle.errors import ExecutionError, ReadOnlyError, TrickleError
from spark_trickle.spark.failures import spark_errors
from spark_trickle.spark.frames import parquet_reader
from spark_trickle.storage.files.filesystem import FileSystem

_CHECKED: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
_HINT = "give a data_path that this process and all of Spark's machines share"


def check_shared(spark: SparkSession, files: FileSystem) -> None:
    """ExecutionError if a Spark elsewhere and this process see different storage; asks once.

    One that runs in this process, as ``local[…]`` does, sees what it sees.
    """
    known = _CHECKED.setdefault(spark, set())
    if files.root in known:
        return
    if not _runs_here(spark):
        probe(spark, files)
    known.add(files.root)


def _runs_here(spark: SparkSession) -> bool:
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return False
    return _master(spark).split("[")[0] == "local"


def _master(spark: SparkSession) -> str:
    return str(spark.conf.get("spark.master", "an unknown master"))


def probe(spark: SparkSession, files: FileSystem) -> None:
    """Have Spark copy a file that this process wrote, and look at the copy."""
    token = uuid4().hex
    folder = f"{files.root}probe_{token}"
    original, copy = f"{folder}/original.parquet", f"{folder}/copy"
    try:
        with files.output(original) as sink:
            pq.write_table(pa.table({"token": [token]}), sink)
    except ReadOnlyError:
        return  # who may only read learns from the first read what Spark does not see
    here, there = f"this process on {socket.gethostname()}", f"Spark at {_master(spark)}"
    try:
        _copy(spark, files.pattern(original), files.for_spark(copy))
        found = [path for path, _ in files.list(copy, recursive=False)]
        rows = [files.parquet(path).read() for path in found if path.endswith(".parquet")]
        seen = [row for part in rows for row in part.column("token").to_pylist()]
    except TrickleError as error:
        raise ExecutionError(
            f"{there} does not see the file {original} that {here} has written: {error.message}",
            hint=_HINT,
        ) from None
    finally:
        with suppress(TrickleError):
            files.remove(folder)
    if seen != [token]:
        raise ExecutionError(
            f"{here} does not see what the executors of {there} write into {copy}", hint=_HINT
        )


def _copy(spark: SparkSession, original: str, copy: str) -> None:
    schema = t.StructType([t.StructField("token", t.StringType())])
    with spark_errors():
        parquet_reader(spark, schema).parquet(original).write.parquet(copy)


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
