"""Queries of people at the SQL page: they read tables of the lake, and nothing else of the machine.

Spark's SELECT can do more than read: call Java, run programs, open files, show settings and the
environment. What could is refused by its tokens, before Spark sees it; and every table that is named has to
be one of the lake's, found by two parsers that know nothing of each other.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from spark_trickle.errors import NotFoundError, Position, UserError
from spark_trickle.execute.engine import Engine
from spark_trickle.execute.states import SnapshotState
from spark_trickle.lake import Lake
from spark_trickle.serve.jobs import JobOutcome
from spark_trickle.spark.fetching import bounded
from spark_trickle.spark.sessions.session import SessionHolder
from spark_trickle.sql.parse import parse_query
from spark_trickle.statements import parse as ast
from spark_trickle.statements.text.names import find_tables
from spark_trickle.statements.text.tokens import Token, TokenKind, tokenize
from spark_trickle.storage.records import DEFAULT_SCHEMA, HIDDEN_SCHEMA, TableName

if TYPE_CHECKING:
    from spark_trickle.spark.sessions.guests import Guest, Guests

MOST = 1_000
"""Rows that are shown."""
_FORBIDDEN = frozenset(["reflect", "java_method", "try_reflect", "identifier"])
"""Functions that call Java, and the one that makes a name of a text."""


class Reader:
    """Runs queries, each so that it can be cancelled alone."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._running: dict[str, Guest | None] = {}
        """By job: None as long as the query has no session yet, or when it shall have none."""
        self._lock = threading.Lock()

    @functools.cached_property
    def _guests(self) -> Guests:
        from spark_trickle.spark.sessions.guests import Guests  # with it comes pyspark

        return Guests(self._lake._engine.holder)

    def check(self, sql: str) -> None:
        """UserError unless the text only reads tables of the lake."""
        if self._lake.listing(sql) is None:
            check(self._lake, sql)

    def run(self, sql: str, job: str, most: int = MOST) -> JobOutcome:
        """The rows of a query, or what SHOW and DESCRIBE answer."""
        listed = self._lake.listing(sql)
        if listed is None:
            check(self._lake, sql)
            with self._guests.welcome() as guest, self._noted(job, guest):
                listed = self._rows(sql, guest, most + 1)
        more = listed.num_rows > most
        words = f"the first {most} rows" if more else f"{listed.num_rows} rows"
        return JobOutcome(words, listed.slice(0, most))

    def cancel(self, job: str) -> None:
        """Cancel one query, whether it runs or is about to; whatever else Spark does goes on."""
        with self._lock:
            guest = self._running.setdefault(job, None)
        if guest is not None:
            guest.cancel()

    @contextmanager
    def _noted(self, job: str, guest: Guest) -> Iterator[None]:
        with self._lock:
            early = job in self._running
            self._running[job] = guest
        try:
            if early:
                guest.cancel()
            yield
        finally:
            with self._lock:
                del self._running[job]

    def _rows(self, sql: str, guest: Guest, most: int) -> pa.Table:
        own = self._lake._engine
        engine = Engine(own.catalog, SessionHolder(guest.spark, own.settings), own.settings)
        engine.relations, engine.reading = own.relations, own.reading
        statement = ast.parse_statement(sql)
        assert isinstance(statement, ast.Query)
        try:
            now = SnapshotState(own.catalog, own.catalog.version())
            found = engine.query(sql, statement, now).limit(most)
            return bounded(found, most, own.settings.limits.fetched_bytes)
        finally:
            engine.close()


def check(lake: Lake, sql: str) -> None:
    """UserError unless the text is one query over tables of the lake."""
    if "${" in sql:
        raise _refused("${…} shows settings and the environment")
    tokens = tokenize(sql)
    for token, after in zip(tokens, [*tokens[1:], None], strict=False):
        _check_token(sql, token, after)
    statement = ast.parse_statement(sql)
    if not isinstance(statement, ast.Query) or statement.explain:
        raise _refused("this page only reads: a query, SHOW or DESCRIBE")
    body = (statement.body.start, statement.body.end)
    for reference in find_tables(sql, body):
        _check_name(lake, reference.name.parts)
    for parts in _named(sql[body[0] : body[1]]):
        _check_name(lake, parts)


def _check_token(sql: str, token: Token, after: Token | None) -> None:
    name = token.text.strip("`").lower()
    at = Position.of_span(sql, token.start, token.end)
    if token.names and name in _FORBIDDEN and after is not None and after.text == "(":
        raise _refused(f"{name} may do more than read", at)
    if token.word == "USING" and after is not None and after.kind is TokenKind.STRING:
        raise _refused("TRANSFORM … USING runs a program", at)


def _named(query: str) -> list[tuple[str, ...]]:
    """The tables as sqlglot sees them, without those that the query defines."""
    tree = parse_query(query).tree
    defined = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    found = []
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier):
            parts = tuple(part.name for part in table.parts)
            if len(parts) > 1 or parts[0].lower() not in defined:
                found.append(parts)
    return found


def _check_name(lake: Lake, parts: tuple[str, ...]) -> None:
    shown = ".".join(parts)
    if len(parts) > 2:
        raise NotFoundError(f"there is no table {shown}")
    schema = parts[0] if len(parts) == 2 else DEFAULT_SCHEMA
    if schema.lower() == "trickle" and parts[-1].lower() in lake._engine.relations:
        return
    if schema.lower() == HIDDEN_SCHEMA.lower():
        raise NotFoundError(f"there is no table {shown}")
    lake._catalog.table(TableName(schema, parts[-1]))


def _refused(why: str, position: Position | None = None) -> UserError:
    return UserError(why, position=position, hint="use trickle sql, or Python, for anything else")
