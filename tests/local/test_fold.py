"""Changes folded into stored groups = the query computed anew by DuckDB, after every change."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp

from spark_trickle.compile import compile_query
from spark_trickle.delta.fast_path import FastPlan
from spark_trickle.errors import ExecutionError, InvariantError
from spark_trickle.ir.types import WEIGHT, Column, TableSchema
from spark_trickle.local.fold import Fold, Folder, GroupKey, Sums

COLUMNS = {
    "id": ("bigint", pa.int64()),
    "k": ("string", pa.string()),
    "n": ("int", pa.int32()),
    "b": ("bigint", pa.int64()),
    "d": ("decimal(12,2)", pa.decimal128(12, 2)),
    "e": ("decimal(20,4)", pa.decimal128(20, 4)),
    "p": ("boolean", pa.bool_()),
    "v": ("date", pa.date32()),
    "f": ("double", pa.float64()),
}
SCHEMA = pa.schema([(name, type) for name, (_, type) in COLUMNS.items()])
SOURCE = TableSchema(
    "t",
    tuple(
        Column(i, name, exp.DataType.build(text, "spark"))
        for i, (name, (text, _)) in enumerate(COLUMNS.items())
    ),
)
QUERIES = [
    "SELECT k, count(*) AS c, sum(d) AS s, sum(n) AS i, count(d) AS x FROM t GROUP BY k",
    "SELECT count(*) AS c, sum(d) AS s, sum(b) AS i, count(f) AS x FROM t",
    "SELECT p, v, sum(e) AS s FROM t WHERE n > 2 AND (k <> 'a' OR k IS NULL) GROUP BY p, v",
    "SELECT d, count(*) AS c FROM t GROUP BY d",
    "SELECT k, sum(d) AS s FROM t GROUP BY k HAVING sum(d) > 100 AND count(*) > 1",
    "SELECT sum(n) AS s FROM t GROUP BY k, p",
    "SELECT DISTINCT k, p FROM t WHERE v >= DATE '2024-01-02'",
    "SELECT n % 3 AS r, sum(CASE WHEN p THEN d ELSE 0 END) AS s, count_if(n > 5) AS c FROM t GROUP BY n % 3",
    "SELECT k, sum(d * 2 + n) AS s, sum(n) FILTER (WHERE p) AS i FROM t GROUP BY k",
    "SELECT k, bool_and(p) AS a, bool_or(p) AS o FROM t GROUP BY k",
    "SELECT coalesce(k, 'none') AS k, sum(b) AS s FROM t WHERE n BETWEEN 1 AND 8 OR n IN (9, NULL) GROUP BY 1",
]


def plan_of(query: str) -> FastPlan:
    plan = compile_query(query, {"t": SOURCE}).fast_path
    assert isinstance(plan, FastPlan), plan
    return plan


Row = tuple[Any, ...]


def random_row(chance: random.Random, number: int) -> Row:
    values = (
        number,
        chance.choice("abc"),
        chance.randrange(10),
        chance.choice((chance.randrange(-(2**40), 2**40), 7)),
        Decimal(chance.randrange(-9_999, 9_999)).scaleb(-2),
        Decimal(chance.randrange(-(10**15), 10**15)).scaleb(-4),
        chance.random() < 0.5,
        date(2024, 1, chance.randint(1, 4)),
        chance.random(),
    )
    return number, *(None if chance.random() < 0.15 else v for v in values[1:])


def as_changes(rows: list[tuple[Row, int]]) -> pa.Table:
    columns = list(zip(*(row for row, _ in rows), strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    weights = pa.array([weight for _, weight in rows], pa.int64())
    return pa.table([*arrays, weights], names=[*SCHEMA.names, WEIGHT])


class Kept:
    """A stream table kept by folding, as rows of Arrow: what a commit would store."""

    def __init__(self, plan: FastPlan) -> None:
        self.folder = Folder(plan)
        self.state = self.folder.folded(Fold({}, {})).state.drop_columns([WEIGHT])
        self.result: Counter[Row] = Counter()
        if not plan.keys:
            born = Fold({}, {(): (0,) * len(plan.sums)})
            self._apply(born)

    def change(self, changes: pa.Table) -> None:
        deltas = self.folder.group_deltas(changes)
        self._apply(self.folder.fold(self.folder.stored(self.state), deltas))

    def _apply(self, fold: Fold) -> None:
        folded = self.folder.folded(fold)
        rows = Counter(_rows(self.state))
        rows.update(_weighted(folded.state))
        assert all(count >= 0 for count in rows.values())
        kept = [row for row, count in rows.items() if count for _ in range(count)]
        columns = list(zip(*kept, strict=True)) or [()] * len(self.state.schema)
        pairs = zip(columns, self.state.schema, strict=True)
        arrays = [pa.array(column, field.type) for column, field in pairs]
        self.state = pa.table(arrays, schema=self.state.schema)
        self.result.update(_weighted(folded.result))
        assert all(count >= 0 for count in self.result.values())


def _rows(table: pa.Table) -> list[Row]:
    return [tuple(row.values()) for row in table.to_pylist()]


def _weighted(table: pa.Table) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for *row, weight in _rows(table):
        found[tuple(row)] += weight
    return found


def by_duckdb(query: str, rows: list[Row]) -> Counter[Row]:
    t = as_changes([(row, 1) for row in rows])  # noqa: F841 (DuckDB finds it by name)
    text = query.replace("count_if(n > 5)", "coalesce(count_if(n > 5), 0)")  # Spark's is never NULL
    return Counter(duckdb.sql(text).fetchall())


@pytest.mark.parametrize("query", QUERIES)
def test_folding_is_computing_anew(query: str) -> None:
    chance = random.Random(query)
    kept, rows, number = Kept(plan_of(query)), list[Row](), 0
    for step in range(25):
        gone = chance.sample(rows, chance.choice((0, 0, min(1, len(rows)), len(rows) // 2)))
        if step == 12:
            gone = list(rows)
        come = [random_row(chance, number + i) for i in range(chance.choice((0, 1, 1, 5, 30)))]
        come += chance.sample(gone, len(gone) // 3)  # taken away and put back
        number += len(come)
        changes = [(row, -1) for row in gone] + [(row, 1) for row in come]
        chance.shuffle(changes)
        for row in gone:
            rows.remove(row)
        rows += come
        kept.change(as_changes(changes))
        expected = by_duckdb(query, rows)
        assert Counter({r: n for r, n in kept.result.items() if n}) == expected, f"step {step}"


def test_equal_rows_weigh_together() -> None:
    kept = Kept(plan_of(QUERIES[0]))
    row = (1, "a", 3, 4, Decimal("1.50"), None, True, None, None)
    kept.change(as_changes([(row, 3)]))
    kept.change(as_changes([(row, -2)]))
    assert _rows(kept.state)[0][:2] == ("a", 1)
    kept.change(as_changes([(row, -1)]))
    assert kept.state.num_rows == 0


def test_what_comes_and_goes_at_once_moves_nothing() -> None:
    folder = Folder(plan_of(QUERIES[0]))
    row = (1, "a", 3, 4, Decimal("1.50"), None, True, None, None)
    assert folder.group_deltas(as_changes([(row, 1), (row, -1)])) == {}


def folded(query: str, stored: dict[GroupKey, Sums], deltas: dict[GroupKey, Sums]) -> Fold:
    return Folder(plan_of(query)).fold(stored, deltas)


COUNT = "SELECT k, count(*) AS c, sum(n) AS s FROM t GROUP BY k"


@pytest.mark.parametrize(
    ("stored", "delta"),
    [
        ({}, (-1, 0, 0)),
        ({("a",): (1, 5, 1)}, (-2, 0, 0)),
        ({("a",): (1, 5, 1)}, (-1, -4, -1)),
    ],
    ids=["no such group", "more rows than there are", "a sum is left over"],
)
def test_a_state_that_cannot_be_is_a_breach(stored: dict[GroupKey, Sums], delta: Sums) -> None:
    with pytest.raises(InvariantError) as caught:
        folded(COUNT, stored, {("a",): delta})
    assert "repair_stream_table" in str(caught.value)


def test_two_rows_for_one_group_are_a_breach() -> None:
    kept = Kept(plan_of(COUNT))
    kept.change(as_changes([((1, "a", 1, *[None] * 6), 1)]))
    with pytest.raises(InvariantError):
        kept.folder.stored(pa.concat_tables([kept.state, kept.state]))


def test_the_row_of_an_aggregate_without_keys_must_be_there() -> None:
    with pytest.raises(InvariantError):
        folded("SELECT count(*) AS c FROM t", {}, {(): (1,)})


def test_a_sum_past_its_type_is_an_error_and_not_a_wrong_number() -> None:
    query = "SELECT k, sum(d) AS s FROM t GROUP BY k"
    with pytest.raises(ExecutionError, match="OVERFLOW"):
        folded(query, {("a",): (1, 10**22 - 1, 1)}, {("a",): (1, 1, 1)})


def test_an_error_in_a_row_names_the_expression() -> None:
    folder = Folder(plan_of("SELECT k, sum(n + 1) AS s FROM t GROUP BY k"))
    row = (1, "a", 2**31 - 1, *[None] * 6)
    with pytest.raises(ExecutionError, match=r"\[ARITHMETIC_OVERFLOW\].*\(n \+ 1\)"):
        folder.group_deltas(as_changes([(row, 1)]))


def test_averages() -> None:
    kept = Kept(plan_of("SELECT k, avg(d) AS a, avg(n) AS m FROM t GROUP BY k"))
    rows = [(i, "a", n, None, Decimal(n), *[None] * 4) for i, n in enumerate((1, 1, 0))]
    kept.change(as_changes([(row, 1) for row in rows]))
    assert kept.result == {("a", Decimal("0.666667"), 2 / 3): 1}
