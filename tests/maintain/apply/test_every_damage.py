"""Every kind of state, damaged in every way: what a refresh notices, and what only ``verify`` does.

One lake with a stream table of each kind is copied for each damage; then rows of the damaged group
go. What is listed as unnoticed here is what docs/limits.md says.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import spark_trickle
from spark_trickle import Lake
from spark_trickle.storage.files.types import arrow_schema
from spark_trickle.storage.versions.transaction import Transaction
from support.lakes import leave_no_trace, located, modify

pytestmark = pytest.mark.spark

KINDS = {
    "plain": "SELECT g, v FROM t WHERE v > 0",
    "sums": "SELECT g, sum(v) AS n, count(v) AS c FROM t GROUP BY g",
    "single": "SELECT sum(v) AS n, count(*) AS c FROM t",
    "extrema": "SELECT g, min(v) AS n, max(v) AS h FROM t GROUP BY g",
    "distinct": "SELECT DISTINCT g FROM t",
    "counted": "SELECT g, count(DISTINCT v) AS n FROM t GROUP BY g",
    "both": "SELECT g FROM t EXCEPT ALL SELECT g FROM u",
    "joined": "SELECT t.g, a.n FROM t JOIN (SELECT g, count(*) AS n FROM t GROUP BY g) a"
    " ON t.g = a.g",
    "touched": "SELECT g, percentile(v, 0.5) AS n FROM t GROUP BY g",
    "ranked": "SELECT g, v, row_number() OVER (PARTITION BY g ORDER BY v) AS n FROM t",
    "outer": "SELECT t.g, t.v, u.g AS h FROM t LEFT JOIN u ON t.g = u.g",
    "topk": "SELECT g, v FROM t ORDER BY v LIMIT 3",
}
STATELESS = {"plain", "touched", "ranked", "outer"}
"""Their result is all that is stored."""
TOUCHED = {"touched", "ranked"}
"""What is stored for a touched key is replaced by what the query gives now."""
BAGS = {"plain", "both", "joined", "outer"}
"""Equal rows, and several of a key, may be there."""

Row = dict[str, Any]


def of_the_group(row: Row) -> bool:
    keys = [row[name] for name in ("g", "c0") if name in row]
    return keys == [1] or not keys


def removed(tx: Transaction, table: str) -> int:
    return modify(tx, table, of_the_group, None)


def doubled(tx: Transaction, table: str) -> int:
    columns = tx.table(table).columns
    rows = [row for row, _, _ in located(tx.scan(table)) if of_the_group(row)]
    again = [{column.name: row[column.name] for column in columns} for row in rows]
    tx.insert_rows(table, pa.Table.from_pylist(again, schema=arrow_schema(columns)))
    return len(again)


def fewer(tx: Transaction, table: str) -> int:
    """One less in the first column that counts, sums or tells something of the group."""
    there = [column.name for column in tx.table(table).columns]
    name = next((n for n in ("__rows", "n", "v", "c1") if n in there), None)
    if name is None:
        return 0
    return modify(tx, table, of_the_group, lambda row: {**row, name: row[name] - 1})


WAYS: dict[tuple[str, Callable[[Transaction, str], int]], set[str]] = {
    ("state", removed): set(),
    ("state", doubled): {"topk"},
    ("state", fewer): {"extrema"},
    ("result", removed): TOUCHED,
    ("result", doubled): BAGS | {"ranked"},
    ("result", fewer): TOUCHED,
}
"""Where and how it is damaged, and the kinds of which a refresh notices nothing."""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    place = tmp_path_factory.mktemp("good") / "lake"
    with spark_trickle.connect(place, spark=spark) as lake:
        lake.sql("CREATE TABLE t (g INT, v INT)")
        lake.sql("CREATE TABLE u (g INT)")
        lake.sql("INSERT INTO t VALUES (1, 1), (1, 2), (2, 5), (2, 8), (NULL, 7)")
        lake.sql("INSERT INTO u VALUES (1), (3)")
        for name, query in KINDS.items():
            lake.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
    return place


@pytest.fixture
def lake(good: Path, tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    shutil.copytree(good, tmp_path / "lake")
    with spark_trickle.connect(tmp_path / "lake", spark=spark) as opened:
        yield opened


def damaged(lake: Lake, name: str, where: str, how: Callable[[Transaction, str], int]) -> bool:
    segments = [segment.name for segment in lake._streams.get(name).segments]
    changed = 0
    for table in segments if where == "state" else [name]:
        tx = lake._catalog.begin()
        changed += how(tx, table)
        tx.commit()
    return changed > 0


def noticed(lake: Lake, *statements: str) -> set[str]:
    """The tables that some refresh took out of service; by default while rows of the group go."""
    found = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for statement in statements or ("DELETE FROM t WHERE v = 2", "DELETE FROM t WHERE g = 1"):
            lake.sql(statement)
            found |= {r.name for r in lake.refresh_all() if r.effective_mode == "ERROR"}
    return found


@pytest.mark.parametrize(
    ("where", "how", "unnoticed"),
    [(where, how, unnoticed) for (where, how), unnoticed in WAYS.items()],
    ids=[f"{where} {how.__name__}" for where, how in WAYS],
)
def test_what_a_refresh_notices(
    lake: Lake, where: str, how: Callable[[Transaction, str], int], unnoticed: set[str]
) -> None:
    hit = {name for name in KINDS if damaged(lake, name, where, how)}
    assert len(hit) >= len(KINDS) - len(STATELESS) - 1, "the damage is done"
    leave_no_trace(lake._catalog)
    assert noticed(lake) == hit - unnoticed
    status = {seen.name: seen.status for seen in lake.stream_tables()}
    assert {n for n in KINDS if status[n] == "ERROR"} == hit - unnoticed


@pytest.mark.parametrize("statement", ["INSERT INTO t VALUES (1, 3)", "TRUNCATE TABLE nobodys"])
@pytest.mark.parametrize(
    ("where", "how"), WAYS, ids=[f"{where} {how.__name__}" for where, how in WAYS]
)
def test_what_a_version_tells_of_is_always_noticed(
    lake: Lake, where: str, how: Callable[[Transaction, str], int], statement: str
) -> None:
    """Also where the group only gains rows, and where nothing changed at all."""
    hit = {name for name in KINDS if damaged(lake, name, where, how)}
    lake.sql("CREATE TABLE nobodys (n INT)")
    assert noticed(lake, statement) == hit
    for name in hit:
        lake.repair_stream_table(name)
    lake.sql("INSERT INTO t VALUES (1, 9)")
    assert {report.error for report in lake.refresh_all()} == {None}
    assert not any(lake.verify(name) for name in hit)


def test_upkeep_is_nobodys_damage(lake: Lake) -> None:
    lake.sql("INSERT INTO t VALUES (1, 3)")
    assert noticed(lake, "DELETE FROM t WHERE v = 3") == set()
    lake.compact()
    assert noticed(lake) == set()


def test_nothing_is_noticed_where_nothing_is_wrong(lake: Lake) -> None:
    assert noticed(lake) == set()
