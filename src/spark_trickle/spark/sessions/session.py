"""The Spark session: the user's own, or one of ours started on first need."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from spark_trickle.calls import watch
from spark_trickle.errors import ExecutionError
from spark_trickle.settings import Settings

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
ZONE = "spark.sql.session.timeZone"
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_BROKEN = tuple(
    f"org.apache.spark.sql.catalyst.optimizer.{rule}"
    for rule in ("PushProjectionThroughUnion", "CombineUnions")
)
"""Fail on a correlated subquery in SELECT over a union (Spark 4.2), which most tables are to it; the
second where such a query is in UNION itself."""
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
        self._zone: str | None = None
        self.owned = False
        """Whether Spark was started here."""

    @property
    def started(self) -> bool:
        return self._session is not None

    @property
    def alive(self) -> bool:
        """Whether there is a session that was not stopped since it was last used."""
        return self.started and not (self._ready and self._stopped())

    @property
    def spark(self) -> SparkSession:
        needed = self.time_zone
        if self._ready and self._stopped():
            if self._given:
                raise ExecutionError(
                    "the Spark session that this lake was given has been stopped",
                    hint="connect again with a running one, or without one: a local Spark is started",
                )
            self._session, self._ready = None, False
        if self._session is None:
            self._session = self._late(needed) or self._start()
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
        """The zone that TIMESTAMP texts are read in, one from the first statement on.

        Asks no Spark unless one is there: that of a session which the process has by then.
        """
        if self._zone is None:
            asked = self._settings.time_zone
            if self._session is None and asked is None:
                self._session = self._active()
            self._zone = (asked or "UTC") if self._session is None else zone(self._session)
        return self._zone

    @property
    def for_changes(self) -> SparkSession:
        """The session, or what it would be in the lake's zone if somebody gave it another one."""
        return in_zone(self.spark, self.time_zone)

    def _late(self, needed: str) -> SparkSession | None:
        """A session that came after the first statement; in the lake's zone, whatever its own."""
        found = self._active()
        return None if found is None else in_zone(found, needed)

    @property
    def ansi(self) -> bool:
        """Whether Spark is in ANSI mode; asks no Spark unless one is there."""
        name = "spark.sql.ansi.enabled"
        if self._session is None:
            return (self._settings.spark or {}).get(name, "true").lower() == "true"
        return str(self._session.conf.get(name)).lower() == "true"

    @staticmethod
    def _active() -> SparkSession | None:
        """A session that this process already has; looking for one imports no pyspark."""
        if "pyspark.sql" not in sys.modules:
            return None
        from pyspark.sql import SparkSession

        return SparkSession.getActiveSession()

    def _start(self) -> SparkSession:
        from spark_trickle.spark.sessions.storage import hadoop_options

        self.owned = True
        stored = hadoop_options(self._settings.storage)
        return start_session(self.time_zone, {**stored, **self._settings.spark})


def _context(session: SparkSession | None) -> object:
    if hasattr(session, "is_stopped"):  # Spark Connect tells by itself
        return None
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def zone(session: SparkSession) -> str:
    return str(session.conf.get(ZONE))


def in_zone(session: SparkSession, needed: str) -> SparkSession:
    """The session, or a copy of it, with its functions and views, if its zone is another one."""
    if zone(session) == needed:
        return session
    from spark_trickle.spark.sessions.desks import derive
    from spark_trickle.spark.sessions.facts import facts_of

    return derive(session, {**facts_of(session), ZONE: needed}, whole=True)


def start_session(time_zone: str, extra: Mapping[str, str] | None = None) -> SparkSession:
    """A Spark whose driver is this process: local for embedded use, unless ``extra`` names a master."""
    from pyspark.sql import SparkSession

    from spark_trickle.spark.sessions.java import use_java

    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    config = configuration(time_zone, extra or {})
    builder = SparkSession.builder
    for key, value in config.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise ExecutionError(
            f"Spark did not start: {str(error).splitlines()[0]}",
            hint="run `python -m spark_trickle.spark.sessions.java` to see which Java is used",
        ) from None


def configuration(time_zone: str, extra: Mapping[str, str]) -> dict[str, str]:
    """What a Spark is started with here; ``extra`` has the last word."""
    # The machines of a cluster must reach the driver, so there Spark finds its address itself.
    loopback = {"spark.driver.host": "localhost", "spark.driver.bindAddress": "127.0.0.1"}
    return {
        "spark.master": "local[*]",
        "spark.app.name": "spark-trickle",
        "spark.driver.memory": "2g",
        **(loopback if extra.get("spark.master", "local").startswith("local") else {}),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        ZONE: time_zone,
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        "spark.sql.warehouse.dir": tempfile.gettempdir() + "/spark-trickle-warehouse",
        "spark.sql.catalogImplementation": "in-memory",
        # One refresh may need dozens of generated classes; the default of 100 forgets them again.
        "spark.sql.codegen.cache.maxEntries": "1000",
        **_NEEDED,
        **extra,
    }


def prepare(session: SparkSession) -> None:
    """Set what our reads and writes rely on; the same on Spark Classic and Spark Connect."""
    # PySpark logs every failed query with its Java stack trace; ours are raised, once, as errors.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    watch(session)
    for key, value in _NEEDED.items():
        session.conf.set(key, value)
    excluded = str(session.conf.get(_EXCLUDED, None) or "")
    missing = [rule for rule in _BROKEN if rule not in excluded]
    if missing:
        session.conf.set(_EXCLUDED, ",".join([excluded, *missing]).strip(","))
