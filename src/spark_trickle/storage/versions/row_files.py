"""Staged rows and deaths that are too many for the catalog, written into Parquet files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.errors import InternalError
from spark_trickle.storage.catalog import alterations
from spark_trickle.storage.catalog.structure import VISIBLE
from spark_trickle.storage.faults import reach
from spark_trickle.storage.files import parquet, positions
from spark_trickle.storage.manifest.file_list import found_in
from spark_trickle.storage.manifest.pieces import DeleteRow
from spark_trickle.storage.records import FILE_ROW_ID, ROW_ID, ScanPlan, Table
from spark_trickle.storage.versions import deaths
from spark_trickle.storage.versions.staging import Owned, Staged, StagedFile
from spark_trickle.storage.versions.state import WritableCatalog

ROWS_PER_FILE = 1024 * 1024
"""Of many rows so many are sorted, encoded and written at a time."""


def in_files(
    table: Table, staged: Staged, new_file: Callable[[], str], new_id: Callable[[], int]
) -> Staged:
    """All staged rows in Parquet files: new rows in some, rows that keep their ids in others."""
    rows = alterations.concat(staged.rows, table)
    ids = rows.column(ROW_ID)
    files = list(staged.files)
    for kept in (False, True):
        chosen = pc.greater_equal(ids, 0) if kept else pc.less(ids, 0)
        count = pc.sum(chosen).as_py() or 0
        part = rows if count == rows.num_rows else rows.filter(chosen)
        for piece in _pieces(table, part) if count else ():
            files.append(_written(table, piece, kept, new_file(), new_id()))
    return replace(staged, rows=(), files=tuple(files))


def _pieces(table: Table, rows: pa.Table) -> Iterator[pa.Table]:
    """The rows in the order of the key, a file's worth at a time: no more is copied at once."""
    keys = [(str(c.id), "ascending") for n in table.sort_key if (c := table.column(n))]
    order = pc.sort_indices(rows, sort_keys=keys) if keys else None
    for start in range(0, rows.num_rows, ROWS_PER_FILE):
        if order is None:
            yield rows.slice(start, ROWS_PER_FILE)
        else:
            yield rows.take(order.slice(start, ROWS_PER_FILE))


def deaths_in_files(
    catalog: WritableCatalog,
    table: Table,
    plan: ScanPlan | None,
    staged: Staged,
    owned: Owned,
) -> Staged:
    """Staged deaths in delete files, before anybody has to wait; ``plan``: the table at the base.

    Files without a living row stay as they are: they end.
    """
    base = 0 if plan is None else plan.version
    known = found_in(plan, staged.dead)
    there = {i: (f.path, f.rows, f.deleted) for i, f in known.items()}
    there |= {f.id: (f.facts.path, f.facts.rows, positions.EMPTY) for f in staged.files}
    earlier = earlier_files(catalog, table, base)
    guess = catalog.version() + 1
    made, dead = {}, {}
    for number, found in staged.dead.items():
        path, rows, gone = there.get(number, ("", 0, positions.EMPTY))
        new = positions.minus(found, gone)
        if not path or not len(new) or len(new) == rows:
            dead[number] = found
            continue
        before = deaths.filed(catalog.planner, earlier.get(number, ()), table, base)
        place = (path, deaths.new_path(table))
        owned.add(place[1])
        made[number] = deaths.ahead(table, place, new, before, guess)
        reach("delete-file-written")
    return replace(staged, dead=dead, written={**staged.written, **made})


def earlier_files(
    catalog: WritableCatalog, table: Table, version: int
) -> dict[int, list[DeleteRow]]:
    """The delete files of a version by data file."""
    result: dict[int, list[DeleteRow]] = defaultdict(list)
    with catalog.reading() as connection:
        for row in catalog.planner.delete_rows(connection, table, VISIBLE, (version, version)):
            result[row.file].append(row)
    return result


def _written(table: Table, rows: pa.Table, kept: bool, path: str, number: int) -> StagedFile:
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
