"""Upkeep after commits: what many small ones leave behind is put into files, a bounded piece at a time.

Law: after any number of commits a table has no more than about ``Settings.catalog_rows`` rows in the
catalog and ``Settings.small_files`` small files. Who writes pays for it: a look at the catalog now
and then, and now and then a compaction of at most ``MOST_BYTES``. Larger work is for the scheduler.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress

from spark_trickle.errors import TrickleError
from spark_trickle.storage.catalog.catalog import Catalog
from spark_trickle.storage.catalog.database import Connection, quoted
from spark_trickle.storage.upkeep.compaction import SMALL_BYTES, compact
from spark_trickle.storage.versions.staging import Staged

MOST_BYTES = 4 * SMALL_BYTES
LOOKS = 8
"""So many looks are taken while a table fills up to a bound."""


class Tender:
    """Told of the commits of one process."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._rows_bound = catalog.settings.catalog_rows
        self._files_bound = catalog.settings.small_files
        self._lock = threading.Lock()
        self._since: dict[int, tuple[int, int]] = {}
        """Rows and files that this process added to a table since it last looked."""

    def after_commit(self, written: Mapping[int, Staged]) -> None:
        for number in self._to_look_at(written):
            # What was to be committed is, whatever becomes of this; the next look is not far.
            with suppress(TrickleError, OSError):
                with self._catalog.reading() as connection:
                    over = self._over(connection, number)
                if over:
                    table = self._catalog.structure(self._catalog.version()).by_id(number)
                    if table is not None:
                        compact(self._catalog, table, MOST_BYTES)

    def _to_look_at(self, written: Mapping[int, Staged]) -> list[int]:
        due = []
        with self._lock:
            for number, staged in written.items():
                if number < 0 or staged.empty:
                    continue
                rows, files = self._since.get(number, (0, 0))
                rows += staged.kept_rows
                files += len(staged.files)
                enough = (
                    rows * LOOKS > self._rows_bound > 0 or files * LOOKS > self._files_bound > 0
                )
                if enough:
                    due.append(number)
                self._since[number] = (0, 0) if enough else (rows, files)
        return due

    def _over(self, connection: Connection, table: int) -> bool:
        """Whether a table has more rows in the catalog, or small files, than it should."""
        names = connection.execute(
            "SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = ?", (table,)
        )
        counts = [connection.execute(f"SELECT count(*) FROM {quoted(n)}")[0][0] for (n,) in names]
        if sum(counts) > self._rows_bound > 0:
            return True
        files = connection.execute(
            "SELECT count(*) FROM ducklake_data_file WHERE table_id = ? AND end_snapshot IS NULL "
            "AND file_size_bytes < ?",
            (table, SMALL_BYTES),
        )[0][0]
        return bool(files > self._files_bound > 0)
