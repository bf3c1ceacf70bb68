"""SHOW and DESCRIBE as small Arrow tables; the catalog alone answers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

import pyarrow as pa

from spark_trickle.errors import NotFoundError, names_hint
from spark_trickle.execute.states import SnapshotSource, Source, TransactionSource, table_name
from spark_trickle.statements import parse as ast
from spark_trickle.storage.records import HIDDEN_SCHEMA, Table


def answer(statement: ast.ShowTables | ast.ShowSchemas | ast.Describe, source: Source) -> pa.Table:
    match statement:
        case ast.ShowTables(schema):
            return _tables(source, schema)
        case ast.ShowSchemas():
            schemas = [name for name in source.catalog.schemas() if name != HIDDEN_SCHEMA]
            return _text_table({"namespace": schemas})
        case ast.Describe(name):
            return _columns(source.table(table_name(name)))
        case _:
            assert_never(statement)


def _tables(source: Source, schema: str | None) -> pa.Table:
    tables = visible(source)
    if schema is not None:
        wanted = schema.lower()
        if wanted not in {name.lower() for name in source.catalog.schemas()}:
            known = [name for name in source.catalog.schemas() if name != HIDDEN_SCHEMA]
            raise NotFoundError(
                f"there is no schema {schema}", hint=names_hint(schema, known, "schemas")
            )
        tables = [table for table in tables if table.schema.lower() == wanted]
    tables.sort(key=lambda table: table.full_name.key)
    return _text_table(
        {"namespace": [t.schema for t in tables], "tableName": [t.name for t in tables]}
    )


def visible(source: Source) -> list[Table]:
    """The tables of users, without private state of stream tables."""
    match source:
        case SnapshotSource():
            tables = source.catalog.tables(source.version)
        case TransactionSource():
            tables = source.tx.tables()
        case _:
            tables = source.catalog.tables()
    return [table for table in tables if table.schema != HIDDEN_SCHEMA]


def _columns(table: Table) -> pa.Table:
    def notes(name: str) -> str:
        words = [
            "primary key" if name in table.primary_key else "",
            "cluster by" if name in table.cluster_by else "",
        ]
        return ", ".join(word for word in words if word)

    return _text_table(
        {
            "col_name": [c.name for c in table.columns],
            "data_type": [c.declared for c in table.columns],
            "nullable": ["true" if c.nullable else "false" for c in table.columns],
            "default": [c.default for c in table.columns],
            "key": [notes(c.name) for c in table.columns],
            "comment": [c.comment for c in table.columns],
        }
    )


def _text_table(columns: Mapping[str, Sequence[str | None]]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
