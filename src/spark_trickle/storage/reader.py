"""Reads plans with pyarrow: for small tables, for pre-images of few rows, and for tests."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from spark_trickle.storage.records import ChangePlan, ScanPlan


def read_scan(
    plan: ScanPlan, columns: Sequence[str] | None = None, row_ids: bool = False
) -> pa.Table:
    """The rows of a plan as one Arrow table; with ``row_ids`` also the column ``ROW_ID``."""
    raise NotImplementedError


def read_changes(plan: ChangePlan, row_ids: bool = False) -> pa.Table:
    """The rows of a change plan with ``WEIGHT``, not consolidated."""
    raise NotImplementedError
