"""Stream-table queries compiled against the lake's tables; a compiled query is kept for the next time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from sqlglot import exp

from spark_trickle.compile import CompiledQuery, compile_query
from spark_trickle.errors import NameHint, NotFoundError
from spark_trickle.execute.states import table_name
from spark_trickle.ir.types import Column, Source
from spark_trickle.statements.dialect import to_spark
from spark_trickle.statements.names import find_tables
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import DEFAULT_SCHEMA, Table

_KEPT = 256


def tables_read(catalog: Catalog, query: str, dialect: str, version: int) -> dict[str, Table]:
    """The tables of the lake that a query names, by their full names."""
    text = to_spark(query, dialect)
    found: dict[str, Table] = {}
    for reference in find_tables(text):
        if len(reference.name.parts) > 2:
            continue
        try:
            table = catalog.table(table_name(reference.name), version)
        except NotFoundError:
            continue
        found[str(table)] = table
    return found


class Compiler:
    """Compiles queries; the same text over the same columns is compiled once."""

    def __init__(self, hint: NameHint | None = None) -> None:
        self._hint = hint
        self._kept: OrderedDict[object, CompiledQuery] = OrderedDict()

    def compile(self, query: str, dialect: str, tables: Iterable[Table]) -> CompiledQuery:
        tables = tuple(tables)
        key = (query, dialect, tuple((str(t), t.columns, t.sort_key) for t in tables))
        if key not in self._kept:
            self._kept[key] = compile_query(
                query, sources_for(tables), dialect=dialect, hint=self._hint
            )
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


def sources_for(tables: Iterable[Table]) -> Mapping[str, Source]:
    """Tables as the compiler is told about them; those of the default schema under both names."""
    sources: dict[str, Source] = {}
    for table in tables:
        source = Source(
            str(table),
            tuple(
                Column(position, column.name, _type(column.type), column.nullable)
                for position, column in enumerate(table.columns)
            ),
            table.primary_key,
            table.cluster_by,
        )
        sources[f"{table.schema}.{table.name}"] = source
        if table.schema == DEFAULT_SCHEMA:
            sources[table.name] = source
    return sources


def _type(text: str) -> exp.DataType:
    return exp.DataType.build(text, dialect="spark")
