"""Which stream tables are meant: ``name``, ``name+`` with all that read it, ``+name`` with all it reads."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from spark_trickle.errors import NotFoundError
from spark_trickle.execute.show.definitions import full_name
from spark_trickle.maintain.records import graph
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.storage.records import TableName

_QUOTED = "`(?:[^`]|``)*`"
_WORD = re.compile(rf"(?:{_QUOTED}|[^\s,])+")
_LITERAL = re.compile(rf"{_QUOTED}|[?[]")
"""What fnmatch would read as a pattern although only ``*`` outside of backticks is one."""


def selected(
    tables: Sequence[StreamTable], select: str | Iterable[str] | None, names: Mapping[str, str]
) -> set[str]:
    """The uuids of the tables that are meant; all of them without ``select``.

    Several, divided by spaces or commas, mean all of them together. A name may hold ``*``; in
    backticks every character stands for itself. The name of a table that is no stream table stands
    for those that read it: ``orders+``. ``names``: what tables are called now, by uuid.
    """
    if select is None:
        return {table.uuid for table in tables}
    words = _WORD.findall(select) if isinstance(select, str) else list(select)
    found: set[str] = set()
    for word in words:
        found |= _matching(tables, word, names)
    return found


def _matching(tables: Sequence[StreamTable], word: str, names: Mapping[str, str]) -> set[str]:
    up, down = word.startswith("+"), word.endswith("+")
    body = word.strip("+")
    pattern = TableName.of(_LITERAL.sub(lambda found: glob.escape(found[0]), body)).key
    roots = {t.uuid for t in tables if _fits(t.name, pattern)}
    streams = {t.uuid for t in tables}
    read = {s.uuid: names.get(s.uuid, s.name) for t in tables for s in t.sources}
    sources = {uuid for uuid, name in read.items() if _fits(name, pattern)}
    if not roots and not (down and sources):
        known = ", ".join(full_name(TableName.of(t.name)) for t in tables) or "none yet"
        raise NotFoundError(f"there is no stream table {body}", hint=f"there are: {known}")
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


def _fits(name: str, pattern: tuple[str, str]) -> bool:
    return all(map(fnmatchcase, TableName.of(name).key, pattern))
