"""The rows of a query by its own text: what Spark makes of it, without a plan of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from spark_trickle.compile import CompiledQuery
from spark_trickle.delta.support import FullOnly
from spark_trickle.errors import UserError
from spark_trickle.execute.engine import Engine
from spark_trickle.execute.postgres import table_columns
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.maintain.refresh.job import Pinned, PinnedState
from spark_trickle.sql.dialects import TrickleSpark
from spark_trickle.sql.parse import parse_query
from spark_trickle.sql.pg.queries import PgColumns
from spark_trickle.statements.dialect import to_spark
from spark_trickle.statements.parse import Query, parse_statement
from spark_trickle.statements.text.clock import at_moment

if TYPE_CHECKING:
    from spark_trickle.spark.run import Run
    from spark_trickle.spark.sessions.session import DataFrame


def text_frame(
    engine: Engine,
    run: Run,
    query: str,
    dialect: str,
    pinned: Mapping[str, Pinned],
    clock: int | None = None,
) -> DataFrame:
    """The rows of a query at the pinned versions, in the session of the run; at a clock, if given."""
    tables = {str(p.table.full_name.name).lower(): p.table for p in pinned.values()}
    tables |= {".".join(p.table.full_name.key): p.table for p in pinned.values()}

    def lookup(schema: str, name: str) -> PgColumns | None:
        found = tables.get(f"{schema}.{name}" if schema else name)
        return None if found is None else table_columns(found)

    (text,) = to_spark(query, dialect, lookup)
    if dialect == "spark" and parse_query(query).tree.find(exp.Fetch) is not None:
        text = parse_query(query).tree.sql(TrickleSpark)  # Spark knows LIMIT only
    if clock is not None:
        text = at_moment(text, clock)
    statement = parse_statement(text)
    if not isinstance(statement, Query):
        raise UserError("a stream table is defined by a query", hint="write AS SELECT …")
    from spark_trickle.execute.query import QueryRunner

    state = PinnedState(engine.catalog, pinned)
    return QueryRunner(run.spark, run.frames, state, text).query(statement.body)


def verified_frame(
    engine: Engine,
    run: Run,
    stream: StreamTable,
    compiled: CompiledQuery,
    pinned: Mapping[str, Pinned],
) -> DataFrame:
    """What a stream table should hold; every ORDER BY that is cut goes on with the other columns."""
    if isinstance(compiled.verdict, FullOnly) or not any(compiled.bound.ties):
        return text_frame(engine, run, stream.query, stream.dialect, pinned, stream.clock)
    return text_frame(
        engine, run, _untied(compiled).sql(TrickleSpark), "spark", pinned, stream.clock
    )


def _untied(compiled: CompiledQuery) -> exp.Query:
    """By place: names that nobody gave are not Spark's."""
    tree = compiled.parsed.tree.copy()
    for order, places in zip(tree.find_all(exp.Order), compiled.bound.ties, strict=False):
        for place in places:
            order.append(
                "expressions", exp.Ordered(this=exp.Literal.number(place), nulls_first=True)
            )
    return tree


def whole_frame(
    engine: Engine,
    run: Run,
    stream: StreamTable,
    compiled: CompiledQuery,
    pinned: Mapping[str, Pinned],
) -> DataFrame:
    """All rows of a query without temporal filters; a TopK's ties are broken as they are everywhere.

    Nothing is sorted in vain: a table has no order.
    """
    if isinstance(compiled.verdict, FullOnly):
        return text_frame(engine, run, stream.query, stream.dialect, pinned)
    tree = compiled.parsed.tree
    if tree.args.get("order") and not (tree.args.get("limit") or tree.args.get("offset")):
        tree = _untied(compiled)
        tree.set("order", None)
        return text_frame(engine, run, tree.sql(TrickleSpark), "spark", pinned)
    return verified_frame(engine, run, stream, compiled, pinned)
