"""TopK: the first rows of a query, kept with a reserve of rows behind them.

Law: the reserve R holds the first m rows of the child, m >= offset + limit or R is the whole child.
A change behind the last row of R cannot touch the result while R holds offset + limit rows; a
change at or before it is applied to R itself. The child may have more rows that equal the last one
than R: those are behind it. R is read from the query again only when it runs dry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_trickle.delta.reserve import capacity


@dataclass(frozen=True)
class RankedRow:
    """A row of the reserve or of the child's delta; entries come in the TopK's order."""

    row: int
    """The position of the row in the caller's table."""
    kept: int
    """How often the reserve holds the row."""
    change: int
    """The weight of the row in the child's delta."""


@dataclass(frozen=True)
class TopKChange:
    """Weights by row: what changes in the reserve and in the result."""

    reserve: dict[int, int]
    result: dict[int, int]
    whole: bool
    """Whether the reserve still is the whole child."""


def advance(
    entries: Sequence[RankedRow], limit: int, offset: int, *, whole: bool
) -> TopKChange | None:
    """Apply the delta to the reserve; None when the reserve has run dry and must be read again.

    Raises ValueError when a row is deleted that was not there.
    """
    in_range = list(entries) if whole else _up_to_last_kept(entries)
    counts: list[tuple[int, int, int]] = []
    room, dropped = capacity(limit, offset), False
    for entry in in_range:
        after = entry.kept + entry.change
        if after < 0 and not whole and entry is in_range[-1]:
            after = 0
        if after < 0:
            raise ValueError("a row was deleted that the reserve does not hold")
        taken = min(after, room)
        dropped = dropped or taken < after
        room -= taken
        counts.append((entry.row, entry.kept, taken))
    held = sum(taken for _, _, taken in counts)
    still_whole = whole and not dropped
    if held < offset + limit and not still_whole:
        return None
    reserve = {row: taken - kept for row, kept, taken in counts if taken != kept}
    before = window([(row, kept) for row, kept, _ in counts], limit, offset)
    after_rows = window([(row, taken) for row, _, taken in counts], limit, offset)
    changed = {row: after_rows.get(row, 0) - before.get(row, 0) for row in before | after_rows}
    return TopKChange(reserve, {row: n for row, n in changed.items() if n}, still_whole)


def window(counts: Sequence[tuple[int, int]], limit: int, offset: int) -> dict[int, int]:
    """How often each row stands between ``offset`` and ``offset + limit``; rows come in order."""
    found: dict[int, int] = {}
    place = 0
    for row, count in counts:
        inside = min(place + count, offset + limit) - max(place, offset)
        if inside > 0:
            found[row] = inside
        place += count
    return found


def _up_to_last_kept(entries: Sequence[RankedRow]) -> list[RankedRow]:
    last = max((i for i, entry in enumerate(entries) if entry.kept), default=-1)
    return list(entries[: last + 1])
