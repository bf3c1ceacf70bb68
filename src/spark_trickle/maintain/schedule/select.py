"""Which stream tables are meant: ``name``, ``name+`` with all that read it, ``+name`` with all it reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from spark_trickle.errors import NotFoundError
from spark_trickle.maintain.records import graph
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.storage.records import TableName


def selected(tables: Sequence[StreamTable], select: str | Iterable[str] | None) -> set[str]:
    """The uuids of the tables that are meant; all of them without ``select``.

    Several, divided by spaces or commas, mean all of them together. A name may hold ``*``. The
    name of a table that is no stream table stands for those that read it: ``orders+``.
    """
    if select is None:
        return {table.uuid for table in tables}
    words = select.replace(",", " ").split() if isinstance(select, str) else list(select)
    found: set[str] = set()
    for word in words:
        found |= _matching(tables, word)
    return found


def _matching(tables: Sequence[StreamTable], word: str) -> set[str]:
    up, down = word.startswith("+"), word.endswith("+")
    pattern = _key(word.strip("+"))
    roots = {t.uuid for t in tables if fnmatchcase(_key(t.name), pattern)}
    streams = {t.uuid for t in tables}
    sources = {s.uuid for t in tables for s in t.sources if fnmatchcase(_key(s.name), pattern)}
    if not roots and not (down and sources):
        known = ", ".join(t.name for t in tables) or "none yet"
        raise NotFoundError(
            f"there is no stream table {word.strip('+')}", hint=f"there are: {known}"
        )
    found = set(roots)
    if down:
        for root in roots | (sources - streams):
            found |= {t.uuid for t in graph.all_dependents(tables, root)}
    if up:
        found |= upstream(tables, roots)
    return found


def upstream(tables: Iterable[StreamTable], roots: Iterable[str]) -> set[str]:
    """All stream tables that these read, directly or through others."""
    by_uuid = {t.uuid: t for t in tables}
    found: set[str] = set()
    queue = [by_uuid[r] for r in roots]
    while queue:
        for source in queue.pop().sources:
            if source.uuid in by_uuid and source.uuid not in found:
                found.add(source.uuid)
                queue.append(by_uuid[source.uuid])
    return found


def _key(name: str) -> str:
    return ".".join(TableName.of(name).key)
