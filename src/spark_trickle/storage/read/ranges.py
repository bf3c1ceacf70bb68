"""Scans of the rows whose dates or timestamps lie in ranges: by files, by row groups, then row by row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from spark_trickle.storage.records import Condition, Ranges, ScanPlan


def narrowed(plan: ScanPlan, within: Ranges) -> ScanPlan:
    """The plan of the rows that also lie in these ranges; files that can hold none are left out."""
    if not within:
        return plan
    kept = plan
    for name, low, high in within:  # one by one: a column may be in several
        kept = kept.prune({name: (low, high)})
    inlined = kept.inlined.filter(pa.array(inside(kept.inlined, within)))
    return replace(kept, inlined=inlined, within=(*plan.within, *within))


def conditions(within: Ranges) -> Mapping[str, Condition]:
    """What the rows in these ranges meet, and perhaps others."""
    return {name: (low, high) for name, low, high in within}


def inside(rows: pa.Table, within: Ranges) -> np.ndarray:
    """Which rows lie in all ranges."""
    met = np.ones(rows.num_rows, dtype=bool)
    for name, low, high in within:
        column = rows.column(name)
        days = pa.types.is_date32(column.type)
        numbers = column.cast(pa.int32() if days else pa.int64()).cast(pa.int64())
        met &= numbers.is_valid().to_numpy()
        values = numbers.fill_null(0).to_numpy()
        if low is not None:
            met &= values >= low
        if high is not None:
            met &= values <= high
    return met
