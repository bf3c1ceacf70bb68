"""Housekeeping: compaction, expiry, removal of files nobody needs. Each safe beside writers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spark_trickle.storage.catalog import Catalog, TableLike
from spark_trickle.storage.records import DataFile, NewFile, Table


@dataclass(frozen=True)
class Rewrite:
    """What a rewriting callback has to do: all rows of ``sources`` into files of ``table``.

    Every row of a source is written, dead ones too, with the columns ``FILE_ROW_ID`` and
    ``FILE_VERSION`` taken over (row_id_start + position and the file's ``begin`` where a source
    lacks them).
    """

    table: Table
    sources: tuple[DataFile, ...]


Rewriter = Callable[[Rewrite], list[NewFile]]


@dataclass(frozen=True)
class Compacted:
    """What compaction did; ``version`` is unchanged when there was nothing to do."""

    version: int
    files_before: int
    files_after: int
    inlined_rows: int


def compact(
    catalog: Catalog,
    table: TableLike,
    *,
    keep_from: int | None = None,
    rewriter: Rewriter | None = None,
) -> Compacted:
    """Merge small files and inlined rows; no version's rows change, nor any change feed."""
    raise NotImplementedError


def expire(
    catalog: Catalog, *, keep_from: int | None = None, older_than: float | None = None
) -> int:
    """Forget versions below ``keep_from`` and older than the retention; the oldest one left."""
    raise NotImplementedError


def remove_orphans(catalog: Catalog, *, grace_seconds: float = 24 * 3600.0) -> int:
    """Remove files that no version needs and that are older than the grace period; how many."""
    raise NotImplementedError
