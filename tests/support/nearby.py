"""Deltas over just the rows near the changes, run on DuckDB: they must be the deltas themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from spark_trickle.compile import CompiledQuery, PartDelta
from spark_trickle.delta.segment import Part
from spark_trickle.delta.views import viewed
from spark_trickle.ir.types import Side
from spark_trickle.maintain.gather.near_views import NearViews
from spark_trickle.maintain.gather.nearby import AFTER, BEFORE, columns_read, nearby
from spark_trickle.maintain.refresh import locally
from spark_trickle.prove.plans import NotLocal
from spark_trickle.settings import Limits
from spark_trickle.storage.read.search import Restriction, meets
from support.delta_law import Laboratory, table_names
from support.queries import Data, Row

NEAR = Limits().near_rows


@dataclass
class TableFinder:
    """Finds rows in Arrow tables, in an order that chance decides; counts what it left out."""

    tables: dict[str, pa.Table]
    chance: Random
    left_out: int = 0

    def cost(self, source: str) -> int:
        return self.chance.randrange(3)

    def expected(self, source: str, restriction: Restriction) -> float:
        return 0 if restriction or self.chance.random() < 0.3 else 9_000

    def find(self, source: str, restrictions: Sequence[Restriction], _most: int = 0) -> pa.Table:
        rows = self.tables[source]
        found = rows.filter(meets(rows, restrictions))
        self.left_out += rows.num_rows - found.num_rows
        return found


def wrong_nearby(
    laboratory: Laboratory, query: CompiledQuery, data: Data, seed: int, cut: int = 0
) -> str | None:
    """After ``laboratory.check``: the first part whose delta differs over the rows nearby."""
    changed = [name for name, delta in data.delta.items() if +delta or -delta]
    inserts = [name for name in changed if not -data.delta[name]]
    known = set(changed)
    for delta in query.delta(changed, inserts).parts:
        view = query.result if viewed(query.result) == delta.part.name else None
        found = _delta_nearby(laboratory, delta, known, Random(seed), view, cut)
        for part, rows in found.items():
            if rows != _stored(laboratory, part):
                return f"{part}: {rows} instead of {_stored(laboratory, part)}"
        known.add(delta.part.name)
    return None


def _stored(laboratory: Laboratory, part: str) -> Counter[Row]:
    table = table_names(part, Side.DELTA).sql("duckdb")
    return Counter(laboratory.connection.execute(f"SELECT * FROM {table}").fetchall())


def _delta_nearby(
    laboratory: Laboratory,
    delta: PartDelta,
    known: set[str],
    chance: Random,
    view: Part | None,
    cut: int,
) -> dict[str, Counter[Row]]:
    """By part: the delta of one, and of the view that comes beside it."""
    connection = laboratory.connection

    def rows(source: str, version: Side) -> pa.Table:
        table = table_names(source, version).sql("duckdb")
        return connection.execute(f"SELECT * FROM {table}").to_arrow_table()

    read = columns_read(delta)
    if not all(read.values()):
        return {}
    tables = {
        source: rows(source, Side.AFTER if source in known else Side.BEFORE).select(sorted(columns))
        for source, columns in read.items()
    }
    finder = TableFinder(tables, chance)
    deltas = {name: rows(name, Side.DELTA) for name in known}
    near = nearby(read, delta.needs, deltas, finder, NEAR, cut)
    if near is None:
        assert max(table.num_rows for table in tables.values()) > NEAR, "given up for no reason"
        return {}
    laboratory.left_out += finder.left_out

    def show(source: str, rows: pa.Table) -> str:
        name = exp.Identifier(this=f"near {source}", quoted=True)
        laboratory.show(name.sql("duckdb"), rows)
        for version, mark in ((Side.BEFORE, BEFORE), (Side.AFTER, AFTER)):
            if mark not in rows.column_names and near[source].changed:
                continue  # only its delta is read
            some = rows.filter(pc.equal(rows.column(mark), 1)) if near[source].changed else rows
            laboratory.show(near_name(source, version).sql("duckdb"), some)
        return str(name.this)

    views = NearViews(near, show)

    def name(source: str, version: Side) -> exp.Table:
        if version is Side.DELTA and source not in near:
            return table_names(source, version)
        return exp.Table(this=exp.Identifier(this=views.view(source, version), quoted=True))

    query = views.complete(delta.query(name, nearby=True, view=view))
    found = connection.execute(query.sql("duckdb")).fetchall()
    _check_here(laboratory, delta, view, locally.Near(near, deltas), Counter(found))
    return _by_part(found, delta.part, view)


def _check_here(
    laboratory: Laboratory,
    delta: PartDelta,
    view: Part | None,
    near: locally.Near,
    found: Counter[Row],
) -> None:
    """In this process, row by row and by columns, it must be the same."""
    plan, names = delta.exact(view, ansi=True)
    if isinstance(plan, NotLocal):
        return
    tried = [locally.run(plan, names, near.read, rows) for rows in (0, locally.MANY)]
    assert len({here is None for here in tried}) == 1, "one way fails, the other does not"
    for here in tried:
        if here is not None:
            laboratory.local += 1
            mine = Counter(zip(*(column.to_pylist() for column in here.columns), strict=True))
            assert mine == found, f"in this process: {mine}, by DuckDB: {found}"


def near_name(source: str, version: Side) -> exp.Table:
    """Where the rows near the changes are, after ``wrong_nearby``."""
    if version is Side.DELTA:
        return table_names(source, version)
    return exp.Table(this=exp.Identifier(this=f"near {source}@{version.value}", quoted=True))


def _by_part(rows: list[Row], part: Part, view: Part | None) -> dict[str, Counter[Row]]:
    if view is None:
        return {part.name: Counter(rows)}
    own = len(part.columns)
    beside: Counter[Row] = Counter()
    for row in rows:
        if row[-2]:
            beside[row[own:-2]] += row[-1]
    shown = {(*row, weight): 1 for row, weight in beside.items() if weight}
    mine = Counter((*row[:own], row[-1]) for row in rows)
    return {part.name: mine, view.name: Counter(shown)}
