"""A transaction: gathers work in memory, shows its own writes, commits all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from spark_trickle.storage.records import (
    ChangePlan,
    NewColumn,
    NewFile,
    Positions,
    Savepoint,
    ScanPlan,
    Table,
    TableName,
)


class Connection(Protocol):
    """A catalog connection inside a database transaction. Placeholders are ``?``."""

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement; the rows it answers, if any."""

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each row of parameters."""


Record = Callable[[Connection, int], None]
"""Writes rows of the caller's own ``trickle_*`` tables; gets the version being committed."""


class Transaction:
    """Made by ``Catalog.begin``. Not safe for use from several threads at once."""

    base: int
    """The version this transaction reads."""

    def table(self, name: str | TableName) -> Table:
        """The table as this transaction sees it; NotFoundError if there is none."""
        raise NotImplementedError

    def tables(self) -> list[Table]:
        raise NotImplementedError

    def scan(self, table: str | TableName | Table) -> ScanPlan:
        """The table's rows, the transaction's own writes included."""
        raise NotImplementedError

    def changes(self, table: str | TableName | Table) -> ChangePlan:
        """What this transaction has changed in the table so far, net."""
        raise NotImplementedError

    def create_schema(self, name: str, *, if_not_exists: bool = False) -> None:
        raise NotImplementedError

    def drop_schema(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        raise NotImplementedError

    def create_table(
        self,
        name: str | TableName,
        columns: Sequence[NewColumn],
        *,
        primary_key: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
    ) -> Table:
        """AlreadyExistsError if the name is taken, InvalidDataError for a type we cannot keep."""
        raise NotImplementedError

    def drop_table(self, table: str | TableName | Table) -> None:
        raise NotImplementedError

    def rename_table(self, table: str | TableName | Table, to: str | TableName) -> Table:
        raise NotImplementedError

    def add_column(self, table: str | TableName | Table, column: NewColumn) -> Table:
        raise NotImplementedError

    def drop_column(self, table: str | TableName | Table, name: str) -> Table:
        raise NotImplementedError

    def rename_column(self, table: str | TableName | Table, name: str, to: str) -> Table:
        raise NotImplementedError

    def new_file(self, table: str | TableName | Table) -> str:
        """A fresh path for a Parquet file of the table; rollback removes what is there."""
        raise NotImplementedError

    def discard(self, path: str) -> None:
        """Remember a file or folder that rollback must remove."""
        raise NotImplementedError

    def insert_rows(
        self,
        table: str | TableName | Table,
        rows: pa.Table,
        row_ids: pa.Array | None = None,
    ) -> int:
        """Insert Arrow rows (columns by name, all of the table's); the number of rows.

        ``row_ids``: the ids that updated rows keep; NULL or no array means a new row. Up to
        ``inline_row_limit`` rows go into the catalog, more into a Parquet file. InvalidDataError
        for a value that does not fit or NULL in a NOT NULL column.
        """
        raise NotImplementedError

    def insert_files(self, table: str | TableName | Table, files: Sequence[NewFile]) -> int:
        """Add Parquet files written by somebody else with the table's field ids; their rows."""
        raise NotImplementedError

    def delete_rows(
        self,
        table: str | TableName | Table,
        positions: Positions,
        row_ids: Sequence[int] | pa.Array = (),
    ) -> int:
        """Delete rows seen in this transaction's scan: file rows by position, inlined by row id."""
        raise NotImplementedError

    def truncate(self, table: str | TableName | Table) -> int:
        raise NotImplementedError

    def read(self, table: str | TableName | Table) -> None:
        """Put the table in the read set: commit fails if its rows or columns moved since base."""
        raise NotImplementedError

    def record(self, callback: Record) -> None:
        """Have ``callback`` write its own rows inside the commit; enough to make a new version."""
        raise NotImplementedError

    def savepoint(self) -> Savepoint:
        raise NotImplementedError

    def rollback_to(self, savepoint: Savepoint) -> None:
        raise NotImplementedError

    def rollback(self) -> None:
        """Forget everything and remove the files this transaction was told about."""
        raise NotImplementedError

    def commit(self, message: str | None = None) -> int:
        """Commit; the new version, or the base version if there was nothing to commit.

        CommitConflictError if another writer got in the way; the transaction is then over, its
        files are removed.
        """
        raise NotImplementedError
