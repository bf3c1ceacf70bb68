"""Which stream table reads which: order of refresh, dependents, cycles by name."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from spark_trickle.errors import CycleError
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.storage.catalog.catalog import Catalog


def read_by(catalog: Catalog, stream: StreamTable) -> dict[str, str]:
    """What the tables that a stream table reads are called now, by uuid; one that is gone, as its
    query calls it."""
    return {s.uuid: str(catalog.find(s.uuid) or s.name) for s in stream.sources}


def dependents(tables: Iterable[StreamTable], uuid: str) -> list[StreamTable]:
    """The stream tables that read this table directly."""
    return [table for table in tables if any(source.uuid == uuid for source in table.sources)]


def all_dependents(tables: Iterable[StreamTable], uuid: str) -> list[StreamTable]:
    """The stream tables that read this table directly or through others, nearest first."""
    tables = list(tables)
    found: dict[str, StreamTable] = {}
    queue = [uuid]
    while queue:
        for table in dependents(tables, queue.pop(0)):
            if table.uuid not in found:
                found[table.uuid] = table
                queue.append(table.uuid)
    return list(found.values())


def levels(tables: Iterable[StreamTable]) -> list[list[StreamTable]]:
    """Stream tables by depth: each reads base tables and tables of earlier levels only."""
    remaining = {table.uuid: table for table in tables}
    ordered: list[list[StreamTable]] = []
    while remaining:
        level = [
            table
            for table in remaining.values()
            if not any(source.uuid in remaining for source in table.sources)
        ]
        if not level:
            raise CycleError(f"stream tables read each other in a circle: {_names(remaining)}")
        ordered.append(level)
        for table in level:
            del remaining[table.uuid]
    return ordered


def together(tables: Sequence[StreamTable]) -> list[list[StreamTable]]:
    """Stream tables that are to be seen at one version: those that read one another, directly or
    through others, and those that read the same table on the same schedule."""
    parents: dict[Hashable, Hashable] = {}
    inside = {table.uuid for table in tables}
    for table in tables:
        for source in table.sources:
            shared = source.uuid if source.uuid in inside else (source.uuid, table.schedule)
            unite(parents, table.uuid, shared)
    groups: dict[Hashable, list[StreamTable]] = {}
    for table in tables:
        groups.setdefault(root(parents, table.uuid), []).append(table)
    return list(groups.values())


def unite(parents: dict[Hashable, Hashable], one: Hashable, other: Hashable) -> None:
    """Put two things, and what each is with already, into one set."""
    parents[root(parents, other)] = root(parents, one)


def root(parents: dict[Hashable, Hashable], key: Hashable) -> Hashable:
    """What stands for the set that a thing is in."""
    while parents.get(key, key) != key:
        parents[key] = parents.get(parents[key], parents[key])
        key = parents[key]
    return key


def refuse_cycle(tables: Iterable[StreamTable], uuid: str, name: str, sources: set[str]) -> None:
    """CycleError if the table with this uuid may not read these sources."""
    if uuid in sources:
        raise CycleError(f"stream table {name} would read itself")
    for table in all_dependents(tables, uuid):
        if table.uuid in sources:
            raise CycleError(
                f"stream table {name} would read {table.name}, which reads {name}",
                hint=f"drop {table.name} or leave it out of the query",
            )


def _names(tables: Mapping[str, StreamTable]) -> str:
    return ", ".join(sorted(table.name for table in tables.values()))
