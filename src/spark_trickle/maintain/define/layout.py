"""Where the parts of a stream table are stored: the result under its name, segments in a hidden schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

from sqlglot import exp

from spark_trickle.compile import CompiledQuery
from spark_trickle.delta.segment import RESULT, Part, Strategy
from spark_trickle.delta.support import FullOnly
from spark_trickle.errors import BindError
from spark_trickle.ir.nodes import Aggregate, Distinct, Filter, Node, Project, Scan
from spark_trickle.ir.types import Side
from spark_trickle.lower.query import TableNames
from spark_trickle.maintain.apply.delta import StoredPart, SumColumns
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


def stored_parts(
    tx: Transaction, stream: StreamTable, compiled: CompiledQuery
) -> dict[str, StoredPart]:
    """The tables of a stream table's parts as the transaction sees them."""
    tables = {segment.part: tx.table(TableName.of(segment.name)) for segment in stream.segments}
    tables[RESULT] = tx.table(TableName.of(stream.name))
    return stored(tables, compiled)


def stored(tables: dict[str, Table], compiled: CompiledQuery) -> dict[str, StoredPart]:
    if isinstance(compiled.verdict, FullOnly):
        return {RESULT: StoredPart(tables[RESULT], ())}
    parts = {part.name: part for part in compiled.parts}
    return {
        name: StoredPart(
            tables[name],
            tuple(key.name for key in part.keys),
            is_unique(part, parts),
            state_of(part),
            single=_is_single(part, parts),
        )
        for name, part in parts.items()
        if name in tables
    }


def needs_state(
    stream: StreamTable, changed: StreamTable, compile: Callable[[StreamTable], CompiledQuery]
) -> bool:
    """Whether it was computed by its text alone and shall be kept by deltas, which need state."""
    if not stream.by_text or changed.by_text:
        return False
    compiled = compile(stream)
    return not isinstance(compiled.verdict, FullOnly) and len(compiled.parts) > 1


def _is_single(part: Part, parts: dict[str, Part]) -> bool:
    """Whether a part is the one row of an aggregate without keys, or made of it row by row."""
    if part.strategy is not Strategy.ALGEBRA:
        return isinstance(part.plan, Aggregate) and not part.plan.keys
    core: Node = part.plan
    while isinstance(core, Project):
        core = core.input
    return isinstance(core, Scan) and core.source in parts and _is_single(parts[core.source], parts)


def state_of(part: Part) -> SumColumns | None:
    """Which columns of a part are sums over groups, if it is a state of sums."""
    if part.strategy not in (Strategy.ADDITIVE, Strategy.EXTREMUM):
        return None
    assert isinstance(part.plan, Aggregate)
    names = {column.id: column.name for column in part.columns}
    extrema = {column.id for column, _ in part.extrema}
    counts = {column.id for column in part.counts}
    rows, *others = [column.id for column, _ in part.plan.calls if column.id not in extrema]
    return SumColumns(
        names[rows],
        tuple(names[id] for id in others if id in counts),
        tuple(names[id] for id in others if id not in counts),
        keyed=bool(part.keys),
    )


def segments_of(tables: Mapping[str, Table]) -> tuple[Segment, ...]:
    return tuple(
        Segment(part, table.uuid, str(table)) for part, table in tables.items() if part != RESULT
    )


def is_unique(part: Part, parts: dict[str, Part]) -> bool:
    """Whether the key alone tells the rows of a part apart."""
    if not part.keys:
        return False
    core: Node = part.plan
    while isinstance(core, Project | Filter):
        core = core.input
    if isinstance(core, Scan) and core.source in parts:
        below = parts[core.source]
        return len(below.keys) == len(part.keys) and is_unique(below, parts)
    return part.strategy is not Strategy.ALGEBRA and isinstance(core, Aggregate | Distinct)


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
