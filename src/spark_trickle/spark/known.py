"""Files in an object store whose names and sizes are known: read without asking the store for them.

Of each path that it is given, Spark asks three times, once by a listing. Of a folder that has the log
of a streaming sink, whose format Spark must go on reading, it takes the files named there for granted.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from spark_trickle.spark.sessions.classic import has_java

_LOG = "_spark_metadata"
_IGNORED = "spark.sql.streaming.fileStreamSink.ignoreMetadata"


def may_be_named(spark: SparkSession) -> bool:
    """Whether the driver reads this process's disk, where the log is, and heeds it."""
    return has_java(spark) and str(spark.conf.get(_IGNORED, "false")).lower() != "true"


def read_named(reader: DataFrameReader, files: Sequence[tuple[str, int]]) -> DataFrame:
    """The rows of files given by their URIs and sizes in bytes."""
    with tempfile.TemporaryDirectory(prefix="trickle-files-") as folder:
        log = Path(folder, _LOG, "0")
        log.parent.mkdir()
        log.write_text("\n".join(["v1", *(_line(uri, size) for uri, size in files)]))
        # Whoever passes over the log finds this, which is an error, and not an empty table.
        Path(folder, "log_not_read.parquet").write_text("this is no Parquet file")
        # Names of folders (``env=prod``) are no columns. The driver reads the log now and not again.
        return reader.option("recursiveFileLookup", "true").parquet(Path(folder).as_uri())


def _line(uri: str, size: int) -> str:
    known = {"path": uri, "size": size, "isDir": False, "modificationTime": 0}
    return json.dumps(known | {"blockReplication": 1, "blockSize": 1 << 25, "action": "add"})
