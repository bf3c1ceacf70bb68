"""The object users hold: what it offers, in words; its parts do the work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from spark_trickle.calls import guarded_methods
from spark_trickle.compat.session import Session
from spark_trickle.errors import UserError
from spark_trickle.execute.engine import Engine
from spark_trickle.maintain.attach import attach
from spark_trickle.maintain.define.definition import Definition
from spark_trickle.maintain.define.explaining import checked_format
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.records.monitor import Difference, StreamTableInfo
from spark_trickle.maintain.records.needed import kept_from
from spark_trickle.maintain.schedule.scheduler import Scheduler
from spark_trickle.maintain.service import StreamTables
from spark_trickle.maintain.watch.alerts import Alert, Health, alerts, health
from spark_trickle.maintain.watch.hooks import Hook
from spark_trickle.maintain.watch.overview import Edge, edges
from spark_trickle.maintain.watch.recommend import Recommendation
from spark_trickle.running import Statements
from spark_trickle.statements.text.parameters import Arguments
from spark_trickle.storage.records import Said, Table, TableName
from spark_trickle.storage.upkeep import maintenance
from spark_trickle.storage.versions.change_summary import ChangeSummary
from spark_trickle.storage.versions.history import Version, history
from spark_trickle.tables import Tables
from spark_trickle.transaction import REPEATABLE_READ, LakeTransaction

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_trickle.spark.sessions.session import DataFrame, SparkSession


@guarded_methods
class Lake:
    """One catalog and one data folder. Made by ``connect``."""

    def __init__(self, engine: Engine) -> None:
        self._catalog = engine.catalog
        self._engine = engine
        attach(engine, lambda: self._streams)
        postgres = partial(self.sql, dialect="postgres")
        self._statements = Statements(engine, lambda: self._streams, postgres)
        self._tables = Tables(engine, self._statements)

    @cached_property
    def _streams(self) -> StreamTables:
        return StreamTables(self._engine)

    def sql(self, text: str, args: Arguments = None, *, dialect: str = "spark") -> Any:
        """Run a statement: a query answers a DataFrame, DML the rows affected, DDL None.

        Statements about stream tables answer a RefreshReport where they refresh one. Of several
        statements, parted by semicolons, each is committed by itself, and the last one's answer is
        given. ``args``: values for ``:name`` (a dict) or for ``?`` (a list), bound as typed literals.

        >>> lake.sql("SELECT * FROM orders WHERE who = :who", {"who": "ada"})
        """
        return self.session(dialect).script(text, args)

    def session(self, dialect: str = "spark") -> Session:
        """Statements one by one, with BEGIN, COMMIT, ROLLBACK and SAVEPOINT between them.
        >>> lake.session("postgres").statement("BEGIN")
        """
        return Session(self.transaction, self._statements.statement, dialect)

    def listing(self, text: str) -> pa.Table | None:
        """The answer of SHOW or DESCRIBE as Arrow, without Spark; None for other statements.
        >>> lake.listing("SHOW TABLES").to_pylist()
        """
        return self._statements.listing(text)

    def arrow(self, text: str, args: Arguments = None, *, dialect: str = "spark") -> pa.Table:
        """The rows of a query as a pyarrow Table; SHOW and DESCRIBE start no Spark.
        >>> lake.arrow("SELECT * FROM orders WHERE id = ?", [7]).to_pylist()
        """
        listed = self.listing(text) if args is None and dialect == "spark" else None
        if listed is not None:
            return listed
        answer = self.sql(text, args, dialect=dialect)
        if not hasattr(answer, "toArrow"):
            raise UserError("the statement answers no rows", hint="run it with lake.sql")
        return answer.toArrow()

    def create_table(
        self,
        name: str,
        data: Any,
        *,
        primary_key: str | Sequence[str] = (),
        cluster_by: str | Sequence[str] = (),
        comment: str | None = None,
    ) -> Table:
        """Make a table, and fill it in the same commit if ``data`` has rows.

        ``data``: columns in words or as a dict of names and types, a schema of pyarrow or Spark, or
        rows: a Spark DataFrame, a pyarrow Table, a pandas frame, a list of dicts.

        >>> lake.create_table("orders", "id BIGINT NOT NULL, who STRING", primary_key="id")
        """
        return self._tables.create(name, data, primary_key, cluster_by, comment)

    def append(self, name: str, data: Any, *, batch: str | None = None) -> int:
        """Insert a Spark DataFrame, pyarrow Table, pandas frame or list of dicts, by column name.

        ``batch``: an id of these rows; if it was committed before they are not inserted again, and
        the answer is 0. A streaming query that is run again after a crash so writes exactly once.

        >>> lake.append("orders", [{"id": 7, "who": "ada"}], batch="part-0001")
        """
        return self._tables.append(name, data, batch)

    def table(self, name: str, version: int | None = None) -> DataFrame:
        """The table or view at a version (default: the newest).
        >>> lake.table("orders", version=3).show()
        """
        return self._tables.frame(name, version)

    def tables(self) -> list[Table]:
        """The tables of the newest version; starts no Spark.
        >>> [str(table) for table in lake.tables()]
        """
        return self._tables.all()

    def changes(self, name: str, before: int, after: int | None = None) -> DataFrame:
        """The table's columns and ``__weight``: the net change in the window (before, after].

        Equal rows appear once, with the sum of their weights, and never with zero.

        >>> lake.changes("orders", before=3).show()
        """
        return self._engine.changes(self._catalog.changes(TableName.of(name), before, after))

    def change_summary(self, name: str, before: int, after: int | None = None) -> ChangeSummary:
        """Whether anything changed, how many rows, insert-only or not; starts no Spark.
        >>> lake.change_summary("orders", before=3).insert_only
        """
        return ChangeSummary.of(self._catalog.changes(TableName.of(name), before, after))

    def transaction(
        self,
        isolation: str = REPEATABLE_READ,
        *,
        message: str | None = None,
        author: str | None = None,
        extra: str | None = None,
    ) -> LakeTransaction:
        """Several statements, all or nothing. A conflict is the caller's to retry.

        READ COMMITTED: each statement sees the newest commits and the transaction's own writes, which
        are moved onto the newest version at commit. REPEATABLE READ: all see the version it began
        from. SERIALIZABLE: commit also fails when a table that was read has moved since.

        ``message``, ``author`` (default: ``Settings.author``) and ``extra`` are kept with the version:
        ``lake.history()`` and DESCRIBE HISTORY show them.

        >>> with lake.transaction(message="one order is wrong") as tx:
        ...     tx.sql("DELETE FROM orders WHERE id = 7")
        """
        said = Said(author or self._engine.settings.author, message, extra)
        return LakeTransaction(self._engine, self._statements.failed, isolation, said)

    def history(self, name: str | None = None, limit: int | None = None) -> list[Version]:
        """The versions of the lake, or those that changed one table, newest first; starts no Spark.
        >>> lake.history("orders", limit=10)
        """
        table = None if name is None else self._catalog.table(TableName.of(name))
        return history(self._catalog, table, limit)

    @property
    def version(self) -> int:
        """The newest version.
        >>> lake.version
        """
        return self._catalog.version()

    @property
    def spark(self) -> SparkSession:
        """The Spark session, started if need be.
        >>> lake.spark.range(3).createOrReplaceTempView("new")
        """
        return self._engine.holder.spark

    def compact(self, name: str | None = None) -> list[maintenance.Compacted]:
        """Merge small files and inlined rows of one table or all; changes no rows.

        Of all tables, one that cannot be read is left as it is: its record names the ``problem``.

        >>> lake.compact("orders")
        """
        return self._tables.compact(name)

    def expire(
        self,
        *,
        keep_from: int | None = None,
        older_than: float | None = None,
        ignore_suspended: bool = False,
    ) -> int:
        """Forget old versions, but none that a stream table still reads from; the oldest one left.

        Warns where a suspended stream table holds versions back. With ``ignore_suspended`` these
        go, and what needed them has to be repaired.

        >>> lake.expire(older_than=7 * 24 * 3600)
        """
        needed = self._streams.needed()
        keep_from = kept_from(self._catalog, needed, keep_from, older_than, ignore_suspended)
        return maintenance.expire(self._catalog, keep_from=keep_from, older_than=older_than)

    def remove_orphans(self, *, grace_seconds: float = 24 * 3600.0) -> int:
        """Remove files that no version needs; how many.
        >>> lake.remove_orphans()
        """
        return maintenance.remove_orphans(self._catalog, grace_seconds=grace_seconds)

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
        wanted = Definition(TableName.of(name), query, dialect, schedule, refresh_mode, initialize)
        wanted = replace(wanted, fast_path=fast_path)
        return self._streams.create(wanted, or_replace=or_replace, if_not_exists=if_not_exists)

    def refresh_stream_table(self, name: str, *, full: bool = False) -> RefreshReport:
        """Bring a stream table up to the newest version of its sources.
        >>> lake.refresh_stream_table("totals").effective_mode
        """
        return self._streams.refresh(name, full=full)

    def refresh_all(
        self, select: str | list[str] | None = None, *, wait: bool = True, errors: str = "report"
    ) -> list[RefreshReport]:
        """Refresh stream tables, each after what it reads, all at one version.

        ``select``: ``name``, ``name+`` (and what reads it), ``+name`` (and what it reads), or
        several; a name with blanks or the like in backticks. ``wait=False`` leaves out what another
        process is just refreshing. One that fails does not stop the others: its report says so.
        ``errors="raise"`` raises RefreshError at the end, which carries all reports.

        >>> lake.refresh_all(select="+totals", errors="raise")
        """
        return self._streams.refresh_all(select, wait=wait, errors=errors)

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

    def __repr__(self) -> str:
        return f"Lake({self._catalog.database.name!r}, {self._tables.told()})"

    def _repr_html_(self) -> str:
        return self._tables.html(repr(self))

    def close(self) -> None:
        """Close the catalog; the Spark session stays, others may use it.
        >>> lake.close()
        """
        self._engine.close()
        self._catalog.close()

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
