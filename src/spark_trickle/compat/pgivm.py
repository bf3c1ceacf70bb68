"""pg_ivm's functions: an IMMV is an IMMEDIATE stream table whose text is PostgreSQL's SQL."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from spark_trickle.compat.functions import FunctionContext, Parameter, PgFunction, rows, scalar
from spark_trickle.compat.index import Index, index_for
from spark_trickle.compat.names import name_and_columns, table_name
from spark_trickle.compat.strict import refuse_beyond_pg_ivm
from spark_trickle.errors import NotFoundError, NoticeWarning, ParseError, UserError
from spark_trickle.execute.engine import Engine
from spark_trickle.maintain.define.compiling import tables_read
from spark_trickle.maintain.define.definition import Definition
from spark_trickle.maintain.records import graph
from spark_trickle.maintain.records.streams import IMMEDIATE, StreamTable
from spark_trickle.maintain.service import StreamTables
from spark_trickle.storage.records import TableName

POSTGRES = "postgres"


def is_immv(stream: StreamTable) -> bool:
    return stream.refresh_mode == IMMEDIATE and stream.dialect == POSTGRES


def find_immv(streams: StreamTables, name: TableName) -> StreamTable | None:
    """The IMMV of that name; None if it is something else or nothing."""
    found = streams.find(name)
    return found if found is not None and is_immv(found) else None


def create_immv(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
    name, columns = name_and_columns(given["immv_name"])
    tree = _select(given["sql"])
    if desk.engine.settings.pg_ivm_strict:
        immvs = {TableName.of(s.name).key for s in desk.streams.all()}
        refuse_beyond_pg_ivm(tree, columns, immvs)
    catalog = desk.engine.catalog
    tables = list(tables_read(catalog, given["sql"], POSTGRES, catalog.version()).values())
    query = renamed(tree, columns).sql(POSTGRES, pretty=True) if columns else given["sql"].strip()
    index = index_for(renamed(tree, columns) if columns else tree, tables)
    wanted = Definition(
        name,
        query.rstrip().rstrip(";"),
        POSTGRES,
        refresh_mode=IMMEDIATE,
        cluster_by=index.columns,
    )
    report = desk.streams.create(wanted)
    _tell(name, index)
    return scalar("create_immv", 0 if report is None else report.rows_inserted, pa.int64())


def _select(text: str) -> exp.Query:
    try:
        trees = [tree for tree in sqlglot.parse(text, read=POSTGRES) if tree is not None]
    except SqlglotError as error:
        raise ParseError(f"this is not PostgreSQL's SQL: {str(error).splitlines()[0]}") from None
    if len(trees) != 1:
        raise UserError("an incrementally maintainable view needs one SELECT")
    tree = trees[0]
    while isinstance(tree, exp.Subquery) and not tree.alias:
        tree = tree.this
    if isinstance(tree, exp.Values):
        return exp.select("*").from_(tree)
    if not isinstance(tree, exp.Query):
        raise UserError(
            "view definition must specify SELECT statement",
            hint="an incrementally maintainable view is defined by a query",
        )
    return tree


def renamed(tree: exp.Query, columns: tuple[str, ...]) -> exp.Query:
    """The query whose first columns have these names."""
    selected = list(tree.selects)
    if any(item.is_star for item in selected) or isinstance(tree, exp.SetOperation):
        alias = exp.TableAlias(
            this=exp.to_identifier("immv__"),
            columns=[exp.to_identifier(c, quoted=True) for c in columns],
        )
        return exp.select("*").from_(exp.Subquery(this=tree.copy(), alias=alias))
    if len(columns) > len(selected):
        raise UserError(
            "too many column names were specified",
            hint=f"the query has {len(selected)} columns",
        )
    result = tree.copy()
    for item, column in zip(result.selects, columns, strict=False):
        item.replace(exp.alias_(item.unalias().copy(), column, quoted=True))
    return result


def _tell(name: TableName, index: Index) -> None:
    """pg_ivm's notice: an index there is a cluster key here."""
    if index.columns:
        listed = ", ".join(index.columns)
        text = f'immv "{name}" is clustered by ({listed}), as pg_ivm would index it'
    elif index.reason:
        text = (
            f'could not find a cluster key for immv "{name}" automatically: {index.reason}; '
            "large ones are maintained faster with the primary keys of all tables in the select list"
        )
    else:
        return
    warnings.warn(text, NoticeWarning, stacklevel=8)


def refresh_immv(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
    """With data: fill it and follow again. Without: empty it and stop following."""
    stream = _get(desk, given["immv_name"])
    if given["with_data"]:
        if stream.follows:
            desk.streams.refresh(TableName.of(stream.name))
        else:
            desk.streams.alter(TableName.of(stream.name), status="ACTIVE")
        plan = desk.engine.catalog.scan(TableName.of(stream.name))
        return scalar("refresh_immv", plan.rows, pa.int64())
    desk.streams.empty(TableName.of(stream.name))
    return scalar("refresh_immv", 0, pa.int64())


def _get(desk: FunctionContext, text: str) -> StreamTable:
    name = table_name(text)
    stream = find_immv(desk.streams, name)
    if stream is not None:
        return stream
    desk.engine.catalog.table(name)  # NotFoundError if there is no such relation
    raise UserError(f'"{name}" is not an IMMV', hint="create one with pgivm.create_immv")


def get_immv_def(desk: FunctionContext, given: Mapping[str, Any]) -> pa.Table:
    """The query, or NULL for a table that is no IMMV."""
    name = table_name(given["immvrelid"])
    stream = find_immv(desk.streams, name)
    if stream is None:
        try:
            desk.engine.catalog.table(name)
        except NotFoundError:
            raise NotFoundError(f'relation "{name}" does not exist') from None
    return scalar("get_immv_def", None if stream is None else stream.query, pa.string())


def pg_ivm_immv(desk: FunctionContext, _: Mapping[str, Any]) -> pa.Table:
    """One row for each IMMV; ``lastivmupdate`` is a version of the lake, as there a transaction's id."""
    columns = [
        ("immvrelid", pa.string()),
        ("viewdef", pa.string()),
        ("ispopulated", pa.bool_()),
        ("lastivmupdate", pa.int64()),
    ]
    records = []
    for stream in desk.streams.all():
        if is_immv(stream):
            history = desk.streams.history(stream.name)
            newest = max((report.version for report in history), default=None)
            records.append((stream.name, stream.query, stream.follows, newest))
    return rows(columns, records)


def drop_immv(streams: StreamTables, stream: StreamTable, *, cascade: bool = False) -> None:
    """DROP TABLE of an IMMV."""
    streams.drop(TableName.of(stream.name), cascade=cascade)


def drop_readers(engine: Engine, streams: StreamTables, name: TableName) -> None:
    """DROP TABLE … CASCADE: the stream tables that read it go first, and it is told."""
    try:
        table = engine.catalog.table(name)
    except NotFoundError:
        return
    for reader in reversed(graph.all_dependents(streams.all(), table.uuid)):
        streams.drop(TableName.of(reader.name))
        warnings.warn(f"drop cascades to stream table {reader.name}", NoticeWarning, stacklevel=8)


def rename_immv(streams: StreamTables, stream: StreamTable, to: TableName) -> None:
    """ALTER TABLE … RENAME TO of an IMMV; a bare name stays in its schema."""
    there = TableName.of(stream.name)
    streams.rename(there, replace(to, schema=there.schema))


_NAME = Parameter("immv_name")
FUNCTIONS = (
    PgFunction(
        "pgivm",
        "create_immv",
        "makes an IMMEDIATE stream table of a query in PostgreSQL's SQL; answers its rows",
        (_NAME, Parameter("sql")),
        create_immv,
    ),
    PgFunction(
        "pgivm",
        "refresh_immv",
        "`true`: fills it and follows again; `false`: empties it and stops following; answers its rows",
        (_NAME, Parameter("with_data", (bool,))),
        refresh_immv,
    ),
    PgFunction(
        "pgivm",
        "get_immv_def",
        "the query of an IMMV, NULL of another table",
        (Parameter("immvrelid"),),
        get_immv_def,
    ),
    PgFunction(
        "pgivm",
        "pg_ivm_immv",
        "a table of all IMMVs; `lastivmupdate` is the version of the lake that last changed it",
        (),
        pg_ivm_immv,
        scalar=False,
        relation=True,
    ),
    PgFunction(
        "pgivm",
        "prevent_immv_change",
        "a trigger function of pg_ivm's own; writing into an IMMV is refused here without it",
    ),
    PgFunction(
        "pgivm",
        "restore_immv",
        "a lake is copied with its stream tables: there is nothing to restore after a dump",
    ),
)
