"""The part of ``Lake`` that is about stream tables; every method is one call of the service."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from spark_trickle.arguments import checked_methods
from spark_trickle.errors import QuarantineWarning, RefreshError, UserError
from spark_trickle.execute.engine import Engine
from spark_trickle.maintain.define.definer import Definition
from spark_trickle.maintain.define.explaining import checked_format
from spark_trickle.maintain.immediate.participant import StreamTableParticipant
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.monitor import (
    Difference,
    StreamTableInfo,
    history_relation,
    tables_relation,
)
from spark_trickle.maintain.records.needed import oldest, warn_of_suspended
from spark_trickle.maintain.records.shown import ShownStreams
from spark_trickle.maintain.records.streams import RefreshReport
from spark_trickle.maintain.schedule.scheduler import Scheduler
from spark_trickle.maintain.service import StreamTables
from spark_trickle.maintain.watch.alerts import Alert, Health, alerts, health
from spark_trickle.maintain.watch.hooks import Hook
from spark_trickle.maintain.watch.overview import (
    Edge,
    alerts_relation,
    edges,
    graph_relation,
    health_relation,
)
from spark_trickle.maintain.watch.recommend import Recommendation
from spark_trickle.spark.interrupts import interruptible_methods
from spark_trickle.storage.records import Table, TableName
from spark_trickle.storage.upkeep.maintenance import oldest_kept


@interruptible_methods
@checked_methods
class StreamTableMethods:
    """Mixed into ``Lake``."""

    _engine: Engine
    _opened_streams: StreamTables | None = None

    def _attach(self, engine: Engine) -> None:
        """Have statements looked at, and offer the relations of the schema ``trickle``."""
        engine.catalog.participants.append(StreamTableParticipant(lambda: self._streams))
        engine.reading = self._warn
        engine.streams = ShownStreams(engine.catalog)
        engine.relations["stream_tables"] = lambda: tables_relation(self.stream_tables())
        engine.relations["refresh_history"] = lambda: history_relation(self.refresh_history())
        engine.relations["graph"] = lambda: graph_relation(self.graph())
        engine.relations["alerts"] = lambda: alerts_relation(self.alerts())
        engine.relations["health"] = lambda: health_relation(self.health())

    @property
    def _streams(self) -> StreamTables:
        if self._opened_streams is None:
            self._opened_streams = StreamTables(self._engine)
        return self._opened_streams

    def _warn(self, table: Table) -> None:
        """Tell who reads a stream table that is out of service."""
        self._streams  # noqa: B018  makes the records on first use
        with self._engine.catalog.reading() as connection:
            broken = records.broken(connection)
        if table.uuid in broken:
            warnings.warn(
                f"stream table {table} is out of service: its contents may be wrong or old; "
                f"run repair_stream_table({str(table)!r})",
                QuarantineWarning,
                stacklevel=5,
            )

    def create_stream_table(
        self,
        name: str,
        query: str,
        schedule: str | None = None,
        refresh_mode: str = "AUTO",
        initialize: bool = True,
        *,
        dialect: str = "spark",
        or_replace: bool = False,
        if_not_exists: bool = False,
        fast_path: bool = False,
    ) -> RefreshReport | None:
        """Make a table that is kept equal to its query; the report of its first fill, if any.

        ``fast_path``: every commit folds its changes into it, without Spark, as into an IMMEDIATE one
        whose query allows it.

        >>> query = "SELECT who, count(*) AS n FROM orders GROUP BY who"
        >>> lake.create_stream_table("totals", query, schedule="1m")
        """
        wanted = Definition(
            TableName.of(name),
            query,
            dialect,
            schedule,
            refresh_mode,
            initialize,
            fast_path=fast_path,
        )
        return self._streams.create(wanted, or_replace=or_replace, if_not_exists=if_not_exists)

    def refresh_stream_table(self, name: str, *, full: bool = False) -> RefreshReport:
        """Bring a stream table up to the newest version of its sources.

        >>> lake.refresh_stream_table("totals").effective_mode
        """
        return self._streams.refresh(name, full=full)

    def refresh_all(
        self,
        select: str | list[str] | None = None,
        *,
        wait: bool = True,
        errors: str = "report",
    ) -> list[RefreshReport]:
        """Refresh stream tables, each after what it reads, all at one version.

        ``select``: ``name``, ``name+`` (and what reads it), ``+name`` (and what it reads), or
        several. ``wait=False`` leaves out what another process is just refreshing. One that fails
        does not stop the others: its report says so. ``errors="raise"`` raises RefreshError at the
        end, which carries all reports.

        >>> lake.refresh_all(select="+totals", errors="raise")
        """
        if errors not in ("report", "raise"):
            raise UserError(f"errors cannot be {errors!r}", hint="one of: report, raise")
        reports = self._streams.refresh_all(select, wait=wait)
        if errors == "raise":
            _raise_failed(reports)
        return reports

    def scheduler(self, on_alert: Hook | Iterable[Hook] | None = None) -> Scheduler:
        """Refreshes what is due, in the background, as long as the block runs: a context manager.

        ``on_alert``: a callable, the URL of a webhook, a command as a list of words, or several.

        >>> with lake.scheduler(on_alert=print):
        ...     lake.append("orders", [{"id": 9, "who": "ada"}])
        """
        return self._streams.scheduler(on_alert)

    def alerts(self) -> list[Alert]:
        """What somebody should know of now, the worst first; starts no Spark.

        >>> lake.alerts()
        """
        return alerts(self._streams.look()[1])

    def health(self) -> list[Health]:
        """OK, or what is wrong and what to do, the worst first; starts no Spark.

        >>> [line.status for line in lake.health()]
        """
        return health(self._streams.look()[1])

    def graph(self) -> list[Edge]:
        """Which stream table reads what; starts no Spark.

        >>> lake.graph()
        """
        return edges(self._streams.look()[0])

    def recommend(self, name: str) -> list[Recommendation]:
        """What would make a stream table cheaper to keep, with the figures; starts no Spark.

        >>> lake.recommend("totals")
        """
        return self._streams.recommend(name)

    def alter_stream_table(
        self,
        name: str,
        *,
        query: str | None = None,
        schedule: str | None = None,
        refresh_mode: str | None = None,
        status: str | None = None,
        fast_path: bool | None = None,
    ) -> None:
        """Change what is given; a new query rebuilds the contents in one commit.

        >>> lake.alter_stream_table("totals", refresh_mode="IMMEDIATE")
        """
        self._streams.alter(
            name,
            query=query,
            schedule=schedule,
            refresh_mode=refresh_mode,
            status=status,
            fast_path=fast_path,
        )

    def drop_stream_table(
        self, name: str, cascade: bool = False, *, if_exists: bool = False
    ) -> list[str]:
        """Drop a stream table; with ``cascade`` also those that read it. The names of all dropped.

        >>> lake.drop_stream_table("totals", cascade=True)
        """
        return self._streams.drop(name, cascade=cascade, if_exists=if_exists)

    def repair_stream_table(self, name: str) -> RefreshReport:
        """Build a stream table anew, after an error that took it out of service.

        >>> lake.repair_stream_table("totals")
        """
        return self._streams.repair(name)

    def verify(self, name: str) -> Difference:
        """The difference between a stream table and its query at the frontier, row by row.

        What Spark itself leaves open is none: floats of a query that aggregates may differ by one part
        in 10^9, arrays that are collected by their order.

        >>> assert not lake.verify("totals")
        """
        return self._streams.verify(name)

    def explain(
        self,
        name_or_query: str,
        stage: str | None = None,
        *,
        dialect: str = "spark",
        format: str = "text",
    ) -> str:
        """Verdict, plan and delta SQL of a stream table or of a bare SELECT; starts no Spark.

        Five lines say the verdict, the mode to be expected and why, the parts and their state, and
        what a change of each source reads. ``format``: text, tree, sql, json or mermaid.

        >>> print(lake.explain("totals"))
        """
        return self._streams.explain(name_or_query, stage, dialect, checked_format(format))

    def stream_tables(self) -> list[StreamTableInfo]:
        """All stream tables with their modes, frontiers and sources; starts no Spark.

        >>> [(table.name, table.status) for table in lake.stream_tables()]
        """
        return self._streams.described()

    def refresh_history(self, name: str | None = None) -> list[RefreshReport]:
        """The refreshes of one stream table, or of all, newest first; starts no Spark.

        >>> lake.refresh_history("totals")[0].reason
        """
        return self._streams.history(name)

    def _kept_from(
        self, keep_from: int | None, older_than: float | None, ignore_suspended: bool
    ) -> int | None:
        """The oldest version that expiry must leave."""
        found = self._streams.needed()
        active = [need for need in found if not need.suspended]
        limits = [v for v in (keep_from, oldest(active)) if v is not None]
        otherwise = min(limits, default=None)
        if ignore_suspended or len(active) == len(found):
            return otherwise
        limits = [v for v in (otherwise, oldest(found)) if v is not None]
        kept = min(limits, default=None)
        warn_of_suspended(
            found,
            oldest_kept(self._engine.catalog, keep_from=kept, older_than=older_than),
            oldest_kept(self._engine.catalog, keep_from=otherwise, older_than=older_than),
        )
        return kept


def _raise_failed(reports: list[RefreshReport]) -> None:
    failed = [report for report in reports if report.failed]
    if not failed:
        return
    told = "; ".join(f"{report.name}: {report.reason}" for report in failed)
    raise RefreshError(
        f"{len(failed)} of {len(reports)} stream tables could not be refreshed: {told}",
        reports=tuple(reports),
        hint="the reports of all are in the error's .reports",
    )
