"""The changes themselves, followed by DuckDB alone: sizes, determinism, and the judge's own rules."""

from __future__ import annotations

from decimal import Decimal
from math import inf
from pathlib import Path

import pyarrow as pa
import pytest

from spark_trickle.errors import NotFoundError
from spark_trickle.tpch import data, queries
from spark_trickle.tpch.churn import Churn, Counts, NewRows
from spark_trickle.tpch.schema import LINEITEM, NATION, ORDERS, PART, SUPPLIER, TABLES
from tpch.oracle import Oracle, compare, ordered


def rows_of(oracle: Oracle) -> dict[str, pa.Table]:
    return {table.name: oracle.run(f"SELECT * FROM {table.name}") for table in TABLES}


def test_the_same_seed_makes_the_same_changes() -> None:
    one, same = Churn(0.01, 0.01, seed=7).cycle(2), Churn(0.01, 0.01, seed=7).cycle(2)
    assert one == same
    assert one != Churn(0.01, 0.01, seed=8).cycle(2)
    assert one != Churn(0.01, 0.01, seed=7).cycle(3)


def test_half_at_the_ends_half_scattered() -> None:
    changes = Churn(1, 0.001)
    assert changes.counts(ORDERS, 1) == Counts(375, 375, 750)
    assert changes.counts(LINEITEM, 1).updates == 3_000
    assert changes.counts(PART, 1) == Counts(50, 50, 100)
    assert changes.counts(NATION, 1) == Counts(), "0.1 % of 25 rows is less than one row"
    assert changes.window(ORDERS, 3) == range(751, 1_500_751)
    ends = Churn(1, 0.001, ends_first=inf)
    assert ends.counts(ORDERS, 1) == Counts(750, 750)
    assert [batch.name for batch in ends.cycle(1)] == ["RF1", "RF2"]
    later = Churn(1, 0.001, ends_first=2)
    assert later.counts(PART, 2) == Counts()
    assert later.window(ORDERS, 4) == range(1 + 2 * 750 + 375, 1_500_000 + 2 * 750 + 375 + 1)
    assert later.counts(PART, 3) == Counts(50, 50, 100)


def test_a_small_scale_changes_what_scale_one_would() -> None:
    changes = Churn(0.01, 0.001)
    kinds = {changes.counts(SUPPLIER, cycle) for cycle in (1, 2, 3)}
    assert kinds == {Counts(1), Counts(0, 1), Counts(0, 0, 1)}


@pytest.mark.parametrize("fraction", [0.001, 0.04])
def test_changed_rows_are_as_many_as_asked_for(fraction: float, tpch_data: Path) -> None:
    oracle = Oracle.of_parquet(tpch_data)
    changes = Churn(0.01, fraction, every_table=True)
    untouched = {table.name for table in TABLES}
    for cycle in range(1, 4):
        before = rows_of(oracle)
        batches = changes.cycle(cycle)
        oracle.follow(batches)
        for table in TABLES:
            if not oracle.table_difference(table.name, before[table.name]).same:
                untouched.discard(table.name)
        lines = oracle.table_difference("lineitem", before["lineitem"])
        asked = fraction * before["lineitem"].num_rows
        # An update is one changed row: extra once and missing once.
        assert 0.5 * asked < (lines.extra.total() + lines.missing.total()) * 2 / 3 < 1.5 * asked
        keys = oracle.run("SELECT count(*), count(DISTINCT o_orderkey) FROM orders").to_pylist()[0]
        assert len(set(keys.values())) == 1, "keys stay unique"
    oracle.close()
    assert untouched == set()


def test_inserted_orders_and_their_lines_come_together() -> None:
    batch = Churn(0.01, 0.01).cycle(1)[0]
    orders, lines = (step.rows for step in batch.steps if isinstance(step, NewRows))
    assert set(lines["l_orderkey"].to_pylist()) == set(orders["o_orderkey"].to_pylist())
    assert min(orders["o_orderkey"].to_pylist()) > 60_000


def test_data_is_generated_once_and_only_whole(tmp_path: Path) -> None:
    said: list[tuple[str, int, int]] = []
    folder = data.generate(0.001, tmp_path, lambda *step: said.append(step))
    stamps = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert {path.name for path in stamps} == {f"{table.name}.parquet" for table in TABLES}
    assert said[-1] == ("generated", 8, 8)
    (folder / "orders.parquet").unlink()
    data.generate(0.001, tmp_path)
    again = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert {path.name for path in again if again[path] != stamps[path]} == {"orders.parquet"}


def test_a_missing_generator_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(NotFoundError, match=r"tpchgen-cli.*\n.*spark-trickle\[bench\]"):
        data.generate(0.001, tmp_path)


def test_ties_at_a_limit_are_broken_by_all_columns() -> None:
    assert ordered("SELECT a, b FROM t ORDER BY b DESC\nLIMIT 3", 2).split("ORDER BY ")[1] == (
        "b DESC, 1, 2\nLIMIT 3"
    )
    for number in (2, 3, 10, 18, 21):
        assert ordered(queries.text(number), 4) != queries.text(number).strip()
    assert ordered(queries.text(1), 10) == queries.text(1).strip()


def test_the_judge_tells_multisets_apart_and_rounds_doubles_only() -> None:
    decimals = pa.array([Decimal("0.333333"), Decimal("0.333333")], pa.decimal128(10, 6))
    doubles = pa.array([1 / 3, 1 / 3])
    assert compare(pa.table({"a": decimals}), pa.table({"a": doubles})).same
    one_less = compare(pa.table({"a": decimals[:1]}), pa.table({"a": doubles}))
    assert (one_less.missing.total(), one_less.extra.total()) == (1, 0)
    near = pa.array([Decimal("0.3333334")], pa.decimal128(10, 7))
    exact = pa.array([Decimal("0.333333")], pa.decimal128(10, 6))
    assert not compare(pa.table({"a": near}), pa.table({"a": exact})).same
    with pytest.raises(AssertionError):
        compare(pa.table({"a": doubles}), pa.table({"a": doubles}))


def test_a_difference_tells_counts_and_the_first_five_rows() -> None:
    got, expected = pa.table({"a": [1, 1, *range(10, 18)]}), pa.table({"a": [1, 2]})
    told = str(compare(got, expected))
    assert "rows: 10, expected 2" in told
    assert "extra: 9, missing: 1" in told
    assert told.count("extra: ('1") == 5
    assert "missing: ('2',)" in told
