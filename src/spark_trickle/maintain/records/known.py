"""Stream tables that were read before, so that a lake with many of them is not read at each statement.

Law: a stamp stands for one state of all records but their frontiers. Whoever writes a record draws a
new stamp at random in the same catalog transaction, so that no two states of any lake share one, not
even where a transaction was rolled back. Frontiers, clocks among them, move with every refresh and are read each time.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_trickle.storage.catalog.database import Connection

if TYPE_CHECKING:
    from spark_trickle.maintain.records.streams import StreamTable

TABLE = "CREATE TABLE IF NOT EXISTS trickle_stamp (stamp BIGINT NOT NULL)"
_LAKES = 8
"""So many states are kept: one for each lake that is open, and a few that are being made."""
_FEW = 100
"""So many are looked for by name, more are read with all others."""
_states: OrderedDict[int, dict[str, StreamTable]] = OrderedDict()
_lock = threading.Lock()


def draw(connection: Connection) -> None:
    """Say that a record is written."""
    if not connection.has_table("trickle_stamp"):
        connection.execute(TABLE)
    connection.execute("DELETE FROM trickle_stamp")
    connection.execute("INSERT INTO trickle_stamp VALUES (?)", (secrets.randbits(62),))


def stamp(connection: Connection) -> int | None:
    """What stands for the records now; None in a lake that was written before there were stamps."""
    if not connection.has_table("trickle_stamp"):
        return None
    rows = connection.execute("SELECT stamp FROM trickle_stamp")
    return int(rows[0][0]) if rows else None


def keep(stamp: int | None, streams: Sequence[StreamTable]) -> None:
    """Remember all stream tables of a lake."""
    if stamp is None:
        return
    with _lock:
        _states[stamp] = {stream.uuid: stream for stream in streams}
        while len(_states) > _LAKES:
            _states.popitem(last=False)


def recall(
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
