"""What is remembered of stream tables, and the ``trickle_`` tables of the catalog that hold it.

Tables are named by their uuid, which survives renames and tells a table from a later one of the
same name. Contents, private state, frontier and history change in one catalog transaction.

What was read before is kept, so that a lake with many stream tables is not read at each statement. Law:
a stamp stands for one state of all records but their frontiers. Whoever writes a record draws a new
stamp at random in the same catalog transaction, so that no two states of any lake share one, not even
where a transaction was rolled back. Frontiers, clocks among them, move with every refresh and are
read each time.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from spark_trickle.maintain.records.bound import Binding, bound_from_json
from spark_trickle.maintain.records.history import create_totals, history
from spark_trickle.spark.sessions.facts import Meaning
from spark_trickle.storage.records import TableName
from spark_trickle.storage.versions.transaction import Connection

_STAMP = "CREATE TABLE IF NOT EXISTS trickle_stamp (stamp BIGINT NOT NULL)"
_LAKES = 8
"""So many states are kept: one for each lake that is open, and a few that are being made."""
_FEW = 100
"""So many are looked for by name, more are read with all others."""
_states: OrderedDict[int, dict[str, StreamTable]] = OrderedDict()
_lock = threading.Lock()


def draw_stamp(connection: Connection) -> None:
    """Say that a record is written."""
    if not connection.has_table("trickle_stamp"):
        connection.execute(_STAMP)
    connection.execute("DELETE FROM trickle_stamp")
    connection.execute("INSERT INTO trickle_stamp VALUES (?)", (secrets.randbits(62),))


def stamp_of(connection: Connection) -> int | None:
    """What stands for the records now; None in a lake that was written before there were stamps."""
    if not connection.has_table("trickle_stamp"):
        return None
    rows = connection.execute("SELECT stamp FROM trickle_stamp")
    return int(rows[0][0]) if rows else None


def _keep(stamp: int | None, streams: Sequence[StreamTable]) -> None:
    """Remember all stream tables of a lake."""
    if stamp is None:
        return
    with _lock:
        _states[stamp] = {stream.uuid: stream for stream in streams}
        while len(_states) > _LAKES:
            _states.popitem(last=False)


def _recall(
    connection: Connection, stamp: int | None, wanted: Callable[[StreamTable], bool] | None = None
) -> list[StreamTable] | None:
    """All stream tables, or those that are wanted for anything but their frontiers, as they are now;
    None if they must be read."""
    with _lock:
        state = _states.get(stamp) if stamp is not None else None
        if state is None or stamp is None:
            return None
        _states.move_to_end(stamp)
    chosen = [each for each in state.values() if wanted is None or wanted(each)]
    few = len(chosen) <= _FEW
    where = f" WHERE stream_uuid IN ({', '.join('?' * len(chosen))})" if few else ""
    given = [stream.uuid for stream in chosen] if few else []
    if not chosen:
        return []
    rows = connection.execute(
        f"SELECT stream_uuid, source_uuid, version FROM trickle_source{where}", given
    )
    versions = {(stream, source): version for stream, source, version in rows}
    clocks: dict[str, int] = {}
    if any(stream.clock is not None for stream in chosen):
        ticked = f"SELECT stream_uuid, clock FROM trickle_clock{where}"
        clocks = dict(connection.execute(ticked, given))
    found = []
    for stream in chosen:
        uuid, moment = stream.uuid, clocks.get(stream.uuid)
        same = all(versions[uuid, source.uuid] == source.version for source in stream.sources)
        if not same or stream.clock != moment:
            moved = tuple(replace(s, version=versions[uuid, s.uuid]) for s in stream.sources)
            stream = state[uuid] = replace(stream, sources=moved, clock=moment)
        found.append(stream)
    return found


ACTIVE, SUSPENDED, ERROR = "ACTIVE", "SUSPENDED", "ERROR"
FULL, IMMEDIATE = "FULL", "IMMEDIATE"

TABLES = (
    """CREATE TABLE IF NOT EXISTS trickle_stream_table (
         uuid VARCHAR PRIMARY KEY, name VARCHAR NOT NULL, query VARCHAR NOT NULL,
         dialect VARCHAR NOT NULL, schedule VARCHAR, refresh_mode VARCHAR NOT NULL,
         status VARCHAR NOT NULL, populated BIGINT NOT NULL, last_error VARCHAR,
         segments VARCHAR NOT NULL, generation BIGINT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS trickle_source (
         stream_uuid VARCHAR NOT NULL, source_uuid VARCHAR NOT NULL, source_name VARCHAR NOT NULL,
         version BIGINT NOT NULL, PRIMARY KEY (stream_uuid, source_uuid))""",
    """CREATE TABLE IF NOT EXISTS trickle_bound (
         stream_uuid VARCHAR NOT NULL, source_uuid VARCHAR NOT NULL, bound VARCHAR NOT NULL,
         PRIMARY KEY (stream_uuid, source_uuid))""",
    """CREATE TABLE IF NOT EXISTS trickle_fast_path (
         stream_uuid VARCHAR PRIMARY KEY)""",
    """CREATE TABLE IF NOT EXISTS trickle_clock (
         stream_uuid VARCHAR PRIMARY KEY, clock BIGINT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS trickle_refresh (
         stream_uuid VARCHAR NOT NULL, started_at DOUBLE PRECISION NOT NULL,
         effective_mode VARCHAR NOT NULL, report VARCHAR NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS trickle_meaning (
         stream_uuid VARCHAR PRIMARY KEY, meaning VARCHAR NOT NULL)""",
    _STAMP,
    """CREATE INDEX IF NOT EXISTS trickle_refresh_by_table
         ON trickle_refresh (stream_uuid, effective_mode, started_at)""",
    """CREATE INDEX IF NOT EXISTS trickle_refresh_by_time
         ON trickle_refresh (stream_uuid, started_at)""",
)
_ALL = 1 << 31


@dataclass(frozen=True)
class Segment:
    """A hidden table that keeps private state of a stream table."""

    part: str
    """The part of the compiled query whose rows it holds."""
    uuid: str
    name: str
    whole: bool = False
    """The reserve of a TopK: whether it holds all rows of its input."""


@dataclass(frozen=True)
class Dependency:
    """A table a stream table reads, and the version of it that the contents reflect."""

    uuid: str
    name: str
    """The one it had when the query was bound: what the query calls it, whatever it is called now."""
    version: int
    bound: Binding = Binding()


@dataclass(frozen=True)
class StreamTable:
    """A stream table as the catalog remembers it."""

    uuid: str
    name: str
    query: str
    dialect: str = "spark"
    schedule: str | None = None
    refresh_mode: str = "AUTO"
    status: str = ACTIVE
    populated: bool = False
    """Whether the contents reflect the frontier; False until the first fill and after a breach."""
    last_error: str | None = None
    segments: tuple[Segment, ...] = ()
    generation: int = 0
    """Grows with every change of definition, so that a refresh notices that it is out of date."""
    sources: tuple[Dependency, ...] = ()
    meaning: Meaning | None = None
    """None: it was made before meanings were kept; the next refresh gives it the session's."""
    fast_path: bool = False
    """Whether commits shall fold their changes into it although it is not IMMEDIATE."""
    clock: int | None = None
    """The moment of the frontier, in microseconds since 1970; None: no temporal filter is kept."""

    @property
    def follows(self) -> bool:
        """Whether every commit that changes a source keeps the contents up to date."""
        return self.refresh_mode == IMMEDIATE and self.status == ACTIVE and self.populated

    @property
    def followed(self) -> bool:
        """Whether commits shall bring it up to date, be it for its mode or by folding."""
        return self.follows or (self.fast_path and self.status == ACTIVE and self.populated)

    @property
    def by_text(self) -> bool:
        """Whether it is only ever computed in full, so that it keeps no private state."""
        return self.refresh_mode == FULL and not self.fast_path and not self.segments

    def at(self, version: int, only: Collection[str] | None = None) -> StreamTable:
        """With all sources, or some of them, at one version."""
        return replace(
            self,
            sources=tuple(
                replace(s, version=version) if only is None or s.uuid in only else s
                for s in self.sources
            ),
        )

    @property
    def tables(self) -> tuple[TableName, ...]:
        """Where its rows are: the result, then its private state."""
        names = (self.name, *(segment.name for segment in self.segments))
        return tuple(map(TableName.of, names))

    @property
    def frontier(self) -> dict[str, int]:
        """The version of each source, by the name that the query has for it."""
        return {source.name: source.version for source in self.sources}


def create_tables(connection: Connection) -> None:
    for statement in TABLES:
        connection.execute(statement)
    if not connection.has_table("trickle_total"):
        create_totals(connection, history(connection, most=_ALL))


def stopped(connection: Connection) -> Mapping[str, str]:
    """Those whose readers expect more: out of service, or suspended and IMMEDIATE; status by uuid."""
    if not connection.has_table("trickle_stream_table"):
        return {}
    found = connection.execute(
        "SELECT uuid, status FROM trickle_stream_table "
        "WHERE status = ? OR (status = ? AND refresh_mode = 'IMMEDIATE')",
        (ERROR, SUSPENDED),
    )
    return dict(found)


def load_one(connection: Connection, uuid: str) -> StreamTable | None:
    """One stream table, however many there are."""
    found = load(connection, uuid)
    return found[0] if found else None


def definitions(connection: Connection) -> list[StreamTable]:
    """All stream tables, with frontiers that may be old: what else they are is as it is now."""
    if not connection.has_table("trickle_stream_table"):
        return []
    stamp = stamp_of(connection)
    with _lock:
        state = None if stamp is None else _states.get(stamp)
        found = None if state is None else list(state.values())
    return load(connection) if found is None else found


def load(connection: Connection, only: str | None = None) -> list[StreamTable]:
    """All stream tables, or the one with a uuid, in the order of their names."""
    if not connection.has_table("trickle_stream_table"):
        return []
    stamp = stamp_of(connection)
    found = _recall(connection, stamp, None if only is None else lambda s: s.uuid == only)
    if found is None:
        found = _read(connection, only)
        if only is None:
            _keep(stamp, found)
    return found


def load_some(connection: Connection, wanted: Callable[[StreamTable], bool]) -> list[StreamTable]:
    """Those of all stream tables that are wanted, whatever their frontiers."""
    stamp = stamp_of(connection) if connection.has_table("trickle_stream_table") else None
    found = _recall(connection, stamp, wanted)
    return list(filter(wanted, load(connection))) if found is None else found


def _read(connection: Connection, only: str | None) -> list[StreamTable]:
    sources: dict[str, list[Dependency]] = {}
    given = () if only is None else (only,)

    def among(column: str) -> str:
        return "" if only is None else f" WHERE {column} = ?"

    for stream, uuid, name, version, bound in connection.execute(
        "SELECT s.stream_uuid, s.source_uuid, s.source_name, s.version, b.bound "
        "FROM trickle_source s LEFT JOIN trickle_bound b "
        f"ON b.stream_uuid = s.stream_uuid AND b.source_uuid = s.source_uuid{among('s.stream_uuid')}"
        " ORDER BY 3",
        given,
    ):
        found = Binding() if bound is None else bound_from_json(bound)
        sources.setdefault(stream, []).append(Dependency(uuid, name, version, found))
    rows = connection.execute(
        "SELECT uuid, name, query, dialect, schedule, refresh_mode, status, populated, last_error,"
        f" segments, generation FROM trickle_stream_table{among('uuid')} ORDER BY name",
        given,
    )
    kept = connection.execute(
        f"SELECT stream_uuid, meaning FROM trickle_meaning{among('stream_uuid')}", given
    )
    meanings = {uuid: _meaning(text) for uuid, text in kept}
    fast = f"SELECT stream_uuid FROM trickle_fast_path{among('stream_uuid')}"
    asked = {uuid for (uuid,) in connection.execute(fast, given)}
    ticked = f"SELECT stream_uuid, clock FROM trickle_clock{among('stream_uuid')}"
    clocks: dict[str, int] = dict(connection.execute(ticked, given))
    streams = [_stream_table(row, sources.get(row[0], []), row[0] in asked) for row in rows]
    return [replace(s, meaning=meanings.get(s.uuid), clock=clocks.get(s.uuid)) for s in streams]


_meaning = lru_cache(maxsize=1024)(Meaning.from_json)


def _stream_table(row: tuple[Any, ...], sources: Iterable[Dependency], fast: bool) -> StreamTable:
    uuid, name, query, dialect, schedule, mode, status, populated, error, segments, generation = row
    return StreamTable(
        uuid,
        name,
        query,
        dialect,
        schedule,
        mode,
        status,
        bool(populated),
        error,
        tuple(Segment(**segment) for segment in json.loads(segments)),
        generation,
        tuple(sources),
        fast_path=fast,
    )


def move(connection: Connection, stream: StreamTable, moved: StreamTable) -> None:
    """Write a record over the one it was made of; often it is but the frontier that moved."""
    same = replace(moved, sources=stream.sources, clock=stream.clock) == stream
    if not same or (moved.clock is None) != (stream.clock is None):
        save(connection, moved)
        return
    if moved.clock != stream.clock:
        connection.execute(
            "UPDATE trickle_clock SET clock = ? WHERE stream_uuid = ?", (moved.clock, moved.uuid)
        )
    connection.execute_many(
        "UPDATE trickle_source SET version = ? WHERE stream_uuid = ? AND source_uuid = ?",
        [(source.version, moved.uuid, source.uuid) for source in moved.sources],
    )


def save(connection: Connection, table: StreamTable) -> None:
    """Write the whole record, frontier included, over what is there."""
    if not connection.has_table("trickle_stream_table"):
        create_tables(connection)  # with the first stream table: a lake without needs none
    forget(connection, table.uuid)
    connection.execute(
        "INSERT INTO trickle_stream_table VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            table.uuid,
            table.name,
            table.query,
            table.dialect,
            table.schedule,
            table.refresh_mode,
            table.status,
            int(table.populated),
            table.last_error,
            json.dumps([asdict(segment) for segment in table.segments]),
            table.generation,
        ),
    )
    connection.execute_many(
        "INSERT INTO trickle_source VALUES (?, ?, ?, ?)",
        [(table.uuid, source.uuid, source.name, source.version) for source in table.sources],
    )
    connection.execute_many(
        "INSERT INTO trickle_bound VALUES (?, ?, ?)",
        [(table.uuid, source.uuid, source.bound.json) for source in table.sources],
    )
    if table.meaning is not None:
        connection.execute(
            "INSERT INTO trickle_meaning VALUES (?, ?)", (table.uuid, table.meaning.to_json())
        )
    if table.fast_path:
        connection.execute("INSERT INTO trickle_fast_path VALUES (?)", (table.uuid,))
    if table.clock is not None:
        connection.execute("INSERT INTO trickle_clock VALUES (?, ?)", (table.uuid, table.clock))


def forget(connection: Connection, uuid: str) -> None:
    """Remove the record; the history stays."""
    draw_stamp(connection)
    connection.execute("DELETE FROM trickle_stream_table WHERE uuid = ?", (uuid,))
    for kind in ("source", "bound", "meaning", "fast_path", "clock"):
        connection.execute(f"DELETE FROM trickle_{kind} WHERE stream_uuid = ?", (uuid,))


def succeed(connection: Connection, uuid: str, other: str) -> None:
    """Let one stream table take the place of another, whose history it goes on with."""
    forget(connection, uuid)
    connection.execute(
        "UPDATE trickle_refresh SET stream_uuid = ? WHERE stream_uuid = ?", (other, uuid)
    )
