"""Random transactions over random IMMEDIATE queries: contents = query after each step.

Every transaction is a few steps: rows come and go, savepoints are set and gone back to, somebody
reads; at the end it commits or rolls back. A third stream table reads the first: a cascade.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from spark_trickle import Lake, LakeTransaction
from spark_trickle.delta.support import FullOnly
from spark_trickle.storage.files.types import arrow_schema
from support.lakes import located
from support.queries import TABLES, QueryMaker
from support.watched import Watched

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

LAKES, TRANSACTIONS = 10, 30


@pytest.mark.parametrize("seed", range(LAKES))
def test_random_transactions(lake: Lake, seed: int) -> None:
    random = Random(seed)
    for name, columns in TABLES.items():
        listed = ", ".join(f"{column} {kind.type}" for column, kind in columns.items())
        lake.sql(f"CREATE TABLE {name} ({listed})")
    with lake.transaction() as tx:
        for name in TABLES:
            _come(tx, name, random, 6)
    watched = _watched(lake, random)
    done: Counter[str] = Counter()
    for _ in range(TRANSACTIONS):
        _transaction(watched, random, done)
    assert done["commit"] > 0
    assert done["rollback"] > 0


def _watched(lake: Lake, random: Random) -> Watched:
    views: dict[str, str] = {}
    while len(views) < 2:
        query = QueryMaker(random).query(2, width=2)
        if not isinstance(lake._streams._explainer.compiled(query, "spark").verdict, FullOnly):
            views[f"m{len(views)}"] = query
    views["top"] = "SELECT c0, count(*) AS n FROM m0 GROUP BY c0"
    return Watched(lake, list(TABLES), views)


def _transaction(watched: Watched, random: Random, done: Counter[str]) -> None:
    tx = watched.lake.transaction(random.choice(("READ COMMITTED", "REPEATABLE READ")))
    for _ in range(random.choice((1, 1, 2, 3))):
        name = random.choice(list(TABLES))
        point = tx.savepoint() if random.random() < 0.3 else None
        _go(tx, name, random)
        _come(tx, name, random, random.choice((0, 1, 2)))
        if random.random() < 0.2:
            watched.check(tx)
            done["read"] += 1
        if point is not None and random.random() < 0.5:
            point.rollback()
            done["savepoint"] += 1
    if random.random() < 0.2:
        tx.rollback()
        done["rollback"] += 1
    else:
        tx.commit()
        done["commit"] += 1
    watched.check(watched.lake)


def _come(tx: LakeTransaction, name: str, random: Random, count: int) -> None:
    kinds = TABLES[name]
    rows = [{c: random.choice(kind.domain) for c, kind in kinds.items()} for _ in range(count)]
    if rows:
        schema = arrow_schema(tx._tx.table(name).columns)
        tx.append(name, pa.Table.from_pylist(rows, schema=schema))


def _go(tx: LakeTransaction, name: str, random: Random) -> None:
    files: dict[int, list[int]] = {}
    inlined: list[int] = []
    for _, file, position in located(tx._tx.scan(name)):
        if random.random() < 0.2:
            inlined.append(position) if file is None else files.setdefault(file, []).append(
                position
            )
    if files or inlined:
        tx._tx.delete_rows(name, files, inlined)
