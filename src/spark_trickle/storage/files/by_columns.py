"""Arrow rows grouped and sorted by columns of any name.

Arrow takes a name for the path to a field: ``.b`` is its word for ``b``. So columns go by their places here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def grouped(
    rows: pa.Table,
    names: Sequence[str],
    calls: Sequence[tuple[Any, str]] = (),
    use_threads: bool = True,
) -> pa.Table:
    """``group_by(names).aggregate(calls)``; what is aggregated has names of ours."""
    keys = [str(place) for place in range(len(names))]
    own = [column for column, _ in calls if column]
    plain = rows.select([*names, *own]).rename_columns([*keys, *own])
    found = plain.group_by(keys, use_threads=use_threads).aggregate(list(calls))
    return found.rename_columns([*names, *found.column_names[len(keys) :]])


def ordered(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """``sort_by(names)``, ascending."""
    keys = [str(place) for place in range(len(names))]
    plain = rows.select(list(names)).rename_columns(keys)
    return rows.take(pc.sort_indices(plain, sort_keys=[(key, "ascending") for key in keys]))
