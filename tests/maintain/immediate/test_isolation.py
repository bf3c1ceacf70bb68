"""Two writers and an IMMEDIATE stream table, in every order, at every level of isolation.

Whoever loses gets CommitConflictError; what is committed is always consistent. Each writer is a
process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import spark_trickle
from spark_trickle import CommitConflictError, Lake
from spark_trickle.transaction import LEVELS
from support import postgres
from support.forks import Writer
from support.watched import Watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VIEWS = {
    "pairs": "SELECT x.v, y.v AS w FROM a x JOIN a y ON x.k = y.k",
    "three": "SELECT x.v, y.v AS w, b.u FROM a x JOIN a y ON x.k = y.k JOIN b ON b.k = x.k",
    "sums": "SELECT k, sum(v) AS s, count(*) AS n FROM a GROUP BY k",
}
ORDERS = sorted({"".join(order) for order in permutations("1122")})
"""Who acts next: each writer writes once and then commits."""


class Two:
    """A lake with two connections here and one in another process."""

    def __init__(self, connect: Callable[[], Lake]) -> None:
        self.lakes = (connect(), connect())
        self.elsewhere = Writer(connect)
        one = self.lakes[0]
        one.sql("CREATE TABLE a (k INT, v INT)")
        one.sql("CREATE TABLE b (k INT, u INT)")
        one.sql("INSERT INTO a VALUES (1, 1), (2, 2)")
        one.sql("INSERT INTO b VALUES (1, 10), (2, 20)")
        self.watched = Watched(one, ["a", "b"], VIEWS)

    def race(self, level: str, order: str, first: list[str], second: list[str]) -> list[bool]:
        """Both transactions in the given order of steps; which of them were committed."""
        txs = [self.lakes[0].transaction(level), self.elsewhere.transaction(level)]
        work = [iter([*first, None]), iter([*second, None])]
        done = [False, False]
        failed = [False, False]
        for letter in order:
            who = int(letter) - 1
            if failed[who]:
                continue
            try:
                statement = next(work[who])
                if statement is None:
                    txs[who].commit()
                    done[who] = True
                else:
                    txs[who].sql(statement)
            except CommitConflictError:
                failed[who] = True
        self.watched.check(self.lakes[0], f"{level} {order}")
        return done


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def two(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Iterator[Two]:
    folder: Path = tmp_path_factory.mktemp("two")
    with ExitStack() as stack:
        url = str(folder / "lake")
        if request.param == "postgres":
            url = stack.enter_context(postgres.server())
        made = Two(lambda: spark_trickle.connect(url, data_path=str(folder / "data"), spark=spark))
        stack.callback(made.elsewhere.close)
        yield made


@pytest.mark.parametrize("level", LEVELS)
def test_writers_of_two_inputs_of_a_join(two: Two, level: str) -> None:
    for order in ORDERS:
        key = two.lakes[0].version
        done = two.race(
            level,
            order,
            [f"INSERT INTO a VALUES ({key}, 1)"],
            [f"INSERT INTO b VALUES ({key}, 2)"],
        )
        if level == "READ COMMITTED":
            assert done == [True, True], "writers that only insert do not fail"
        else:
            assert sum(done) == 1, "both began before the other committed: the second loses"


@pytest.mark.parametrize("level", LEVELS)
def test_writers_of_one_group(two: Two, level: str) -> None:
    for order in ORDERS:
        done = two.race(
            level, order, ["INSERT INTO a VALUES (1, 5)"], ["INSERT INTO a VALUES (1, 7)"]
        )
        assert any(done)
        assert level != "READ COMMITTED" or all(done)


@pytest.mark.parametrize("level", LEVELS)
def test_an_update_meets_an_insert(two: Two, level: str) -> None:
    for order in ("1212", "2121", "1221"):
        assert any(
            two.race(
                level,
                order,
                ["UPDATE a SET v = v + 1 WHERE k = 2"],
                ["INSERT INTO b VALUES (2, 21)"],
            )
        )


@pytest.mark.parametrize("level", LEVELS)
def test_an_update_meets_rows_of_its_own_table(two: Two, level: str) -> None:
    """A table that no stream table follows: new rows and other rows are in the way of reads only."""
    one = two.lakes[0]
    one.sql("CREATE OR REPLACE TABLE c (k INT, v INT)")
    one.sql("INSERT INTO c VALUES (1, 0), (2, 0), (3, 0)")
    first = ["UPDATE c SET v = v + 1 WHERE k <> 2"]
    expected = {
        "INSERT INTO c VALUES (4, 0)": level != "SERIALIZABLE",
        "UPDATE c SET v = v + 10 WHERE k = 2": level != "SERIALIZABLE",
        "DELETE FROM c WHERE k = 3": False,
        "DELETE FROM c WHERE k = 2": level != "SERIALIZABLE",
    }
    for second, both in expected.items():
        assert two.race(level, "1221", first, [second]) == [both, True], second
    done = 0 if level == "SERIALIZABLE" else 3
    left = sorted(tuple(row) for row in one.table("c").collect())
    assert left == [(1, done), (4, min(done, 2))]


def test_a_key_is_not_merged_twice(two: Two) -> None:
    one = two.lakes[0]
    one.sql("CREATE OR REPLACE TABLE c (k INT, v INT)")
    one.sql("INSERT INTO c VALUES (1, 0)")
    merge = (
        "MERGE INTO c USING (SELECT explode(array(1, 2)) AS k) s ON c.k = s.k "
        "WHEN MATCHED THEN UPDATE SET v = v + 1 WHEN NOT MATCHED THEN INSERT VALUES (s.k, 0)"
    )
    for level in LEVELS:
        assert two.race(level, "1221", [merge], ["INSERT INTO c VALUES (2, 0)"]) == [False, True]
        assert one.sql(merge) == 2
        one.sql("DELETE FROM c WHERE k = 2")
    assert [tuple(row) for row in one.table("c").collect()] == [(1, len(LEVELS))]


def test_made_while_somebody_writes(two: Two) -> None:
    one, other = two.lakes
    tx = other.transaction("READ COMMITTED")
    tx.sql("INSERT INTO a VALUES (3, 3)")
    one.create_stream_table("late", "SELECT v FROM a WHERE k = 3", refresh_mode="IMMEDIATE")
    tx.commit()
    assert other.table("late").count() == other.sql("SELECT v FROM a WHERE k = 3").count()
    one.drop_stream_table("late")


def test_computed_anew_while_somebody_writes(two: Two) -> None:
    one, other = two.lakes
    tx = other.transaction()
    tx.sql("INSERT INTO a VALUES (4, 4)")
    assert one.refresh_stream_table("sums").effective_mode == "FULL"
    tx.commit()
    two.watched.check(one)
