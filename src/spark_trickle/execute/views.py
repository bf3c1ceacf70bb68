"""Views of the lake: their queries in place of their names, and what may break them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from spark_trickle.errors import (
    BindError,
    CycleError,
    DependencyError,
    NotFoundError,
    TrickleError,
    UnsupportedQueryError,
    UserError,
    names_hint,
)
from spark_trickle.execute.states import StatementState, table_name
from spark_trickle.ir.types import Column, TableSchema
from spark_trickle.sql.bind.plan import BoundQuery, bind
from spark_trickle.statements.text.names import TableReference, find_tables
from spark_trickle.statements.text.splices import Splice, Spliced, TextBuilder, quoted, splice_names
from spark_trickle.statements.text.tokens import tokenize
from spark_trickle.storage.records import DEFAULT_SCHEMA, Table, TableName, View
from spark_trickle.storage.versions.transaction import Transaction

FindView = Callable[[TableName], View | None]
RELATIONS = ("trickle", "information_schema")
"""Schemas whose relations are made when they are asked for."""


@dataclass(frozen=True)
class Expanded:
    """A query over tables alone, and the views that it was written with."""

    text: Spliced
    views: tuple[View, ...]


def expanded(sql: str, find: FindView, path: tuple[View, ...] = ()) -> Expanded:
    """``sql`` with each view that it names as a common table expression before it."""
    found: dict[str, View] = {}
    names: dict[TableReference, str] = {}
    for reference in find_tables(sql):
        view = find(table_name(reference.name)) if len(reference.name.parts) < 3 else None
        if view is not None:
            _may_use(view, path, reference)
            names[reference] = name = _cte_name(sql, view)
            found[name] = view
    if not found:
        return Expanded(TextBuilder(sql).user(0, len(sql)).build(), ())
    inner = {name: expanded(view.sql, find, (*path, view)) for name, view in found.items()}
    listed = ", ".join(
        f"{quoted(name)}{_columns(found[name])} AS ({inner[name].text.text})" for name in found
    )
    given = [r for r in names if names[r] != r.name.parts[-1] or len(r.name.parts) > 1]
    splices = splice_names(sql, tuple(given), lambda r: quoted(names[r]), (0, len(sql)))
    at, words = _with(sql, listed)
    every = sorted((*splices, Splice(at, at, words)), key=lambda s: (s.start, s.end))
    text = TextBuilder(sql).user(0, len(sql), tuple(every)).build()
    used = [*found.values(), *(view for each in inner.values() for view in each.views)]
    return Expanded(text, tuple(dict.fromkeys(used)))


def _may_use(view: View, path: tuple[View, ...], reference: TableReference) -> None:
    if view in path:
        chain = " -> ".join(str(v) for v in (*path, view))
        raise CycleError(f"view {view} refers to itself: {chain}")
    if view.dialect != "spark":
        raise UserError(
            f"view {view} is written in the SQL of {view.dialect}",
            hint=f"make it anew: CREATE OR REPLACE VIEW {view} AS SELECT …",
        )
    if reference.version is not None or reference.timestamp is not None:
        raise UnsupportedQueryError(
            f"view {view} is read at one version of the past", code="VIEW_AS_OF"
        )


def _cte_name(sql: str, view: View) -> str:
    """A name that no common table expression of the text has."""
    own = view.schema == DEFAULT_SCHEMA
    name = view.name if own else f"{view.schema}_{view.name}"
    tokens = tokenize(sql)
    texts = [token.text.upper() for token in tokens]
    taken = {
        token.name.lower()
        for i, token in enumerate(tokens)
        if token.names and texts[i + 1 : i + 2] in (["AS"], ["("])
    }
    while name.lower() in taken:
        name += "_view"
    return name


def _columns(view: View) -> str:
    return f" ({', '.join(map(quoted, view.columns))})" if view.columns else ""


def _with(sql: str, listed: str) -> tuple[int, str]:
    """Where a list of common table expressions goes, and the words for it."""
    tokens = tokenize(sql)
    if tokens[0].word != "WITH":
        return tokens[0].start, f"WITH {listed} "
    recursive = tokens[1].word == "RECURSIVE" and tokens[2].names
    if recursive:
        raise UnsupportedQueryError(
            "a query WITH RECURSIVE cannot read a view here", code="RECURSIVE_VIEW"
        )
    return tokens[0].end, f" {listed},"


def compiled(view: View, state: StatementState) -> BoundQuery:
    """A view's query bound to the tables of now; without a plan where only Spark can tell."""
    found = _bound(view.sql, state)
    if found.plan is not None and view.columns and len(view.columns) != len(found.names):
        raise BindError(
            f"view {view} has {len(view.columns)} columns, but its query has {len(found.names)}"
        )
    return found


def _bound(sql: str, state: StatementState) -> BoundQuery:
    try:
        text = expanded(sql, lambda name: find_view(state, name)).text.text
        if any(r.name.key[0] in RELATIONS for r in find_tables(text) if len(r.name.parts) == 2):
            return BoundQuery(None, ())
        return bind(text, sources_for(_tables(text, state)), hint=partial(_hint, state))
    except UnsupportedQueryError:  # which stream tables refuse, and Spark may know
        return BoundQuery(None, ())


def _hint(state: StatementState, name: str, known: Iterable[str]) -> str:
    from spark_trickle.execute.show.listing import views, visible

    things = [*map(str, visible(state)), *map(str, views(state))]
    return names_hint(name, {*things, *known})


def find_view(state: StatementState, name: TableName) -> View | None:
    from spark_trickle.execute.show.listing import view

    return view(state, name)


def _tables(sql: str, state: StatementState) -> list[Table]:
    found: dict[str, Table] = {}
    for reference in find_tables(sql):
        if len(reference.name.parts) < 3:
            try:
                table = state.table(table_name(reference.name))
            except NotFoundError:
                continue
            found[str(table)] = table
    return list(found.values())


def broken(tx: Transaction, state: StatementState) -> dict[str, tuple[View, TrickleError]]:
    """The views that cannot be bound as the transaction sees the lake, by uuid."""
    found = {}
    for view in tx.views():
        try:
            if view.dialect == "spark":
                compiled(view, state)
        except TrickleError as error:
            found[view.uuid] = (view, error)
    return found


def refuse_breaking(
    before: Mapping[str, object], after: Mapping[str, tuple[View, TrickleError]]
) -> None:
    """DependencyError if a statement takes away what views need."""
    lost = [pair for uuid, pair in after.items() if uuid not in before]
    if lost:
        names = ", ".join(str(view) for view, _ in lost)
        raise DependencyError(
            f"views {names} read it: {lost[0][1].message}",
            hint=f"drop or replace them first: DROP VIEW {lost[0][0]}",
        )


def sources_for(tables: Iterable[Table]) -> Mapping[str, TableSchema]:
    """Tables as the compiler is told about them; those of the default schema under both names."""
    sources: dict[str, TableSchema] = {}
    for table in tables:
        source = TableSchema(
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
