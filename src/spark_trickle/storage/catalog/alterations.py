"""Changes of structure as pure functions: a structure or table in, the changed one out."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from spark_trickle.errors import AlreadyExistsError, BindError, InvalidDataError, NotFoundError
from spark_trickle.storage.catalog.structure import Schema, Structure
from spark_trickle.storage.files.filesystem import as_folder
from spark_trickle.storage.files.types import length_of, make_column, parse_spark, walk
from spark_trickle.storage.files.values import plain_value, to_text
from spark_trickle.storage.records import (
    DEFAULT_SCHEMA,
    HIDDEN_SCHEMA,
    RESERVED_SCHEMAS,
    ROW_ID,
    Column,
    NewColumn,
    Table,
    TableName,
    View,
    is_reserved,
)
from spark_trickle.storage.versions.planning import conform


def folder_name(name: str) -> str:
    """A folder for a name: the name itself where that is safe, else something unique."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name) else str(uuid.uuid4())


def create_schema(structure: Structure, name: str, number: int, if_not_exists: bool) -> Structure:
    if name.lower() in structure.schemas:
        if if_not_exists:
            return structure
        raise AlreadyExistsError(f"schema {name} already exists")
    _named(name)
    if name.lower() in RESERVED_SCHEMAS:
        raise BindError(
            f"the schema name {name} is reserved: {RESERVED_SCHEMAS[name.lower()]}",
            hint="choose another name",
        )
    files = structure.schema(DEFAULT_SCHEMA).files
    made = Schema(number, name, as_folder(files.root + folder_name(name)), files)
    return replace(structure, schemas={**structure.schemas, name.lower(): made})


def drop_schema(structure: Structure, name: str, if_exists: bool, cascade: bool) -> Structure:
    if if_exists and name.lower() not in structure.schemas:
        return structure
    schema = structure.schema(name)
    if name.lower() == DEFAULT_SCHEMA:
        raise BindError(f"schema {DEFAULT_SCHEMA} cannot be dropped")
    things = (("table", structure.tables.values()), ("view", structure.views.values()))
    inside = [(what, t.name) for what, some in things for t in some if t.schema == schema.name]
    if inside and not cascade:
        raise BindError(
            f"schema {name} is not empty: it has {inside[0][0]} {inside[0][1]}",
            hint=f"drop its {inside[0][0]}s first, or use CASCADE",
        )
    return Structure(
        {k: s for k, s in structure.schemas.items() if k != name.lower()},
        {k: t for k, t in structure.tables.items() if t.schema != schema.name},
        {k: v for k, v in structure.views.items() if v.schema != schema.name},
    )


def new_view(structure: Structure, view: View) -> View:
    """The view with the name of its schema as it is written there."""
    schema = structure.schema(view.schema)
    _free(structure, view.full_name)
    lowered = [name.lower() for name in view.columns]
    twice = next((n for n in view.columns if lowered.count(n.lower()) > 1), None)
    if twice is not None:
        raise AlreadyExistsError(f"view {view} has two columns named {twice}")
    return replace(view, schema=schema.name, uuid=view.uuid or str(uuid.uuid4()))


def _free(structure: Structure, name: TableName) -> None:
    """A name is a table's or a view's, never both."""
    _named(name.name)
    if name.key in structure.tables:
        raise AlreadyExistsError(f"table {name} already exists")
    if name.key in structure.views:
        raise AlreadyExistsError(f"view {name} already exists")


def _named(name: str) -> None:
    if not name:
        raise BindError("a name is empty", hint="give one")


def new_table(
    structure: Structure,
    name: TableName,
    columns: Sequence[NewColumn],
    keys: tuple[Sequence[str], Sequence[str]],
    number: int,
    comment: str | None = None,
) -> Table:
    schema = structure.schema(name.schema)
    _free(structure, name)
    if not columns:
        raise BindError(f"table {name} has no columns")
    ids = itertools.count(1)
    made: list[Column] = []
    for column in columns:
        _check_new_name(name, made, column.name, name.schema)
        made.append(_made(column, ids))
    table = Table(
        number,
        schema.name,
        name.name,
        tuple(made),
        uuid=str(uuid.uuid4()),
        location=as_folder(schema.location + folder_name(name.name)),
        files=schema.files,
        comment=comment,
    )
    primary, cluster = (tuple(named(table, n).name for n in names) for names in keys)
    return replace(table, primary_key=primary, cluster_by=cluster)


def _made(column: NewColumn, ids: Iterator[int]) -> Column:
    made = make_column(
        column.name,
        parse_spark(column.type),
        ids,
        nullable=column.nullable,
        default=column.default,
        initial_default=plain_value(column.initial),
        length=length_of(column.type),
        comment=column.comment,
    )
    if made.initial_default is not None and to_text(made.initial_default, made.type) is None:
        raise InvalidDataError(
            f"the default of column {made.name} cannot be kept: the catalog has no text for it",
            hint="add the column without a default and UPDATE the rows",
        )
    return made


def _check_new_name(table: object, columns: Sequence[Column], name: str, schema: str) -> None:
    if not name:
        raise BindError(f"table {table} has a column without a name")
    if any(c.name.lower() == name.lower() for c in columns):
        raise AlreadyExistsError(f"table {table} has two columns named {name}")
    if is_reserved(name) and schema.lower() != HIDDEN_SCHEMA:
        raise BindError(
            f"the column name {name} is reserved for spark-trickle's own queries",
            hint="choose another name, or give the column an alias: names of ours begin with __",
        )


def named(table: Table, name: str) -> Column:
    column = table.column(name)
    if column is None:
        names = ", ".join(c.name for c in table.columns)
        raise NotFoundError(f"table {table} has no column {name}", hint=f"columns: {names}")
    return column


def renamed_table(structure: Structure, table: Table, to: TableName) -> Table:
    if to.schema.lower() != table.schema.lower():
        raise BindError(f"table {table} cannot be renamed into another schema ({to})")
    _named(to.name)
    other = structure.tables.get(to.key)
    if to.key in structure.views or (other is not None and other.id != table.id):
        _free(structure, to)
    return replace(table, name=to.name)


def with_column(table: Table, column: NewColumn, first: int) -> Table:
    _check_new_name(table, table.columns, column.name, table.schema)
    if not column.nullable and column.initial is None:
        raise BindError(
            f"column {column.name} cannot be added as NOT NULL without a default",
            hint="give it a DEFAULT",
        )
    return replace(table, columns=(*table.columns, _made(column, itertools.count(first))))


def without_column(table: Table, name: str) -> Table:
    column = named(table, name)
    if column.name in (*table.primary_key, *table.cluster_by):
        raise BindError(f"column {column.name} is part of a key of table {table}")
    if len(table.columns) == 1:
        raise BindError(f"column {column.name} is the only one of table {table}")
    return replace(table, columns=tuple(c for c in table.columns if c.id != column.id))


def with_renamed_column(table: Table, name: str, to: str) -> Table:
    column = named(table, name)
    others = [c for c in table.columns if c.id != column.id]
    _check_new_name(table, others, to, table.schema)
    return replace(
        table,
        columns=tuple(replace(c, name=to) if c.id == column.id else c for c in table.columns),
        primary_key=tuple(to if n == column.name else n for n in table.primary_key),
        cluster_by=tuple(to if n == column.name else n for n in table.cluster_by),
    )


def with_comment(table: Table, comment: str | None, column: str | None) -> Table:
    if column is None:
        return replace(table, comment=comment)
    number = named(table, column).id
    columns = (replace(c, comment=comment) if c.id == number else c for c in table.columns)
    return replace(table, columns=tuple(columns))


def column_ids(table: Table) -> list[int]:
    return [item.id for column in table.columns for item in walk(column)]


def concat(parts: Sequence[pa.Table], table: Table) -> pa.Table:
    """Staged rows as one table of the table's columns, named by column id, and ``ROW_ID``."""
    rows = []
    for part in parts:
        plain = conform(part, table.columns).rename_columns([str(c.id) for c in table.columns])
        rows.append(plain.append_column(ROW_ID, part.column(ROW_ID)))
    return pa.concat_tables(rows)
