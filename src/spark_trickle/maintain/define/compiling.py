"""Stream-table queries compiled against the lake's tables; a compiled query is kept for the next time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from sqlglot import exp

from spark_trickle.compile import CompiledQuery, compile_query
from spark_trickle.errors import NameHint, NotFoundError
from spark_trickle.execute.states import table_name
from spark_trickle.execute.views import sources_for
from spark_trickle.ir.walk import scans
from spark_trickle.maintain.records.streams import Dependency, StreamTable
from spark_trickle.spark.sessions.facts import Meaning
from spark_trickle.sql.postgres import parse_postgres, tables_named
from spark_trickle.statements.text.names import find_tables
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import DEFAULT_SCHEMA, Table, TableName

_KEPT = 256

Compile = Callable[[StreamTable], CompiledQuery]


def tables_read(catalog: Catalog, query: str, dialect: str, version: int) -> dict[str, Table]:
    """The tables of the lake that a query names, by their full names."""
    found: dict[str, Table] = {}
    for name in _names(query, dialect):
        with suppress(NotFoundError):
            table = catalog.table(name, version)
            found[str(table)] = table
    return found


def _names(query: str, dialect: str) -> Iterator[TableName]:
    if dialect == "postgres":
        for tree in parse_postgres(query):
            for schema, name in tables_named(tree):
                yield TableName(schema or DEFAULT_SCHEMA, name)
        return
    for reference in find_tables(query):
        if len(reference.name.parts) <= 2:
            yield table_name(reference.name)


class Compiler:
    """Compiles queries; the same text over the same columns is compiled once."""

    def __init__(
        self, hint: NameHint | None = None, ansi: Callable[[], bool] = lambda: True
    ) -> None:
        self._hint = hint
        self._ansi = ansi
        self._kept: OrderedDict[object, CompiledQuery] = OrderedDict()

    def stream(self, stream: StreamTable) -> CompiledQuery:
        """The query of a stream table over its sources as they were when it was bound.

        One that was made before temporal filters were maintained has no state for them.
        """
        nothing = Table(0, "", "", ())
        tables = [source.bound.show(source.name, nothing) for source in stream.sources]
        temporal = stream.clock is not None
        return self.compile(stream.query, stream.dialect, tables, stream.meaning, temporal=temporal)

    def compile(
        self,
        query: str,
        dialect: str,
        tables: Iterable[Table],
        meaning: Meaning | None = None,
        *,
        temporal: bool = True,
    ) -> CompiledQuery:
        tables = tuple(tables)
        functions, settings = None, None
        if meaning is not None:
            settings = meaning.settings
            functions = {name: known.deterministic for name, known in meaning.functions.items()}
        asked = None if functions is None else tuple(sorted(functions.items()))
        told = None if settings is None else tuple(sorted(settings.items()))
        ansi = self._ansi() if meaning is None else None
        key = (query, dialect, ansi, tuple(map(_shape, tables)), asked, told, temporal)
        if key not in self._kept:
            self._kept[key] = compile_query(
                query,
                sources_for(tables),
                dialect=dialect,
                hint=self._hint,
                functions=functions,
                ansi=bool(ansi) if meaning is None else meaning.ansi,
                settings=settings,
                temporal=temporal,
            )
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


def _shape(table: Table) -> object:
    columns = tuple((c.name, c.type, c.nullable) for c in table.columns)
    return str(table), columns, table.primary_key, table.cluster_by


def columns_used(compiled: CompiledQuery, source: Dependency) -> set[str]:
    """The lower-case names of the columns of a source that the query makes use of."""
    plan = compiled.bound.plan
    if plan is None:
        named = _named(compiled.parsed.tree)
        return {c.name.lower() for c in source.bound.columns} if named is None else named
    found = (c for scan in scans(plan) if scan.source == source.name for c in scan.columns)
    return {c.name.lower() for c in found if c.id in compiled.used}


def _named(tree: exp.Expr) -> set[str] | None:
    """All names in a query that has no plan; None where columns are meant without being named."""
    stars = any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star))
    natural = any(join.method == "NATURAL" for join in tree.find_all(exp.Join))
    if stars or natural or tree.find(exp.Pivot) is not None:
        return None
    return {name.name.lower() for name in tree.find_all(exp.Identifier)}
