"""Changes in Arrow tables, added up."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.delta.segment import Part
from spark_trickle.delta.views import KEPT, beside_names
from spark_trickle.storage.records import WEIGHT


def of_view(rows: pa.Table, view: Part) -> pa.Table:
    """The delta of a view, out of the rows that have it beside them."""
    names = [column.name for column in view.columns]
    rows = rows.filter(rows.column(KEPT)).select([*beside_names(view), WEIGHT])
    return net(rows.rename_columns([*names, WEIGHT]), names)


def net(rows: pa.Table, columns: list[str]) -> pa.Table:
    """The changes of some columns, equal rows added up, without those that cancel out."""
    if not columns:
        total = sum(rows.column(WEIGHT).to_pylist())
        return pa.table({WEIGHT: pa.array([total] if total else [], pa.int64())})
    rows = rows.select([*columns, WEIGHT])
    if any(pa.types.is_nested(item.type) for item in rows.schema):
        return rows
    few = rows.num_rows < 10_000  # threads cost more than they give
    summed = rows.group_by(columns, use_threads=not few).aggregate([(WEIGHT, "sum")])
    summed = summed.rename_columns([*columns, WEIGHT])
    return summed.filter(pc.not_equal(summed.column(WEIGHT), 0))
