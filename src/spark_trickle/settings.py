"""Settings: read once when a lake is opened, then constant."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path


@dataclass(frozen=True)
class Limits:
    """What this process reads, holds and hands over by itself: past a limit, executors do the work.

    They are judged before anything is read, as far as the catalog can tell; bytes are those of files,
    and of results those in memory. The defaults suit a process with a few GB.
    """

    delta_rows: int = 200_000
    """Changes of a source, and deltas, of more rows are not brought here: they stay in files."""
    delta_bytes: int = 512 << 20
    """Changes of a source for which more has to be decoded, row groups as a whole, are read by Spark."""
    near_rows: int = 500_000
    """If more rows of one source are near a delta, Spark joins the files."""
    near_bytes: int = 1 << 30
    """Files of more bytes are searched by Spark for the rows near a delta."""
    worked_rows: int = 100_000
    """Whole tables of more rows are computed by Spark, changes of more rows are not folded at
    commit, and among more rows Spark looks for those that only Python can compare."""
    worked_bytes: int = 32 << 20
    """Whole tables of more bytes are computed by Spark."""
    held_values: int = 4_000_000
    """A source of more values is not held in memory between two searches: each reads what it needs."""
    fetched_bytes: int = 512 << 20
    """Results of more bytes are not brought here: they stay in files, and an answer is refused."""
    searched_bytes: int = 64 << 20
    """Where rows that go, or change, are in files of more bytes, Spark finds them and compares."""
    read_files: int = 1_000
    """Of more files not even the footers are read here: Spark finds what goes, what changed, and what
    is near a delta."""
    sampled_bytes: int = 32 << 20
    """How many values a column has is estimated from row groups of no more bytes; if none is so small,
    it is guessed."""
    shipped_rows: int = 2_000
    """Changes of more rows are not handed to Spark from memory: it reads their files."""
    written_bytes: int = 256 << 20
    """A query that reads more is run once, into files, before it is known how many rows it has; files
    of more bytes are compacted by executors."""
    dead_rows: int = 500_000
    """More dead rows are compacted by executors, too, unless they died in very many versions."""
    answer_rows: int = 5_000_000
    """An answer that a statement of PostgreSQL's keeps between its steps is refused if it has more."""


_ALLOWED = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where a container says how much memory it may use."""


def _eighth() -> int:
    """Of the memory that this process may use."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return 1 << 30
    for place in _ALLOWED:
        with suppress(OSError, ValueError):
            memory = min(memory, int(Path(place).read_text()))
    return min(memory // 8, 4 << 30)


@dataclass(frozen=True)
class Settings:
    """What can be tuned; the defaults suit one machine and many small changes."""

    author: str | None = None
    """Who commits: kept with every version."""
    inline_row_limit: int = 1_000
    """Writes up to this many rows go into the catalog and start no Spark write."""
    inline_bytes: int = 1 << 20
    """And up to this many bytes; of rows that a statement deletes, so many are kept there, packed, and
    the change feed is spared reading more than these again."""
    inline_delete_limit: int = 50_000
    """Deletes up to this many rows are kept in the catalog, larger ones in delete files."""
    catalog_rows: int = 10_000
    """A commit after which a table has more rows than this in the catalog puts them into a file;
    0: never."""
    small_files: int = 100
    """A commit after which a table has more small files than this merges some; 0: never."""
    busy_timeout_seconds: float = 30.0
    """How long a commit waits for another writer before it gives up."""
    commit_retries: int = 10
    """How often an autocommit statement is tried again after a conflict."""
    retention_seconds: float = 7 * 24 * 3600.0
    """Versions younger than this survive expiry."""
    history_rows: int = 1_000
    """So many refreshes of each stream table are remembered, and those AUTO learns from."""
    parallel_refreshes: int = 4
    """So many stream tables that do not read each other are refreshed at once."""
    lease_seconds: float = 15.0
    """A process that refreshes and has not been heard of for so long is taken for dead."""
    poll_seconds: float = 1.0
    """How often the scheduler looks for commits that nobody told it of."""
    failures_allowed: int = 3
    """After so many failures in a row the scheduler suspends a stream table."""
    upkeep_seconds: float = 3600.0
    """How often the scheduler compacts, expires versions and removes orphans; 0: never."""
    reconcile_seconds: float = 86_400.0
    """How often the scheduler verifies a stream table that commits fold into; 0: never. A difference
    takes it out of service."""
    cache_bytes: int = field(default_factory=_eighth)
    """Decoded columns kept in memory; one cache for all lakes of a process, the newest lake sets it.
    By default an eighth of the memory that the process may use, at most 4 GiB."""
    local_rows: int = 1_000_000
    """A delta that reads no more rows than this is computed in this process where that is proven to
    be Spark's answer; 0: always on Spark."""
    fast_path_bytes: int = 64 << 20
    """Groups of a stream table that are folded at commit: past this much memory it is not."""
    limits: Limits = Limits()
    """What this process reads, holds and hands over by itself."""
    pg_ivm_strict: bool = False
    """Whether ``pgivm.create_immv`` refuses what pg_ivm itself refuses."""
    time_zone: str | None = None
    """The lake's time zone. None: that of a session which the process has, UTC for one started here;
    a session given to ``connect`` keeps its own."""
    clock: Callable[[], datetime] = field(default=partial(datetime.now, UTC), repr=False)
    """What time it is, with its zone: the clock that temporal filters of stream tables go by."""
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of an object store: ``endpoint``, ``region``, ``access_key``, ``secret_key``, ``session_token``,
    ``path_style``. What is not given comes from the environment; a Spark started here gets the same."""
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    """More configuration for a Spark that is started here."""
