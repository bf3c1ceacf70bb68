"""Settings: read once when a lake is opened, then constant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial


@dataclass(frozen=True)
class Settings:
    """What can be tuned; the defaults suit one machine and many small changes."""

    author: str | None = None
    """Who commits: kept with every version."""
    inline_row_limit: int = 1_000
    """Writes up to this many rows go into the catalog and start no Spark write."""
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
    cache_bytes: int = 1 << 30
    """Decoded columns kept in memory; one cache for all lakes of a process, the newest lake sets it."""
    local_rows: int = 500_000
    """A delta that reads no more rows than this is computed in this process where that is proven to
    be Spark's answer; 0: always on Spark."""
    fast_path_bytes: int = 64 << 20
    """Groups of a stream table that are folded at commit: past this much memory it is not."""
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
