"""How many values a column has, estimated from a few row groups that lie far apart in its table.

What one row group has and no other is what the others may have, too: the estimate is that of Chao and
Lin for samples that are taken once (2012), the row groups being the samples. It needs no rows in random
order: of a column that the table is sorted by, row groups share nothing, and all is scaled up; of one
with few values they share all, and nothing is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_trickle.storage.file_records import spread
from spark_trickle.storage.files import disk, parquet
from spark_trickle.storage.files.row_groups import RowGroup
from spark_trickle.storage.read.column_cache import Taken
from spark_trickle.storage.read.search import Batch
from spark_trickle.storage.records import Column, DataFile, Files, ScanPlan, Table

GROUPS = 4
"""So many row groups are read at most."""


def distinct_values(plan: ScanPlan, column: Column, most: int, taken: Taken) -> int | None:
    """About how many values a column has in the files of a plan, NULL being one.

    None if a row group of it has more bytes than ``most``: footers tell, before any is read.
    """
    chosen = _affordable(_chosen(plan, column), most)
    parts = [part for group in chosen if len(part := group.read(column, taken))]
    total = plan.rows - plan.inlined.num_rows
    return round(estimated(parts, total)) if parts else None


def estimated(parts: Sequence[pa.ChunkedArray], total: int) -> float:
    """The number of values among ``total`` rows, some row groups of which are known."""
    share = min(1.0, sum(map(len, parts)) / max(1, total))
    numbers = _numbers(parts)
    if len(parts) == 1:
        counts = np.bincount(numbers[0])
        return min(len(counts) + _unseen(counts, len(parts[0]), share), max(total, len(counts)))
    values = max(int(each.max()) for each in numbers) + 1
    within = [np.bincount(each, minlength=values) > 0 for each in numbers]
    counts = np.sum(within, axis=0)
    # The value at the edge of a row group goes on in the next one: it stands for no other value.
    edges = sum(bool((counts[marks] == 1).any()) for marks in within)
    return min(values + _unseen(counts, len(parts), share, edges), max(total, values))


def _unseen(counts: np.ndarray, samples: int, share: float, edges: int = 0) -> float:
    """How many values are in none of the samples; ``counts``: in how many of them each value is."""
    once = int(np.count_nonzero(counts == 1)) - edges
    if once <= 0 or share >= 1:
        return 0.0
    twice = int(np.count_nonzero(counts == 2))
    more = samples / (samples - 1) if samples > 1 else 1.0
    return once * once / (2 * twice * more + once * share / (1 - share))


def _numbers(parts: Sequence[pa.ChunkedArray]) -> list[np.ndarray]:
    """Of each part the values as numbers from 0 on: equal ones have equal numbers."""
    chunks = [chunk for part in parts for chunk in part.chunks]
    encoded = pa.chunked_array(chunks).dictionary_encode(null_encoding="encode")
    numbers = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks])
    return np.split(numbers, np.cumsum([len(part) for part in parts])[:-1])


@dataclass(frozen=True)
class _Group:
    """A row group of a file, not read yet."""

    table: Table
    file: DataFile
    footer: Any
    names: dict[int, str]
    group: RowGroup
    bytes: int

    def read(self, column: Column, taken: Taken) -> pa.ChunkedArray:
        """The live values of the column."""
        path = self.file.path
        with (
            disk.reading(path, self.table),
            self.table.files.parquet(path, self.footer) as source,
        ):
            batch = Batch(source, self.file, self.names, [self.group], taken)
            rows = batch.rows([column], batch.living())
        taken.rows += self.group.rows
        return rows.column(0)


def _chosen(plan: ScanPlan, column: Column) -> list[_Group]:
    """Row groups at even distances over the rows of all files; of other files no footer is read."""
    shares: dict[str, tuple[DataFile, list[float]]] = {}
    for file, share in _files(plan):
        shares.setdefault(file.path, (file, []))[1].append(share)
    return [
        g for file, within in shares.values() for g in _groups(plan.table, file, within, column)
    ]


def _groups(
    table: Table, file: DataFile, shares: Sequence[float], column: Column
) -> Iterator[_Group]:
    with disk.reading(file.path, table):
        footer = table.files.footer(file.path)
    names = parquet.names_by_id(footer.schema.to_arrow_schema(), file)
    stored = [names[column.id]] if column.id in names else []
    sizes = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
    places = np.searchsorted(np.cumsum(sizes), np.array(shares) * sum(sizes), side="right")
    for number in dict.fromkeys(places.tolist()):
        group = RowGroup(number, sum(sizes[:number]), sizes[number])
        bytes = parquet.column_bytes(footer, [number], stored)
        yield _Group(table, file, footer, names, group, bytes)


def _files(plan: ScanPlan) -> list[tuple[DataFile, float]]:
    files = plan.files
    if isinstance(files, Files):
        return files.spread(GROUPS)
    points = spread([file.rows for file in files], GROUPS)
    return [(files[place], share) for place, share in points]


def _affordable(groups: Sequence[_Group], most: int) -> list[_Group]:
    """The smaller ones first, as many as there are bytes for."""
    kept: list[_Group] = []
    for group in sorted(groups, key=lambda each: each.bytes):
        most -= group.bytes
        if most < 0:
            break
        kept.append(group)
    return kept
