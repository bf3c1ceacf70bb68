"""A delta applied to the table that stores it: lost rows are found and deleted, gained rows inserted.

Law: contents(after) = contents(before) + delta. A lost row must be there, as often as its weight
says; if it is not, the contents were wrong before, and the refresh stops.

Of stored sums: of a group with n rows, 0 <= every count <= n; with no rows all sums are 0, and a group
with a key is gone. A state without a key is one row. Anything else was wrong before the delta came: a
row was taken away that was not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.compile import CompiledQuery
from spark_trickle.delta.segment import RESULT, Part, Strategy
from spark_trickle.delta.support import FullOnly
from spark_trickle.errors import InvariantError
from spark_trickle.ir.nodes import Aggregate, Distinct, Filter, Node, Project, Scan
from spark_trickle.maintain.apply.locating import (
    Found,
    find_by_key,
    find_rows,
    find_unique,
    row_keys,
    searchable,
    weights,
)
from spark_trickle.maintain.records.streams import StreamTable
from spark_trickle.spark.writing.spill import Rows, Spill
from spark_trickle.storage.read.search import Search
from spark_trickle.storage.records import WEIGHT, ScanPlan, Table, TableName
from spark_trickle.storage.versions.transaction import Transaction

if TYPE_CHECKING:
    from spark_trickle.spark.run import Run

HINT = "the contents are not what the frontier says: run repair_stream_table"


@dataclass(frozen=True)
class SumColumns:
    """The columns of a table that stores sums over groups."""

    rows: str
    """The number of rows of the group."""
    counts: tuple[str, ...]
    sums: tuple[str, ...]
    """All others that are 0 where there are no rows."""
    keyed: bool

    def wrong(self, rows: pa.Table) -> int:
        """How many of some new states cannot be."""
        count = rows.column(self.rows)
        found = [pc.less(count, 0)]
        for name in self.counts:
            found += [pc.less(rows.column(name), 0), pc.greater(rows.column(name), count)]
        empty = pc.equal(count, 0)
        if self.keyed:
            found.append(empty)
        for name in self.sums:
            left = pc.not_equal(rows.column(name), pa.scalar(0, rows.column(name).type))
            found.append(pc.and_(empty, left))
        wrong = found[0]
        for test in found[1:]:
            wrong = pc.or_kleene(wrong, test)
        return pc.sum(wrong).as_py() or 0

    def wrong_sql(self) -> str:
        """The same test for Spark, of one row."""
        rows = _quoted(self.rows)
        tests = [f"{rows} {'<=' if self.keyed else '<'} 0"]
        tests += [f"{_quoted(c)} < 0 OR {_quoted(c)} > {rows}" for c in self.counts]
        tests += [f"({rows} = 0 AND {_quoted(s)} <> 0)" for s in self.sums]
        return f"coalesce({' OR '.join(tests)}, false)"


def one_row(table: Table, found: int) -> None:
    """InvariantError if an aggregate without a key is not stored as one row."""
    if found != 1:
        raise InvariantError(f"{table} should be one row, and is {found}", hint=HINT)


def breach(table: Table, count: int) -> InvariantError:
    """A delta takes away what is not there."""
    return InvariantError(
        f"{count} groups of {table} would lose rows that they do not have", hint=HINT
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class StoredPart:
    """A table that stores a part, and how its rows are found again."""

    table: Table
    keys: tuple[str, ...]
    """Columns that few rows share; files are sorted by them."""
    unique: bool = False
    """Whether no two rows share a key, so that the key alone finds a row."""
    state: SumColumns | None = None
    """Set where the table holds sums over groups of rows."""
    single: bool = False
    """Whether the table is one row: an aggregate without a key."""

    @property
    def by(self) -> tuple[str, ...]:
        """The columns a lost row is found by."""
        return self.keys if self.unique else tuple(column.name for column in self.table.columns)


@dataclass(frozen=True)
class Applied:
    inserted: int = 0
    deleted: int = 0


def apply_delta(run: Run, tx: Transaction, stored: StoredPart, delta: Rows) -> Applied:
    """Stage the delta in the transaction."""
    if isinstance(delta, Spill):
        deleted = _delete_by_query(run, tx.scan(stored.table), stored, delta)
        wrong = None if stored.state is None else stored.state.wrong_sql()
        inserted, refused = run.insert_spilled(stored.table, delta, wrong)
        if refused:
            raise breach(stored.table, refused)
        return Applied(inserted, deleted)
    weights = delta.column(WEIGHT)
    if stored.unique and pc.max(pc.abs(weights)).as_py() not in (None, 1):
        raise InvariantError(f"rows of {stored.table} are there more than once", hint=HINT)
    lost = delta.filter(pc.less(weights, 0))
    gained = delta.filter(pc.greater(weights, 0))
    if stored.state is not None and gained.num_rows:
        refused = stored.state.wrong(gained)
        if refused:
            raise breach(stored.table, refused)
    deleted = _delete(run, tx, stored, lost) if lost.num_rows else 0
    inserted = tx.insert_rows(stored.table, repeated(gained)) if gained.num_rows else 0
    return Applied(inserted, deleted)


def repeated(rows: pa.Table) -> pa.Table:
    """Each row as often as its weight says, without the weight."""
    weights = rows.column(WEIGHT).to_numpy()
    rows = rows.drop_columns([WEIGHT])
    if (weights == 1).all():
        return rows
    return rows.take(pa.array(np.repeat(np.arange(len(weights)), weights)))


def _delete(run: Run, tx: Transaction, stored: StoredPart, lost: pa.Table) -> int:
    plan = tx.scan(stored.table)
    search = Search(plan, {key: lost.column(key) for key in stored.keys})
    if stored.unique and searchable(search, stored.keys, run.limits):
        return _delete_found(tx, stored, lost, find_unique(run, search, stored.keys, lost))
    if searchable(search, stored.by, run.limits):
        return _delete_found(tx, stored, lost, find_rows(run, search, stored.by, lost))
    if stored.keys and searchable(search, stored.keys, run.limits):
        found = find_by_key(run, search, stored.keys, lost)
        if found is not None:
            unclear = [key in found.unclear for key in row_keys(lost, stored.keys)]
            rest = lost.filter(pa.array(unclear, pa.bool_()))
            clear = lost.filter(pa.array([not each for each in unclear], pa.bool_()))
            deleted = _delete_found(tx, stored, clear, found)
            return deleted + (
                _delete_by_query(run, search.plan, stored, rest) if rest.num_rows else 0
            )
    return _delete_by_query(run, search.plan, stored, lost)


def _delete_found(tx: Transaction, stored: StoredPart, lost: pa.Table, found: Found) -> int:
    if found.strange:
        raise InvariantError(
            f"{found.strange} rows of {stored.table} are there twice, or are not what they were",
            hint=HINT,
        )
    _all_found(stored, found.count, weights(lost, ()).total())
    return tx.delete_rows(stored.table, found.positions, found.row_ids)


def _delete_by_query(run: Run, plan: ScanPlan, stored: StoredPart, lost: Rows) -> int:
    gone, needed = run.locate(plan, stored.by, lost)
    _all_found(stored, gone.rows, needed)
    return run.delete(plan, gone) if needed else 0


def _all_found(stored: StoredPart, found: int, needed: int) -> None:
    if found != needed:
        raise InvariantError(
            f"{needed} rows were to be deleted from {stored.table}, but only {found} are there",
            hint=HINT,
        )


def stored_parts(
    tx: Transaction, stream: StreamTable, compiled: CompiledQuery
) -> dict[str, StoredPart]:
    """The tables of a stream table's parts as the transaction sees them."""
    tables = {segment.part: tx.table(TableName.of(segment.name)) for segment in stream.segments}
    tables[RESULT] = tx.table(TableName.of(stream.name))
    if isinstance(compiled.verdict, FullOnly):
        return {RESULT: StoredPart(tables[RESULT], ())}
    parts = {part.name: part for part in compiled.parts}
    return {
        name: StoredPart(
            tables[name],
            tuple(key.name for key in part.keys),
            _is_unique(part, parts),
            _state_of(part),
            single=_is_single(part, parts),
        )
        for name, part in parts.items()
        if name in tables
    }


def _is_single(part: Part, parts: dict[str, Part]) -> bool:
    """Whether a part is the one row of an aggregate without keys, or made of it row by row."""
    if part.strategy is not Strategy.ALGEBRA:
        return isinstance(part.plan, Aggregate) and not part.plan.keys
    core: Node = part.plan
    while isinstance(core, Project):
        core = core.input
    return isinstance(core, Scan) and core.source in parts and _is_single(parts[core.source], parts)


def _state_of(part: Part) -> SumColumns | None:
    """Which columns of a part are sums over groups, if it is a state of sums."""
    if part.strategy not in (Strategy.ADDITIVE, Strategy.EXTREMUM):
        return None
    assert isinstance(part.plan, Aggregate)
    names = {column.id: column.name for column in part.columns}
    extrema = {column.id for column, _ in part.extrema}
    counts = {column.id for column in part.counts}
    rows, *others = [column.id for column, _ in part.plan.calls if column.id not in extrema]
    return SumColumns(
        names[rows],
        tuple(names[id] for id in others if id in counts),
        tuple(names[id] for id in others if id not in counts),
        keyed=bool(part.keys),
    )


def _is_unique(part: Part, parts: dict[str, Part]) -> bool:
    """Whether the key alone tells the rows of a part apart."""
    if not part.keys:
        return False
    core: Node = part.plan
    while isinstance(core, Project | Filter):
        core = core.input
    if isinstance(core, Scan) and core.source in parts:
        below = parts[core.source]
        return len(below.keys) == len(part.keys) and _is_unique(below, parts)
    return part.strategy is not Strategy.ALGEBRA and isinstance(core, Aggregate | Distinct)
