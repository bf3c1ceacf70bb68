"""Queries of stream tables over tables alone: the queries of views become part of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from spark_trickle.errors import TrickleError
from spark_trickle.execute.postgres import lookup_in
from spark_trickle.execute.states import SnapshotState
from spark_trickle.execute.views import Expanded, expanded, find_view
from spark_trickle.maintain.define.definition import Definition
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.sql.postgres import parse_postgres, tables_named
from spark_trickle.statements.dialect import to_spark
from spark_trickle.statements.text.parameters import in_users_text
from spark_trickle.statements.text.splices import Spliced
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.records import TableName


@contextmanager
def over_tables(catalog: Catalog, wanted: Definition) -> Iterator[Definition]:
    """The definition without views; errors are told at their place in the text that was given."""
    found = expanded_query(catalog, wanted.query, wanted.dialect)
    if not found.views:
        yield replace(wanted, views=())
        return
    text, uuids = found.text, tuple(view.uuid for view in found.views)
    try:
        yield replace(wanted, query=text.text, dialect="spark", views=uuids)
    except TrickleError as error:
        in_users_text(error, wanted.query, text)
        raise


def expanded_query(catalog: Catalog, query: str, dialect: str) -> Expanded:
    """The query with what the views of now stand for."""
    if not catalog.views():
        return Expanded(Spliced(query, ()), ())
    state = SnapshotState(catalog, catalog.version())
    text = query
    if dialect == "postgres":
        named = {name.lower() for tree in parse_postgres(query) for _, name in tables_named(tree)}
        if not named & {view.name.lower() for view in catalog.views()}:
            return Expanded(Spliced(query, ()), ())
        (text,) = to_spark(query, dialect, lookup_in(state))
    return expanded(text, lambda name: find_view(state, name))


def definition_of(
    stream: StreamTable, *, query: str | None = None, dialect: str | None = None
) -> Definition:
    """What a stream table is, with another query if one is given."""
    return Definition(
        TableName.of(stream.name),
        query or stream.query,
        dialect or stream.dialect,
        stream.schedule,
        stream.refresh_mode,
        meaning=stream.meaning if query is None else None,
        fast_path=stream.fast_path,
    )
