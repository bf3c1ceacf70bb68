"""The tables of a lake, as users handle them: made, filled, read, counted, compacted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_trickle.display import html_facts, html_rows, plural
from spark_trickle.execute.engine import Engine
from spark_trickle.execute.shapes import columns_of
from spark_trickle.execute.states import TransactionState
from spark_trickle.maintain.records import batches
from spark_trickle.running import Statements
from spark_trickle.statements import parse as ast
from spark_trickle.statements.parse import parse_statement
from spark_trickle.statements.text.splices import quoted
from spark_trickle.storage.records import HIDDEN_SCHEMA, Table, TableName
from spark_trickle.storage.upkeep import maintenance

if TYPE_CHECKING:
    from spark_trickle.spark.sessions.session import DataFrame


@dataclass(frozen=True)
class Tables:
    """Those of one lake."""

    engine: Engine
    statements: Statements

    def all(self) -> list[Table]:
        """Those of the newest version that are not private state."""
        return [table for table in self.engine.catalog.tables() if table.schema != HIDDEN_SCHEMA]

    def create(
        self,
        name: str,
        data: Any,
        primary_key: str | Sequence[str],
        cluster_by: str | Sequence[str],
        comment: str | None,
    ) -> Table:
        """Make a table and fill it with the rows that ``data`` has, in one commit."""
        where = TableName.of(name)
        columns, rows = columns_of(data)
        primary, cluster = (
            (key,) if isinstance(key, str) else tuple(key) for key in (primary_key, cluster_by)
        )

        def work(state: TransactionState) -> None:
            for column in columns:
                self.engine.defaults.check(column, where, [c.name for c in columns])
            state.tx.create_table(
                where, columns, primary_key=primary, cluster_by=cluster, comment=comment
            )
            if rows is not None:
                self.engine.append(state, where, rows)

        self.statements.autocommit(work)
        return self.engine.catalog.table(where)

    def append(self, name: str, data: Any, batch: str | None) -> int:
        """Insert rows; none if the batch was committed before."""
        where = TableName.of(name)

        def work(state: TransactionState) -> int:
            if batch is not None:
                table = state.table(where)
                with self.engine.catalog.reading() as connection:
                    if batches.applied(connection, table, batch):
                        return 0
                state.tx.record(batches.recorder(table, batch))
            return self.engine.append(state, where, data)

        return self.statements.autocommit(work)

    def frame(self, name: str, version: int | None) -> DataFrame:
        """The rows of a table or view."""
        where = TableName.of(name)
        catalog = self.engine.catalog
        at = catalog.version() if version is None else version
        if catalog.view(where, at) is not None:
            place = ".".join(map(quoted, (where.schema, where.name)))
            text = f"SELECT * FROM {place} VERSION AS OF {at}"
            found: DataFrame = self.statements.statement(text, parse_statement(text), "spark")
            return found
        return self.engine.scan(catalog.scan(where, version), newest=version is None)

    def compact(self, name: str | None) -> list[maintenance.Compacted]:
        """Merge small files and inlined rows of one table or all."""
        catalog = self.engine.catalog
        executors = self.engine.executors
        if name is None:
            return maintenance.compact_all(catalog, executors)
        table = catalog.table(TableName.of(name))
        return [maintenance.compact(catalog, table, executors=executors)]

    def told(self) -> str:
        """The newest version, and how many there are of each kind, in words."""
        if self.engine.catalog.closed:
            return "closed"
        streams = len(self.engine.streams.kinds())
        views = len(self.engine.catalog.views())
        counts = [(len(self.all()) - streams, "table"), (views, "view"), (streams, "stream table")]
        told = ", ".join(plural(count, what) for count, what in counts)
        return f"version {self.engine.catalog.version()}: {told}"

    def html(self, title: str) -> str:
        """Schema, name and kind of each, for a notebook."""
        if self.engine.catalog.closed:
            return html_facts(title, [])
        found = self.engine.listing(ast.ShowTables(None), self.statements.now()).to_pylist()
        rows = [(row["namespace"], row["tableName"], row["kind"]) for row in found]
        return html_rows(title, ("schema", "name", "kind"), rows)
