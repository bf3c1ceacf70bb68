"""What another query would do to a stream table and to those that read it, in words."""

from __future__ import annotations

from spark_trickle.compile import CompiledQuery, explained
from spark_trickle.maintain.records import graph
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.storage.records import Table


def preview(
    stream: StreamTable, table: Table, compiled: CompiledQuery, known: list[StreamTable]
) -> str:
    """One line for each thing that would happen."""
    lines = [
        f"{stream.name} would be rebuilt in full, in one commit: its query changes",
        f"private state: {_parts(len(stream.segments))} dropped, "
        f"{_parts(len(compiled.segments))} made",
    ]
    readers = graph.all_dependents(known, stream.uuid)
    names = ", ".join(reader.name for reader in readers)
    changes = _changes(table, compiled)
    if changes is None:
        lines.append("columns: only Spark can tell their types")
    elif changes:
        lines.append(f"columns change: {'; '.join(changes)}")
    else:
        lines.append("columns stay as they are")
    if not readers:
        lines.append("downstream: nobody reads it")
    elif changes:
        lines.append(f"downstream: it would be refused, because {names} depend on its columns")
    else:
        lines.append(
            f"downstream: {names} are not rebuilt; they see the net difference at their next refresh"
        )
    return "\n".join([*lines, "", explained(compiled, "verdict").rstrip(), ""])


def _parts(count: int) -> str:
    return f"{count} {'part' if count == 1 else 'parts'}"


def _changes(table: Table, compiled: CompiledQuery) -> list[str] | None:
    """What becomes of the columns; None where the plan does not know."""
    plan = compiled.bound.plan
    if plan is None:
        return None
    kinds = [c.type.sql("spark").lower().replace(", ", ",") for c in plan.columns]
    new = dict(zip(compiled.bound.names, kinds, strict=True))
    old = {column.name: column.type for column in table.columns}
    return [
        *(f"{name} goes" for name in old if name not in new),
        *(f"{name} comes ({kind})" for name, kind in new.items() if name not in old),
        *(
            f"{name} becomes {kind} (was {old[name]})"
            for name, kind in new.items()
            if name in old and kind not in (old[name], "unknown")
        ),
        *(["their order"] if [*old] != [*new] and {*old} == {*new} else []),
    ]
