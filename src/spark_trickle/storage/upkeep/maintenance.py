"""Housekeeping: compaction, expiry, removal of files nobody needs. Each safe beside writers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from spark_trickle.errors import CatalogError, InvalidDataError, ReadOnlyError
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.catalog.database import Connection, quoted
from spark_trickle.storage.catalog.structure import resolve, version_range
from spark_trickle.storage.faults import reach
from spark_trickle.storage.files.filesystem import FileSystem, as_folder
from spark_trickle.storage.manifest import distinct
from spark_trickle.storage.records import Table
from spark_trickle.storage.upkeep.compaction import Compacted, compact
from spark_trickle.storage.upkeep.rewriting import Executors
from spark_trickle.storage.versions import deaths, preimages

__all__ = ["Compacted", "compact", "compact_all", "expire", "remove_orphans"]

_OF_TABLES = ("table", "column_tag", "sort_info", "partition_info")
_PER_TABLE = (
    "column",
    "table_stats",
    "table_column_stats",
    "schema_versions",
    "inlined_data_tables",
)
"""Columns that have ended stay: files have them under their ids and names, which must not pass for those
of others, and inlined rows are read by them."""


def compact_all(catalog: Catalog, executors: Executors | None = None) -> list[Compacted]:
    """Compact every table; one that cannot be read does not keep the others from it."""
    done = []
    for table in catalog.tables():
        try:
            found = compact(catalog, table, executors=executors)
        except ReadOnlyError:
            raise  # as true of the others
        except (CatalogError, InvalidDataError) as problem:
            found = Compacted(catalog.version(), problem=problem)
        done.append(replace(found, table=str(table)))
    return done


def expire(
    catalog: Catalog, *, keep_from: int | None = None, older_than: float | None = None
) -> int:
    """Forget versions below ``keep_from`` that are older than the retention; the oldest one left.

    ``older_than``: the retention in seconds, if not that of the settings. The newest version
    stays in any case. Files that only forgotten versions need are scheduled for removal.
    """
    seconds = catalog.settings.retention_seconds if older_than is None else older_than
    with catalog.writing() as connection:
        cut = _cut(connection, keep_from, time.time() - seconds)
        if cut is not None:
            _forget_versions(connection, cut, catalog.files)
            reach("expiry-before-commit")
    reach("expiry-after-commit")
    oldest = catalog.oldest_version()
    with catalog.writing() as connection:
        preimages.forget(connection, oldest)
    return oldest


def oldest_kept(
    catalog: Catalog, *, keep_from: int | None = None, older_than: float | None = None
) -> int:
    """The version that ``expire`` would leave as the oldest."""
    seconds = catalog.settings.retention_seconds if older_than is None else older_than
    with catalog.reading() as connection:
        cut = _cut(connection, keep_from, time.time() - seconds)
    return catalog.oldest_version() if cut is None else cut


def _cut(connection: Connection, keep_from: int | None, before: float) -> int | None:
    """The oldest version to keep, or None if all are kept."""
    oldest, newest = version_range(connection)
    number = oldest
    while number < newest and (keep_from is None or number < keep_from):
        rows = connection.execute(
            "SELECT snapshot_id, snapshot_time FROM ducklake_snapshot WHERE snapshot_id >= ? "
            "ORDER BY snapshot_id LIMIT 1000",
            (number,),
        )
        for number, when in rows:
            if number == newest or (keep_from is not None and number >= keep_from):
                break
            if _seconds(when) >= before:
                return None if number == oldest else int(number)
    return None if number == oldest else int(number)


def _seconds(when: str | datetime) -> float:
    moment = datetime.fromisoformat(when) if isinstance(when, str) else when
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _forget_versions(connection: Connection, cut: int, files: FileSystem) -> None:
    for kind in ("snapshot", "snapshot_changes"):
        connection.execute(f"DELETE FROM ducklake_{kind} WHERE snapshot_id < ?", (cut,))
    reach("expiry-marked")
    places = _places(connection, files)
    for number, table_id, path, relative in connection.execute(
        "SELECT data_file_id, table_id, path, path_is_relative FROM ducklake_data_file "
        "WHERE end_snapshot <= ?",
        (cut,),
    ):
        table = places[table_id]
        deaths.forget_file(connection, table, number, resolve(path, relative, table.location))
    for number, table_id, path, relative in connection.execute(
        "SELECT delete_file_id, table_id, path, path_is_relative FROM ducklake_delete_file "
        "WHERE end_snapshot <= ?",
        (cut,),
    ):
        place = resolve(path, relative, places[table_id].location)
        deaths.schedule_removal(connection, number, place)
        connection.execute("DELETE FROM ducklake_delete_file WHERE delete_file_id = ?", (number,))
    for table_id in places:
        _forget_inlined(connection, table_id, cut)
    _forget_structure(connection, cut)


def _places(connection: Connection, files: FileSystem) -> dict[int, Table]:
    """Every table that was ever there, for the folder of its files."""
    rows = connection.execute(
        "SELECT t.table_id, t.path, t.path_is_relative, s.path, s.path_is_relative, t.table_name "
        "FROM ducklake_table t JOIN ducklake_schema s ON s.schema_id = t.schema_id"
    )
    result = {}
    for number, path, relative, schema_path, schema_relative, name in rows:
        above = as_folder(resolve(schema_path, schema_relative, files.root))
        folder = as_folder(resolve(path, relative, above))
        result[number] = Table(number, "", name, (), location=folder, files=files)
    return result


def _forget_inlined(connection: Connection, table_id: int, cut: int) -> None:
    """Rows nobody can see any more, and tables of rows that an older structure left empty."""
    rows = connection.execute(
        "SELECT table_name, schema_version FROM ducklake_inlined_data_tables WHERE table_id = ? "
        "ORDER BY schema_version DESC",
        (table_id,),
    )
    for i, (name, schema_version) in enumerate(rows):
        connection.execute(f"DELETE FROM {quoted(name)} WHERE end_snapshot <= ?", (cut,))
        if i and not connection.execute(f"SELECT 1 FROM {quoted(name)} LIMIT 1"):
            connection.execute(f"DROP TABLE {quoted(name)}")
            connection.execute(
                "DELETE FROM ducklake_inlined_data_tables WHERE table_id = ? AND schema_version = ?",
                (table_id, schema_version),
            )


def _forget_structure(connection: Connection, cut: int) -> None:
    for table_id, alive in connection.execute(
        "SELECT table_id, max(CASE WHEN end_snapshot IS NULL OR end_snapshot > ? THEN 1 ELSE 0 END) "
        "FROM ducklake_table GROUP BY table_id",
        (cut,),
    ):
        if alive:
            _forget_old_parts(connection, table_id, cut)
        else:
            _forget_table(connection, table_id)
    connection.execute("DELETE FROM ducklake_schema WHERE end_snapshot <= ?", (cut,))
    connection.execute("DELETE FROM ducklake_view WHERE end_snapshot <= ?", (cut,))


def _forget_old_parts(connection: Connection, table_id: int, cut: int) -> None:
    for kind in _OF_TABLES:
        connection.execute(
            f"DELETE FROM ducklake_{kind} WHERE table_id = ? AND end_snapshot <= ?",
            (table_id, cut),
        )
    connection.execute(
        "DELETE FROM ducklake_tag WHERE object_id = ? AND end_snapshot <= ?", (table_id, cut)
    )


def _forget_table(connection: Connection, table_id: int) -> None:
    for (name,) in connection.execute(
        "SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = ?", (table_id,)
    ):
        connection.execute(f"DROP TABLE {quoted(name)}")
    connection.execute(f"DROP TABLE IF EXISTS ducklake_inlined_delete_{table_id}")
    for kind in (*_OF_TABLES, *_PER_TABLE):
        connection.execute(f"DELETE FROM ducklake_{kind} WHERE table_id = ?", (table_id,))
    connection.execute("DELETE FROM ducklake_tag WHERE object_id = ?", (table_id,))
    distinct.forget(connection, table_id)


def remove_orphans(catalog: Catalog, *, grace_seconds: float = 24 * 3600.0) -> int:
    """Remove files that no version needs and that are older than the grace period; how many.

    The grace period is for readers that planned earlier and for writers that have not committed.
    CatalogError, and nothing is removed, if a file that a version needs is not found.
    """
    before = time.time() - grace_seconds
    files = catalog.files
    with catalog.reading() as connection:
        earlier = live_paths(connection, files)
    found = files.list(files.root)
    with catalog.reading() as connection:  # after the listing: what was committed since is known
        live = live_paths(connection, files)
        scheduled = _scheduled(connection, files)
    _must_be_found(files, earlier & live, [path for path, _ in found])
    due = [s for s in scheduled if s.when < before]
    removed = _remove_scheduled(catalog, due, live)
    # A file may have several names: what a link leads to is as much alive as what it is called here.
    known = {files.identity(path) for path in live | {s.path for s in scheduled}}
    for path, when in found:
        if when < before and _ours(path) and files.identity(path) not in known:
            removed += files.remove(path)
            reach("removal-half-done")
    return removed


def _must_be_found(files: FileSystem, live: set[str], found: Sequence[str]) -> None:
    """A listing without the files that must be in it is of another place, or the lake is damaged."""
    inside = {path for path in live if path.startswith(files.root)}
    lost = sorted(inside.difference(found))
    if lost:
        raise CatalogError(
            f"nothing was removed: {len(lost)} of {len(inside)} files that versions of the lake "
            f"need are not in {files.root}, among them {lost[0]}",
            hint="is this the lake's own folder, and is it whole? Restore what is missing first",
        )


def _ours(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return name.endswith((".parquet", ".crc")) or name == "_SUCCESS" or "/_temporary/" in path


@dataclass(frozen=True)
class _Scheduled:
    """A file that waits for its removal."""

    stored: str
    """Its path as the catalog has it."""
    path: str
    when: float


def _scheduled(connection: Connection, files: FileSystem) -> list[_Scheduled]:
    rows = connection.execute(
        "SELECT path, path_is_relative, schedule_start FROM ducklake_files_scheduled_for_deletion"
    )
    return [
        _Scheduled(path, resolve(path, relative, files.root), _seconds(when))
        for path, relative, when in rows
    ]


def _remove_scheduled(catalog: Catalog, due: Sequence[_Scheduled], live: set[str]) -> int:
    needed = next((s.path for s in due if s.path in live), None)
    if needed is not None:
        raise CatalogError(f"the file {needed} is scheduled for removal, but a version needs it")
    removed = 0
    for scheduled in due:
        removed += catalog.files.remove(scheduled.path)
        reach("removal-half-done")
    if due:
        with catalog.writing() as connection:
            connection.execute_many(
                "DELETE FROM ducklake_files_scheduled_for_deletion WHERE path = ?",
                [(scheduled.stored,) for scheduled in due],
            )
    return removed


def live_paths(connection: Connection, files: FileSystem) -> set[str]:
    """The files that some version needs."""
    places = _places(connection, files)
    result = set()
    for kind in ("data_file", "delete_file"):
        for table_id, path, relative in connection.execute(
            f"SELECT table_id, path, path_is_relative FROM ducklake_{kind}"
        ):
            result.add(resolve(path, relative, places[table_id].location))
    return result
