"""What a transaction does to the structure of the lake: schemas, tables and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from spark_trickle.errors import InternalError
from spark_trickle.storage.catalog import alterations, retyping
from spark_trickle.storage.catalog.structure import Structure
from spark_trickle.storage.commits.rebase import Progress
from spark_trickle.storage.records import NewColumn, Table, TableName, View
from spark_trickle.storage.versions.state import TableLike, WritableCatalog


class Restructuring:
    """The part of a transaction that changes structure; ids of new things are negative."""

    def __init__(self, lake: WritableCatalog, state: Progress) -> None:
        self._lake = lake
        self._state = state
        self._ids = count(-1, -1)
        self._top_columns: dict[int, int] = {}
        self._over = False

    def table(self, name: TableLike) -> Table:
        """The table as this transaction sees it; NotFoundError if there is none."""
        return self._state.structure.table(name)

    def create_schema(self, name: str, *, if_not_exists: bool = False) -> None:
        self._structure(
            alterations.create_schema(self._state.structure, name, self._new_id(), if_not_exists)
        )

    def drop_schema(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        self._structure(alterations.drop_schema(self._state.structure, name, if_exists, cascade))

    def create_table(
        self,
        name: str | TableName,
        columns: Sequence[NewColumn],
        *,
        primary_key: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        comment: str | None = None,
    ) -> Table:
        """AlreadyExistsError if the name is taken, InvalidDataError for a type we cannot keep."""
        table = alterations.new_table(
            self._state.structure,
            TableName.of(name),
            columns,
            (primary_key, cluster_by),
            self._new_id(),
            comment,
        )
        return self._put(table)

    def drop_table(self, table: TableLike) -> None:
        own = self.table(table)
        tables = {k: t for k, t in self._state.structure.tables.items() if t.id != own.id}
        self._structure(replace(self._state.structure, tables=tables))
        staged = {i: s for i, s in self._state.staged.items() if i != own.id}
        self._state = replace(self._state, staged=staged)

    def view(self, name: TableName) -> View | None:
        """The view of that name, or None."""
        return self._state.structure.views.get(name.key)

    def view_there(self, name: TableName) -> View:
        """NotFoundError if there is no such view."""
        return self._state.structure.view(name)

    def views(self) -> list[View]:
        return sorted(self._state.structure.views.values(), key=lambda v: v.full_name.key)

    def create_view(self, view: View) -> View:
        """AlreadyExistsError if the name is taken."""
        made = alterations.new_view(self._state.structure, replace(view, id=self._new_id()))
        self._put_view(made)
        return made

    def comment_view(self, view: View, comment: str | None) -> None:
        self._put_view(replace(view, comment=comment))

    def drop_view(self, name: TableName) -> None:
        gone = self._state.structure.view(name)
        views = {k: v for k, v in self._state.structure.views.items() if v.id != gone.id}
        self._structure(replace(self._state.structure, views=views))

    def _put_view(self, view: View) -> None:
        views = {**self._state.structure.views, view.full_name.key: view}
        self._structure(replace(self._state.structure, views=views))

    def rename_table(self, table: TableLike, to: str | TableName) -> Table:
        own = self.table(table)
        renamed = alterations.renamed_table(self._state.structure, own, TableName.of(to))
        tables = {k: t for k, t in self._state.structure.tables.items() if t.id != own.id}
        self._structure(replace(self._state.structure, tables=tables))
        return self._put(renamed)

    def add_column(self, table: TableLike, column: NewColumn) -> Table:
        own = self.table(table)
        top = self._top_columns.get(own.id)
        if top is None:
            top = self._lake.next_column(own.id) - 1 if own.id >= 0 else 0
        made = alterations.with_column(own, column, max(top, *alterations.column_ids(own)) + 1)
        self._top_columns[own.id] = max(alterations.column_ids(made))
        return self._put(made)

    def drop_column(self, table: TableLike, name: str) -> Table:
        own = self.table(table)
        made = alterations.without_column(own, name)
        if own.id < 0:  # of committed tables the catalog knows all ids ever used
            top = self._top_columns.get(own.id, 0)
            self._top_columns[own.id] = max(top, *alterations.column_ids(own))
        return self._put(made)

    def rename_column(self, table: TableLike, name: str, to: str) -> Table:
        return self._put(alterations.with_renamed_column(self.table(table), name, to))

    def alter_column(self, table: TableLike, name: str, action: str, value: str | None) -> Table:
        """``action`` and ``value`` as in ALTER COLUMN; that no row is NULL is the caller's to know."""
        own = self.table(table)
        match action:
            case "TYPE":
                return self._put(retyping.with_type(own, name, value or ""))
            case "SET DEFAULT" | "DROP DEFAULT":
                return self._put(retyping.with_default(own, name, value))
            case _:
                return self._put(retyping.with_nullable(own, name, action == "DROP NOT NULL"))

    def comment(self, table: TableLike, comment: str | None, column: str | None = None) -> Table:
        """Say something about a table or one of its columns; None takes it back."""
        return self._put(alterations.with_comment(self.table(table), comment, column))

    def _put(self, table: Table) -> Table:
        tables = dict(self._state.structure.tables)
        tables[table.full_name.key] = table
        self._structure(replace(self._state.structure, tables=tables))
        return table

    def _structure(self, structure: Structure) -> None:
        self._open()
        self._state = replace(self._state, structure=structure)

    def _new_id(self) -> int:
        return next(self._ids)

    def _open(self) -> None:
        if self._over:
            raise InternalError("the transaction is over")
