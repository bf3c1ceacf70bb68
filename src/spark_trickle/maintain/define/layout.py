"""Where the parts of a stream table are stored: the result under its name, segments in a hidden schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from sqlglot import exp

from spark_trickle.compile import CompiledQuery
from spark_trickle.delta.segment import RESULT, Part
from spark_trickle.delta.support import FullOnly
from spark_trickle.errors import BindError
from spark_trickle.ir.types import Side
from spark_trickle.lower.query import TableNames
from spark_trickle.maintain.records.streams import Segment, StreamTable
from spark_trickle.storage.records import HIDDEN_SCHEMA, NewColumn, Table, TableName
from spark_trickle.storage.versions.transaction import Transaction

if TYPE_CHECKING:
    from spark_trickle.maintain.refresh.job import Pinned
    from spark_trickle.spark.run import Run

Types = Callable[[Part], list[tuple[str, str]]]
"""The names and Spark types of a part's columns."""


def create_parts(
    tx: Transaction,
    name: TableName,
    compiled: CompiledQuery,
    types: Types,
    made: dict[str, Table],
    cluster_by: Sequence[str] = (),
) -> None:
    """Make the tables of all parts into ``made``, in order: types may follow from earlier parts."""
    parts = compiled.parts
    if len(parts) > 1:
        tx.create_schema(HIDDEN_SCHEMA, if_not_exists=True)
    token = uuid4().hex[:12]
    for part in parts:
        columns = types(part)
        if part.name in made:
            continue
        if part.name == RESULT:
            made[RESULT] = create_result(tx, name, part, columns, cluster_by)
            continue
        place = TableName(HIDDEN_SCHEMA, f"{token}{part.name}")
        made[part.name] = create_table(tx, place, columns, [key.name for key in part.keys])


def create_alone(
    tx: Transaction,
    name: TableName,
    compiled: CompiledQuery,
    shape: Sequence[tuple[str, str]],
    cluster_by: Sequence[str],
) -> Table:
    """The table of a query that keeps no state; ``shape``: what Spark says of its text."""
    if isinstance(compiled.verdict, FullOnly):
        return create_table(tx, name, shape, [])
    columns = list(zip(compiled.bound.names, (type for _, type in shape), strict=True))
    return create_result(tx, name, compiled.result, columns, cluster_by)


def create_result(
    tx: Transaction,
    name: TableName,
    part: Part,
    columns: Sequence[tuple[str, str]],
    cluster_by: Sequence[str],
) -> Table:
    """The table that users see."""
    wanted = {column.lower() for column in cluster_by}
    keys = [column for column, _ in columns if column.lower() in wanted]
    return create_table(tx, name, columns, keys or [key.name for key in part.keys])


def create_table(
    tx: Transaction, name: TableName, columns: Sequence[tuple[str, str]], keys: Sequence[str]
) -> Table:
    """The table of one part, sorted by the columns its rows are found by."""
    seen: set[str] = set()
    for column, type in columns:
        if column.lower() in seen:
            raise BindError(
                f"the query has two columns named {column}", hint="give one of them an alias"
            )
        seen.add(column.lower())
        if "void" in type:
            raise BindError(
                f"column {column} of the query has no type", hint="CAST the NULL to a type"
            )
    new = [NewColumn(column, type) for column, type in columns]
    return tx.create_table(name, new, cluster_by=sortable(columns, keys))


def sortable(columns: Sequence[tuple[str, str]], keys: Sequence[str]) -> list[str]:
    """The keys that files can be sorted by."""
    types = dict(columns)
    nested = ("map", "struct", "array", "variant")
    return [key for key in keys if not types[key].startswith(nested)]


def needs_state(
    stream: StreamTable, changed: StreamTable, compile: Callable[[StreamTable], CompiledQuery]
) -> bool:
    """Whether it was computed by its text alone and shall be kept by deltas, which need state."""
    if not stream.by_text or changed.by_text:
        return False
    compiled = compile(stream)
    return not isinstance(compiled.verdict, FullOnly) and len(compiled.parts) > 1


def segments_of(tables: Mapping[str, Table]) -> tuple[Segment, ...]:
    return tuple(
        Segment(part, table.uuid, str(table)) for part, table in tables.items() if part != RESULT
    )


def names_after(
    run: Run, tx: Transaction, tables: Mapping[str, Table], pinned: Mapping[str, Pinned]
) -> TableNames:
    """Views of the sources and of the parts made so far."""

    def name(source: str, _: Side) -> exp.Table:
        if source in tables:
            view = run.scan(tx.scan(tables[source]))
        else:
            view = run.scan(pinned[source].relation())
        return exp.Table(this=exp.Identifier(this=view, quoted=True))

    return name
