"""The object users hold: tables with versions, transactions and a change feed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from spark_trickle.arguments import checked, checked_methods
from spark_trickle.compat.door import Door
from spark_trickle.compat.session import Session
from spark_trickle.display import html_facts, html_rows, plural
from spark_trickle.errors import (
    UserError,
)
from spark_trickle.execute.engine import Engine
from spark_trickle.execute.shapes import columns_of
from spark_trickle.execute.states import TransactionSource
from spark_trickle.maintain.methods import StreamTableMethods
from spark_trickle.maintain.records import batches
from spark_trickle.running import Statements
from spark_trickle.settings import Settings
from spark_trickle.spark.interrupts import interruptible_methods
from spark_trickle.spark.session import SessionHolder
from spark_trickle.statements import parse as ast
from spark_trickle.statements import script
from spark_trickle.statements.parameters import Arguments
from spark_trickle.statements.splices import quoted
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import HIDDEN_SCHEMA, ChangePlan, Said, Table, TableName
from spark_trickle.storage.upkeep import maintenance
from spark_trickle.storage.upkeep.tending import Tender
from spark_trickle.storage.versions import preimages
from spark_trickle.storage.versions.change_summary import ChangeSummary
from spark_trickle.storage.versions.history import Version, history
from spark_trickle.transaction import REPEATABLE_READ, LakeTransaction

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_trickle.spark.session import DataFrame, SparkSession

T = TypeVar("T")


@checked
def connect(
    location: str | Path,
    *,
    data_path: str | Path | None = None,
    spark: SparkSession | None = None,
    settings: Settings | None = None,
    create: bool = True,
) -> Lake:
    """Open a lake: a folder (made on first use), or a ``postgresql://`` URL with ``data_path``.

    Without ``spark`` a local Spark is started when a statement first needs one. With
    ``create=False`` a lake that is not there is an error.

    >>> lake = connect("my_lake")
    """
    _check(spark, settings)
    chosen = settings or Settings()
    files = None if data_path is None else str(data_path)
    catalog = Catalog.open(str(location), files, chosen, create=create)
    return Lake(catalog, Engine(catalog, SessionHolder(spark, chosen), chosen), chosen)


def _check(spark: object, settings: object) -> None:
    if settings is not None and not isinstance(settings, Settings):
        raise UserError(f"settings must be Settings(…), not {type(settings).__name__}")
    if spark is not None and not (hasattr(spark, "sql") and hasattr(spark, "createDataFrame")):
        raise UserError(
            f"spark must be a SparkSession, not {type(spark).__name__}",
            hint="give the session itself, or leave it out and a local Spark is started",
        )


@interruptible_methods
@checked_methods
class Lake(StreamTableMethods):
    """One catalog and one data folder. Made by ``connect``."""

    def __init__(self, catalog: Catalog, engine: Engine, settings: Settings) -> None:
        self._catalog = catalog
        self._engine = engine
        self._settings = settings
        self._attach(engine)
        catalog.tending.append(Tender(catalog).after_commit)
        door = Door(engine, lambda: self._streams, lambda text: self.sql(text, dialect="postgres"))
        self._statements = Statements(engine, lambda: self._streams, door)

    def sql(self, text: str, args: Arguments = None, *, dialect: str = "spark") -> Any:
        """Run a statement: a query answers a DataFrame, DML the rows affected, DDL None.

        Statements about stream tables answer a RefreshReport where they refresh one. Of several
        statements, parted by semicolons, each is committed by itself, and the last one's answer is
        given. ``args``: values for ``:name`` (a dict) or for ``?`` (a list), bound as typed literals.

        >>> lake.sql("SELECT * FROM orders WHERE who = :who", {"who": "ada"})
        """
        session = self.session(dialect)
        try:
            answer = script.run(text, args, dialect, session.statement)
        finally:
            open_at_end = session.end()
        if open_at_end:
            raise UserError(
                "the text ends inside a transaction, which was rolled back", hint="COMMIT"
            )
        return answer

    def session(self, dialect: str = "spark") -> Session:
        """Statements one by one, with BEGIN, COMMIT, ROLLBACK and SAVEPOINT between them.

        >>> lake.session("postgres").statement("BEGIN")
        """
        return Session(
            self.transaction, lambda one: self._statements.statement(one, dialect), dialect
        )

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
        where = TableName.of(name)
        columns, rows = columns_of(data)
        primary, cluster = (
            (key,) if isinstance(key, str) else tuple(key) for key in (primary_key, cluster_by)
        )

        def work(source: TransactionSource) -> None:
            source.tx.create_table(
                where, columns, primary_key=primary, cluster_by=cluster, comment=comment
            )
            if rows is not None:
                self._engine.append(source, where, rows)

        self._statements.autocommit(work)
        return self._catalog.table(where)

    def append(self, name: str, data: Any, *, batch: str | None = None) -> int:
        """Insert a Spark DataFrame, pyarrow Table, pandas frame or list of dicts, by column name.

        ``batch``: an id of these rows; if it was committed before they are not inserted again, and
        the answer is 0. A streaming query that is run again after a crash so writes exactly once.

        >>> lake.append("orders", [{"id": 7, "who": "ada"}], batch="part-0001")
        """
        where = TableName.of(name)
        if batch is None:
            return self._statements.autocommit(
                lambda state: self._engine.append(state, where, data)
            )
        return self._statements.autocommit(
            lambda state: self._append_once(state, where, data, batch)
        )

    def _append_once(self, state: TransactionSource, name: TableName, data: Any, batch: str) -> int:
        table = state.table(name)
        if self._streams.has_batch(table, batch):
            return 0
        state.tx.record(batches.recorder(table, batch))
        return self._engine.append(state, name, data)

    def table(self, name: str, version: int | None = None) -> DataFrame:
        """The table or view at a version (default: the newest).

        >>> lake.table("orders", version=3).show()
        """
        where = TableName.of(name)
        at = self._catalog.version() if version is None else version
        if self._catalog.view(where, at) is not None:
            place = ".".join(map(quoted, (where.schema, where.name)))
            found: DataFrame = self._statements.run(f"SELECT * FROM {place} VERSION AS OF {at}")
            return found
        plan = self._catalog.scan(where, version)
        return self._engine.scan(plan, newest=version is None)

    def tables(self) -> list[Table]:
        """The tables of the newest version; starts no Spark.

        >>> [str(table) for table in lake.tables()]
        """
        return [table for table in self._catalog.tables() if table.schema != HIDDEN_SCHEMA]

    def changes(self, name: str, before: int, after: int | None = None) -> DataFrame:
        """The table's columns and ``__weight``: the net change in the window (before, after].

        Equal rows appear once, with the sum of their weights, and never with zero.

        >>> lake.changes("orders", before=3).show()
        """
        return self._engine.changes(self._change_plan(name, before, after))

    def change_summary(self, name: str, before: int, after: int | None = None) -> ChangeSummary:
        """Whether anything changed, how many rows, insert-only or not; starts no Spark.

        >>> lake.change_summary("orders", before=3).insert_only
        """
        plan = self._change_plan(name, before, after)
        return ChangeSummary(
            plan.before, plan.after, plan.inserted_rows, plan.deleted_rows, plan.bytes
        )

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
        said = Said(author or self._settings.author, message, extra)
        return LakeTransaction(
            self._catalog, self._engine, self._statements.failed, isolation, said
        )

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
        if name is None:
            return maintenance.compact_all(self._catalog)
        return [maintenance.compact(self._catalog, self._catalog.table(TableName.of(name)))]

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
        keep_from = self._kept_from(keep_from, older_than, ignore_suspended)
        oldest = maintenance.expire(self._catalog, keep_from=keep_from, older_than=older_than)
        with self._catalog.writing() as connection:
            preimages.forget(connection, oldest)
        return oldest

    def remove_orphans(self, *, grace_seconds: float = 24 * 3600.0) -> int:
        """Remove files that no version needs; how many.

        >>> lake.remove_orphans()
        """
        return maintenance.remove_orphans(self._catalog, grace_seconds=grace_seconds)

    def __repr__(self) -> str:
        place = self._catalog.database.name
        if self._catalog.closed:
            return f"Lake({place!r}, closed)"
        streams = len(self._engine.streams.kinds())
        views = len(self._catalog.views())
        counted = [(len(self.tables()) - streams, "table"), (views, "view")]
        counted.append((streams, "stream table"))
        told = ", ".join(plural(count, what) for count, what in counted)
        return f"Lake({place!r}, version {self.version}: {told})"

    def _repr_html_(self) -> str:
        if self._catalog.closed:
            return html_facts(repr(self), [])
        listed = self._engine.listing(ast.ShowTables(None), self._statements.now()).to_pylist()
        rows = [(row["namespace"], row["tableName"], row["kind"]) for row in listed]
        return html_rows(repr(self), ("schema", "name", "kind"), rows)

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

    def _change_plan(self, name: str, before: int, after: int | None) -> ChangePlan:
        return self._catalog.changes(TableName.of(name), before, after)
