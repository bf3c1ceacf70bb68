"""Relations about stream tables beside ``stream_tables`` and ``refresh_history``; and those two in full."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

import pyarrow as pa

from spark_trickle.delta.fast_path import NoFastPath
from spark_trickle.errors import SourceChangedError, TrickleError, UserError
from spark_trickle.maintain.define.compiling import Compile
from spark_trickle.maintain.records.monitor import StreamTableInfo, describe
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.schedule.due import lags
from spark_trickle.maintain.schedule.lookout import Known, Lookout
from spark_trickle.maintain.watch.alerts import Alert, Health
from spark_trickle.maintain.watch.facts import Facts, Observed, state
from spark_trickle.storage.catalog.catalog import Catalog


@dataclass(frozen=True)
class Edge:
    """One stream table reads one table."""

    source: str
    source_kind: str
    """TABLE or STREAM_TABLE."""
    reader: str
    refresh_mode: str
    schedule: str | None
    """Of the reader."""
    target: float | None
    """The seconds by which the reader may be late."""


def looked_at(catalog: Catalog) -> tuple[Known, Observed]:
    known = Lookout(catalog).look()
    return known, state(catalog, known)


def overview(
    catalog: Catalog,
    compile: Compile,
    obstacles: Callable[[Sequence[StreamTable]], Mapping[str, NoFastPath]],
) -> list[StreamTableInfo]:
    """All stream tables, for people; ``obstacles``: why those that could be folded are not."""
    known, now = looked_at(catalog)
    refused = obstacles(known.tables)
    found = []
    for facts in now.tables:
        compiled = None
        with suppress(UserError, SourceChangedError):  # it is still listed
            compiled = compile(facts.stream)
        found.append(
            describe(
                catalog,
                facts.stream,
                known.tables,
                compiled,
                facts.newest,
                target=facts.target,
                pending_rows=pending_rows(catalog, facts),
                pending_versions=facts.pending_versions,
                next_due=facts.next_due,
                lease_holder=facts.lease.holder,
                refused=refused.get(facts.stream.uuid),
            )
        )
    return found


def pending_rows(catalog: Catalog, facts: Facts) -> int | None:
    """Changed rows that wait; None where the catalog cannot tell any more."""
    if not facts.pending_versions:
        return 0
    try:
        tables = [(catalog.find(s.uuid), s.version) for s in facts.stream.sources]
        plans = [catalog.changes(table, version) for table, version in tables if table is not None]
    except TrickleError:
        return None
    return sum(plan.inserted_rows + plan.deleted_rows for plan in plans)


def edges(known: Known) -> list[Edge]:
    """The graph, reader by reader."""
    streams = {table.uuid for table in known.tables}
    targets = lags(0.0, known.planned)
    return [
        Edge(
            known.names.get(source.uuid, source.name),
            "STREAM_TABLE" if source.uuid in streams else "TABLE",
            table.name,
            table.refresh_mode,
            table.schedule,
            targets[table.uuid],
        )
        for table in known.tables
        for source in table.sources
    ]


_GRAPH = pa.schema(
    [
        *((name, pa.string()) for name in ("source", "source_kind", "reader", "refresh_mode")),
        ("schedule", pa.string()),
        ("target", pa.float64()),
    ]
)
_ALERTS = pa.schema(
    [(name, pa.string()) for name in ("kind", "name", "severity", "message", "action")]
)
_HEALTH = pa.schema([(name, pa.string()) for name in ("name", "status", "reason", "action")])


def graph_relation(rows: Sequence[Edge]) -> pa.Table:
    """``trickle.graph``"""
    return pa.Table.from_pylist([asdict(row) for row in rows], _GRAPH)


def alerts_relation(rows: Sequence[Alert]) -> pa.Table:
    """``trickle.alerts``"""
    return pa.Table.from_pylist([asdict(row) for row in rows], _ALERTS)


def health_relation(rows: Sequence[Health]) -> pa.Table:
    """``trickle.health``"""
    return pa.Table.from_pylist([asdict(row) for row in rows], _HEALTH)
