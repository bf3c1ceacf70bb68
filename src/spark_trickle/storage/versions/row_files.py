"""Staged rows that are too many for the catalog, written into Parquet files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from spark_trickle.errors import InternalError
from spark_trickle.storage.catalog import alterations
from spark_trickle.storage.faults import reach
from spark_trickle.storage.files import parquet
from spark_trickle.storage.files.values import can_inline, has_texts
from spark_trickle.storage.records import FILE_ROW_ID, ROW_ID, Table
from spark_trickle.storage.versions.staging import Staged, StagedFile


def too_many(table: Table, staged: Staged, limit: int) -> bool:
    """Whether the staged rows do not go into the catalog."""
    count = sum(rows.num_rows for rows in staged.rows)
    few = count <= limit and can_inline(table.columns)
    return bool(count) and not (few and all(has_texts(r, table.columns) for r in staged.rows))


def in_files(
    table: Table, staged: Staged, new_file: Callable[[], str], new_id: Callable[[], int]
) -> Staged:
    """All staged rows in Parquet files: new rows in one, rows that keep their ids in another."""
    rows = alterations.concat(staged.rows, table)
    ids = rows.column(ROW_ID)
    files = list(staged.files)
    for kept in (False, True):
        chosen = pa.compute.greater_equal(ids, 0) if kept else pa.compute.less(ids, 0)
        part = rows.filter(chosen)
        if part.num_rows:
            files.append(_written(table, part, kept, new_file(), new_id()))
    return replace(staged, rows=(), files=tuple(files))


def _written(table: Table, rows: pa.Table, kept: bool, path: str, number: int) -> StagedFile:
    keys = [(str(c.id), "ascending") for n in table.sort_key if (c := table.column(n))]
    if keys:
        rows = rows.sort_by(keys)
    schema = parquet.file_schema(table.columns, row_ids=kept)
    arrays = [rows.column(str(c.id)) for c in table.columns]
    if kept:
        arrays.append(rows.column(ROW_ID))
    parquet.write(table.files, path, pa.Table.from_arrays(arrays, schema=schema))
    reach("file-written")
    facts = parquet.with_nans(parquet.facts(path, table.columns, table), table.columns, rows)
    if facts.has_row_ids != kept:
        raise InternalError(f"{path} lacks the column {FILE_ROW_ID}")
    return StagedFile(number, facts)
