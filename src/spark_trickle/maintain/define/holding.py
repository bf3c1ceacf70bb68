"""What must hold when the definition of a stream table is committed."""

from __future__ import annotations

from spark_trickle.compile import CompiledQuery
from spark_trickle.errors import CommitConflictError, InternalError
from spark_trickle.maintain.define.compiling import columns_used
from spark_trickle.maintain.records import graph
from spark_trickle.maintain.records import streams as records
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.storage.versions.transaction import Connection


def nobody_else(connection: Connection, there: StreamTable) -> None:
    """What was computed is a difference to the contents at one frontier, and right for no other."""
    for known in records.load(connection):
        same = (known.uuid, known.sources, known.segments, known.generation + 1)
        if same == (there.uuid, there.sources, there.segments, there.generation):
            return
    raise CommitConflictError(
        f"stream table {there.name} was refreshed or changed by somebody else meanwhile",
        hint="try again",
    )


def unread(connection: Connection, dropped: StreamTable) -> None:
    """A stream table made meanwhile would be left over nothing."""
    readers = graph.dependents(records.load(connection), dropped.uuid)
    if readers:
        names = ", ".join(table.name for table in readers)
        raise CommitConflictError(
            f"{names} began to read {dropped.name} while it was dropped", hint="try again"
        )


def sources_remain(connection: Connection, stream: StreamTable, compiled: CompiledQuery) -> None:
    """A table or column dropped meanwhile would leave a stream table over nothing."""
    for source in stream.sources:
        rows = connection.execute(
            "SELECT c.column_id FROM ducklake_column c JOIN ducklake_table t "
            "ON t.table_id = c.table_id WHERE t.table_uuid = ? "
            "AND t.end_snapshot IS NULL AND c.end_snapshot IS NULL",
            (source.uuid,),
        )
        there, used = {number for (number,) in rows}, columns_used(compiled, source)
        lost = [c for c in source.bound.columns if c.name.lower() in used and c.id not in there]
        if not there or lost:
            what = f"{source.name}.{lost[0].name}" if there else source.name
            raise CommitConflictError(
                f"{what} was dropped while {stream.name} was made", hint="try again"
            )


def same_shape(asked: list[tuple[str, str]], made: list[tuple[str, str]]) -> None:
    """The plan must give what Spark says the text gives; anything else is a bug of ours."""
    if [type for _, type in asked] != [type for _, type in made]:
        raise InternalError(
            f"the plan's columns are {made}, but Spark says the query's are {asked}",
            hint="please report this query; refresh mode FULL does not use the plan",
        )
