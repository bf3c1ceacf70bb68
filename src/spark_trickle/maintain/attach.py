"""Ties the stream tables of a lake to what runs its statements."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from spark_trickle.errors import QuarantineWarning, SuspendedWarning
from spark_trickle.execute.engine import Engine
from spark_trickle.maintain.immediate.participant import StreamTableParticipant
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.monitor import history_relation, tables_relation
from spark_trickle.maintain.records.shown import ShownStreams
from spark_trickle.maintain.service import StreamTables
from spark_trickle.maintain.watch.alerts import alerts, health
from spark_trickle.maintain.watch.overview import (
    alerts_relation,
    edges,
    graph_relation,
    health_relation,
)
from spark_trickle.storage.records import Table


def attach(engine: Engine, streams: Callable[[], StreamTables]) -> None:
    """Have statements looked at, and offer the relations of the schema ``trickle``."""

    def warn(table: Table) -> None:
        """Tell who reads a stream table that is not what it promises."""
        streams()  # makes the records on first use
        with engine.catalog.reading() as connection:
            status = records.stopped(connection).get(table.uuid)
        if status == records.ERROR:
            told = f"out of service: its contents may be wrong or old; run repair_stream_table({str(table)!r})"
            warnings.warn(f"stream table {table} is {told}", QuarantineWarning, stacklevel=5)
        elif status is not None:
            told = (
                f"suspended: it does not follow its sources; run ALTER STREAM TABLE {table} RESUME"
            )
            warnings.warn(f"stream table {table} is {told}", SuspendedWarning, stacklevel=5)

    engine.catalog.participants.append(StreamTableParticipant(streams))
    engine.reading = warn
    engine.streams = ShownStreams(engine.catalog)
    engine.relations["stream_tables"] = lambda: tables_relation(streams().described())
    engine.relations["refresh_history"] = lambda: history_relation(streams().history())
    engine.relations["graph"] = lambda: graph_relation(edges(streams().look()[0]))
    engine.relations["alerts"] = lambda: alerts_relation(alerts(streams().look()[1]))
    engine.relations["health"] = lambda: health_relation(health(streams().look()[1]))
