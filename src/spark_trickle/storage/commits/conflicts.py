"""Whether other commits got in the way, judged under the write lock.

Law, for a transaction and what others committed to the same table since the version it read:

- New rows are in nobody's way, and nobody's rows are in theirs.
- A deleted row (an UPDATE deletes one and adds one) conflicts with a commit that deleted or replaced
  the *same* row, and with no other: not with new rows, not with deletes beside it in the same
  file, not with compaction, which carries it to another place (``moving``).
- Removing *all* rows (TRUNCATE, DELETE without a condition, INSERT OVERWRITE) conflicts with every
  change of rows: it would remove what it has not seen.
- What rests on rows that are *not* there conflicts with new rows: MERGE and ON CONFLICT that insert
  what they did not find, SET NOT NULL after a look for NULLs. So no key comes twice by them.
- DDL conflicts with DDL, and every write with DDL: rows fit the columns they were made for.
- What was put in the read set conflicts with every change of rows or columns: at SERIALIZABLE all
  that was read, at REPEATABLE READ the sources of IMMEDIATE stream tables that follow. At READ
  COMMITTED these are computed anew instead.
- Compaction conflicts with DDL and with another compaction. It changes no row: deletes that came
  meanwhile are carried into its files.

Without a record of what was committed in between (it has expired) there is no judgement: conflict.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from spark_trickle.errors import CommitConflictError
from spark_trickle.storage.catalog.database import Connection

_TOKEN = re.compile(r'(\w+):((?:"(?:[^"]|"")*"|[^,"])*)')

INSERTED = ("inserted_into_table", "inlined_insert")
DELETED = ("deleted_from_table", "inlined_delete")
SHAPED = ("dropped_table", "altered_table")
COMPACTED = ("merge_adjacent", "rewrite_delete", "compacted_table", "inline_flush")
MOVED = (*SHAPED, *INSERTED, *DELETED)
"""What changes a table's rows or columns; compaction does not."""
ROWS = frozenset((*INSERTED, *DELETED))
REPLACED = frozenset((*DELETED, *COMPACTED))
"""What may have taken a row from its place."""
INLINED = frozenset(("inlined_insert", "inlined_delete"))

FAR = 10_000
"""To read what so many versions did takes longer than to look at a table's files."""

_WORDS = {
    "inserted_into_table": "got new rows",
    "inlined_insert": "got new rows",
    "deleted_from_table": "lost rows",
    "inlined_delete": "lost rows",
    "dropped_table": "was dropped",
    "altered_table": "was altered",
    "merge_adjacent": "was compacted",
    "rewrite_delete": "was compacted",
    "compacted_table": "was compacted",
    "inline_flush": "was compacted",
}


@dataclass
class Others:
    """What other commits did since a version: by table, each kind of change and its version."""

    by_table: dict[int, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    known_from: int = 0
    """All that was done after this version is on record; of what was done before it, some has expired."""


@dataclass(frozen=True)
class Claim:
    """What a transaction did to a table, for the matrix."""

    name: str
    writes: bool = False
    """It adds rows, or deletes some."""
    truncates: bool = False
    assumes: bool = False
    """It holds only as long as no rows are added."""
    alters: bool = False
    drops: bool = False
    reads: bool = False
    compacts: bool = False

    def clashes(self) -> Iterable[str]:
        """Kinds of changes by others that this claim cannot live with."""
        if self.writes or self.alters or self.compacts:
            yield from SHAPED
        if self.truncates or self.reads:
            yield from MOVED
        if self.assumes:
            yield from (*SHAPED, *INSERTED)
        if self.drops:
            yield "dropped_table"
        if self.compacts:
            yield from COMPACTED


def entries(text: str | None) -> list[tuple[str, str]]:
    """The kinds of changes in a version's list, each with what it was done to."""
    found: list[tuple[str, str]] = _TOKEN.findall(text or "")
    return found


def unquoted(value: str) -> list[str]:
    """The parts of a quoted name in a list of changes."""
    return [part.replace('""', '"') for part in re.findall(r'"((?:[^"]|"")*)"', value)] or [value]


def since(connection: Connection, version: int) -> Others:
    """The changes recorded after a version."""
    others = Others(known_from=version)
    last = version
    for number, text in connection.execute(
        "SELECT snapshot_id, changes_made FROM ducklake_snapshot_changes WHERE snapshot_id > ? "
        "ORDER BY snapshot_id",
        (version,),
    ):
        if number > last + 1:
            others.known_from = number - 1
        last = number
        for kind, value in entries(text):
            if value.isdigit():
                others.by_table[int(value)][kind] = number
    return others


def moves(connection: Connection, version: int) -> list[tuple[int, int]]:
    """Version and table of each change of rows or columns after a version."""
    rows = connection.execute(
        "SELECT snapshot_id, changes_made FROM ducklake_snapshot_changes WHERE snapshot_id > ?",
        (version,),
    )
    return [
        (number, int(value))
        for number, text in rows
        for kind, value in entries(text)
        if value.isdigit() and kind in MOVED
    ]


class LastMoves:
    """In which version each table changed last, by kind; reads only what is new since it was asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[int, dict[str, int]] = {}
        self._from: int | None = None
        self._to = 0
        self._expired = False
        """Whether what was done before ``_from`` is no longer on record."""

    def since(self, connection: Connection, version: int, newest: int | None = None) -> int:
        """From which version on all changes are known; those after ``version`` are, unless they expired.

        ``newest``: what the connection sees as the newest version, if the caller knows it.
        """
        with self._lock:
            if self._from is None or (version < self._from and not self._expired):
                self._from = self._to = version
            if newest is None:
                newest = connection.execute("SELECT max(snapshot_id) FROM ducklake_snapshot")[0][0]
            if newest > self._to:
                self._add(connection, since(connection, self._to))
                self._to = int(newest)
            return self._from

    def _add(self, connection: Connection, others: Others) -> None:
        if others.known_from > self._to:  # a table may have changed since its last change known
            self._last, self._from, self._expired = {}, others.known_from, True
            others = since(connection, others.known_from)
        for table, kinds in others.by_table.items():
            known = self._last.get(table, {})
            latest = {kind: max(n, known.get(kind, 0)) for kind, n in kinds.items()}
            self._last[table] = {**known, **latest}

    def near(self, connection: Connection, version: int, newest: int) -> int:
        """As ``since``, but of what is long past no more than is known already."""
        first = newest if self._from is None else self._from
        far = newest - version > FAR and version < first
        return self.since(connection, first if far else version, newest)

    def of(self, table: int, otherwise: int, counts: Callable[[str], bool] = lambda _: True) -> int:
        """The last change of a table of the kinds that count, as far as it is known."""
        known = self._last.get(table, {})
        return max((n for kind, n in known.items() if counts(kind)), default=otherwise)


def check(connection: Connection, base: int, claims: Mapping[int, Claim]) -> Others:
    """What was committed after ``base``; CommitConflictError if a claim clashes with it."""
    oldest = connection.execute("SELECT min(snapshot_id) FROM ducklake_snapshot")[0][0]
    if oldest > base + 1:
        raise CommitConflictError(
            f"the record of what others committed after version {base} has expired",
            hint="run the transaction again",
        )
    others = since(connection, base)
    for table, claim in claims.items():
        theirs = others.by_table.get(table, {})
        for kind in claim.clashes():
            if kind in theirs:
                raise conflict(claim.name, kind, theirs[kind])
    return others


def conflict(name: str, kind: str, version: int) -> CommitConflictError:
    return CommitConflictError(
        f"another transaction committed first: table {name} {_WORDS[kind]} in version {version}",
        hint="run the transaction again; it will then see the other one's changes",
    )
