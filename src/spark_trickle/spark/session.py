"""The Spark session: the user's own, or one of ours started on first need."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from spark_trickle.errors import ExecutionError
from spark_trickle.settings import Settings
from spark_trickle.spark.interrupts import watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame as DataFrame
    from pyspark.sql import SparkSession as SparkSession

_NEEDED = {
    # Columns are found by field id, so that renamed columns read right.
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    # Listing files in a Spark job costs a second; the catalog already knows them.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # DuckDB and our own reads take files to be in today's calendar.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_BROKEN = "org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughUnion"
"""Fails on a correlated subquery in SELECT over a union (Spark 4.2), which most tables are to it."""
_PACES = {
    # Re-planning between stages and many partitions cost more than a small delta itself.
    "quick": {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        # Most rules of the analyser and optimiser walk through all rows of a local relation.
        "spark.sql.execution.arrow.localRelationThreshold": "64k",
        # What is handed over otherwise has no size that Spark knows; it is good to broadcast.
        "spark.sql.defaultSizeInBytes": str(2 << 20),
    },
    # So does compiling a class for each stage, if all rows are in memory and few.
    "tiny": {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    },
    # Shuffled keys compress well: as many as Spark gives a task by their bytes need not fit into
    # its memory.
    "large": {
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "64",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "8m",
    },
}
"""By occasion: no two have a setting in common, for one may begin inside another."""
_CHANGING = Lock()
_INSIDE = "spark.trickle.inside."
_USUAL = "spark.trickle.usual."
_LOG = Path(__file__).with_name("log4j2.properties")


class SessionHolder:
    """Gives the session out; starts one only when somebody really needs it."""

    def __init__(self, given: SparkSession | None, settings: Settings) -> None:
        self._session = given
        self._given = given is not None
        self._settings = settings
        self._ready = False
        self._context: object = None
        """What runs behind a session of Spark Classic: another one, or none, means it was stopped."""
        self._owned = False

    @contextmanager
    def pace(self, name: str) -> Iterator[None]:
        """Settings for an occasion while inside; shared by all threads and lakes that are.

        The session itself remembers its usual settings: several lakes may share it. How large
        queries run is for those to say who brought the session.
        """
        conf = self.spark.conf
        if name == "large" and not self._owned:
            yield
            return
        counter = _INSIDE + name
        with _CHANGING:
            inside = int(str(conf.get(counter, "0")))
            if inside == 0:
                for key, value in _PACES[name].items():
                    conf.set(_USUAL + key, conf.get(key, None) or "")
                    conf.set(key, value)
            conf.set(counter, str(inside + 1))
        try:
            yield
        finally:
            with _CHANGING:
                inside = int(str(conf.get(counter))) - 1
                conf.set(counter, str(inside))
                if inside == 0:
                    for key in _PACES[name]:
                        usual = str(conf.get(_USUAL + key))
                        conf.set(key, usual) if usual else conf.unset(key)

    @property
    def started(self) -> bool:
        return self._session is not None

    @property
    def spark(self) -> SparkSession:
        if self._ready and self._stopped():
            if self._given:
                raise ExecutionError(
                    "the Spark session that this lake was given has been stopped",
                    hint="connect again with a running one, or without one: a local Spark is started",
                )
            self._session, self._ready = None, False
        if self._session is None:
            self._session = self._active() or self._start()
        if not self._ready:
            self._context = _context(self._session)
            prepare(self._session)
            self._ready = True
        return self._session

    def _stopped(self) -> bool:
        connect = getattr(self._session, "is_stopped", None)
        if connect is not None:
            return bool(connect)
        return _context(self._session) is not self._context

    @property
    def time_zone(self) -> str:
        """The zone that TIMESTAMP texts are read in; asks no Spark unless one is there."""
        ours = not self._given
        if self._session is None or (ours and self._ready and self._stopped()):
            return self._settings.time_zone
        return str(self.spark.conf.get("spark.sql.session.timeZone"))

    @staticmethod
    def _active() -> SparkSession | None:
        """A session that this process already has; looking for one imports no pyspark."""
        if "pyspark.sql" not in sys.modules:
            return None
        from pyspark.sql import SparkSession

        return SparkSession.getActiveSession()

    def _start(self) -> SparkSession:
        from spark_trickle.spark.storage import hadoop_options

        self._owned = True
        stored = hadoop_options(self._settings.storage)
        return start_session(self._settings.time_zone, {**stored, **self._settings.spark})


def _context(session: SparkSession | None) -> object:
    if hasattr(session, "is_stopped"):  # Spark Connect tells by itself
        return None
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def start_session(time_zone: str, extra: Mapping[str, str] | None = None) -> SparkSession:
    """A local Spark for embedded use."""
    from pyspark.sql import SparkSession

    from spark_trickle.spark.java import use_java

    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    config = {
        "spark.master": "local[*]",
        "spark.app.name": "spark-trickle",
        "spark.driver.memory": "2g",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": time_zone,
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        "spark.sql.warehouse.dir": tempfile.gettempdir() + "/spark-trickle-warehouse",
        "spark.sql.catalogImplementation": "in-memory",
        # One refresh may need dozens of generated classes; the default of 100 forgets them again.
        "spark.sql.codegen.cache.maxEntries": "1000",
        **_NEEDED,
        **(extra or {}),
    }
    builder = SparkSession.builder
    for key, value in config.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise ExecutionError(
            f"Spark did not start: {str(error).splitlines()[0]}",
            hint="run `python -m spark_trickle.spark.java` to see which Java is used",
        ) from None


def prepare(session: SparkSession) -> None:
    """Set what our reads and writes rely on; the same on Spark Classic and Spark Connect."""
    # PySpark logs every failed query with its Java stack trace; ours are raised, once, as errors.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    watch(session)
    for key, value in _NEEDED.items():
        session.conf.set(key, value)
    excluded = str(session.conf.get(_EXCLUDED, None) or "")
    if _BROKEN not in excluded:
        session.conf.set(_EXCLUDED, f"{excluded},{_BROKEN}".strip(","))
