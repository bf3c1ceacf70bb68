"""Stream tables that begin to follow, or follow no more, while a transaction over their source is open.

Whoever commits, the contents are what the query gives; or the commit is a conflict and nothing has
changed. Nothing goes out of service, and the next statement is followed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import spark_trickle
from spark_trickle import CommitConflictError, Lake, LakeTransaction
from spark_trickle.transaction import LEVELS, READ_COMMITTED, SERIALIZABLE
from support.forks import Writer
from support.watched import bag, contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = {
    "ranks": "SELECT k, v, rank() OVER (PARTITION BY k ORDER BY v) AS r FROM {a}",
    "plain": "SELECT k, v FROM {a} WHERE v < 100",
    "sums": "SELECT k, sum(v) AS s, count(*) AS n FROM {a} GROUP BY k",
    "highest": "SELECT k, max(v) AS x FROM {a} GROUP BY k",
    "kinds": "SELECT DISTINCT v FROM {a}",
    "of_kinds": "SELECT k, sum(DISTINCT v) AS s FROM {a} GROUP BY k",
    "top": "SELECT k, v FROM {a} ORDER BY v DESC, k NULLS LAST LIMIT 2",
}
Step = Callable[[Lake, str], object]


class Races:
    """For each query a source of its own, a stream table over it, and two connections."""

    def __init__(self, connect: Callable[[], Lake]) -> None:
        self.lake, self.other = connect(), connect()
        for name in QUERIES:
            self.lake.sql(f"CREATE TABLE a_{name} (k INT, v INT)")
            self.lake.sql(f"INSERT INTO a_{name} VALUES (1, 2), (1, 3), (NULL, 4)")
            self.make(name)

    def query(self, name: str) -> str:
        return QUERIES[name].format(a=f"a_{name}")

    def make(self, name: str, **more: Any) -> None:
        self.lake.create_stream_table(name, self.query(name), refresh_mode="IMMEDIATE", **more)

    def expected(self, reader: Lake | LakeTransaction, name: str) -> Counter[tuple[Any, ...]]:
        with duckdb.connect() as duck:
            duck.register(f"a_{name}", contents(reader, f"a_{name}"))
            query = next(s.query for s in self.lake.stream_tables() if s.name == name)
            return bag(duck.sql(query).to_arrow_table())

    def right(self, reader: Lake | LakeTransaction, name: str) -> bool:
        return bag(contents(reader, name)) == self.expected(reader, name)

    def race(self, name: str, level: str, look: str, meanwhile: Step) -> bool:
        """Whether a transaction was committed that was open meanwhile; ``look``: when it read the
        stream table, before it began to follow or after."""
        self.lake.sql(f"INSERT INTO a_{name} VALUES (7, 9)")
        tx = self.lake.transaction(level)
        done = False
        try:
            if look != "after":
                tx.sql(f"INSERT INTO a_{name} VALUES (7, 1)")
            if look == "before":
                contents(tx, name)
            meanwhile(self.other, name)
            tx.sql(f"INSERT INTO a_{name} VALUES (8, 8), (7, 2)")
            if look == "after":
                assert self.right(tx, name), "what is read is right, or a conflict"
            before = self.lake.version
            tx.commit()
            done = True
        except CommitConflictError:
            if tx._open:
                before = self.lake.version
                tx.rollback()
            assert self.lake.version == before
        return done

    def follows(self, name: str) -> None:
        """It is right and in service, and goes on to follow."""
        assert self.right(self.lake, name)
        assert {s.name: s.status for s in self.lake.stream_tables()}[name] == "ACTIVE"
        self.other.sql(f"INSERT INTO a_{name} VALUES (7, 0), (9, 200)")
        assert self.right(self.lake, name)
        assert self.lake.refresh_history(name)[0].version == self.lake.version
        assert bag(contents(self.lake, f"a_{name}"))[9, 200] >= 1


@pytest.fixture(scope="module")
def races(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Races]:
    folder = tmp_path_factory.mktemp("races")
    made = Races(lambda: spark_trickle.connect(folder / "lake", spark=spark))
    yield made
    made.other.close()
    made.lake.close()


def suspended(lake: Lake, name: str) -> None:
    lake.alter_stream_table(name, status="SUSPENDED")


def resumed(lake: Lake, name: str) -> None:
    lake.alter_stream_table(name, status="ACTIVE")


def deferred(lake: Lake, name: str) -> None:
    lake.alter_stream_table(name, refresh_mode="DIFFERENTIAL")


def switched(lake: Lake, name: str) -> None:
    lake.alter_stream_table(name, refresh_mode="IMMEDIATE")


def dropped(lake: Lake, name: str) -> None:
    lake.drop_stream_table(name)


def made(lake: Lake, name: str) -> None:
    query = QUERIES[name].format(a=f"a_{name}")
    lake.create_stream_table(name, query, refresh_mode="IMMEDIATE")


def made_anew(lake: Lake, name: str) -> None:
    dropped(lake, name)
    made(lake, name)


def filled(lake: Lake, name: str) -> None:
    lake.refresh_stream_table(name)


def without_data(lake: Lake, name: str) -> None:
    dropped(lake, name)
    query = QUERIES[name].format(a=f"a_{name}")
    lake.create_stream_table(name, query, refresh_mode="IMMEDIATE", initialize=False)


def repaired(lake: Lake, name: str) -> None:
    lake.repair_stream_table(name)


def redefined(lake: Lake, name: str) -> None:
    query = QUERIES[name].format(a=f"(SELECT * FROM a_{name} WHERE k IS NOT NULL) AS b")
    lake.alter_stream_table(name, query=query)
    lake.alter_stream_table(name, query=QUERIES[name].format(a=f"a_{name}"))


def replaced(lake: Lake, name: str) -> None:
    query = QUERIES[name].format(a=f"a_{name}")
    lake.create_stream_table(name, query, refresh_mode="IMMEDIATE", or_replace=True)


def nothing(lake: Lake, name: str) -> None:
    pass


BEGINS: dict[str, tuple[Step, Step]] = {
    "resumed": (suspended, resumed),
    "switched": (deferred, switched),
    "replaced": (deferred, replaced),
    "repaired": (nothing, repaired),
    "redefined": (nothing, redefined),
    "made": (dropped, made),
    "made anew": (nothing, made_anew),
    "filled": (without_data, filled),
}
EVERY = {"resumed", "repaired"}
"""All queries are tried with these, three kinds with the others."""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("how", BEGINS)
def test_one_that_began_to_follow(races: Races, how: str, level: str) -> None:
    before, meanwhile = BEGINS[how]
    names = QUERIES if how in EVERY else ("ranks", "sums", "highest")
    for number, name in enumerate(names):
        before(races.lake, name)
        looks = ("never", "after") if how in ("made", "filled") else ("never", "before", "after")
        look = looks[(number + len(how)) % len(looks)]
        if how == "made" and look == "after" and level != READ_COMMITTED:
            look = "never"  # it is not there to be seen
        done = races.race(name, level, look, meanwhile)
        # Without state, and with no row wrong, a repair writes nothing.
        unchanged = how == "repaired" and name in ("ranks", "plain")
        assert done == (level == READ_COMMITTED or unchanged), (name, look)
        races.follows(name)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("how", ["resumed", "switched"])
def test_what_it_did_not_have_is_not_missed(races: Races, how: str, level: str) -> None:
    """A row that came while it did not follow is deleted by who never saw it there."""
    before, meanwhile = BEGINS[how]
    before(races.lake, "plain")
    races.lake.sql("INSERT INTO a_plain VALUES (70, 9)")
    tx = races.lake.transaction(level)
    meanwhile(races.other, "plain")
    tx.sql("DELETE FROM a_plain WHERE k = 70")
    if level == READ_COMMITTED:
        tx.commit()
    else:
        with pytest.raises(CommitConflictError, match="plain began to follow meanwhile"):
            tx.commit()
    races.follows("plain")
    races.lake.sql("DELETE FROM a_plain WHERE k = 70")
    races.follows("plain")


@pytest.mark.parametrize("level", LEVELS)
def test_computed_in_full_meanwhile(races: Races, level: str) -> None:
    """It was right all the time: nobody is in anybody's way."""
    for name, look in {"ranks": "never", "sums": "before", "highest": "after"}.items():
        assert races.race(name, level, look, lambda lake, name: lake.refresh_stream_table(name))
        races.follows(name)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("look", ["never", "before"])
@pytest.mark.parametrize("how", ["suspended", "deferred"])
def test_one_that_follows_no_more(races: Races, how: str, look: str, level: str) -> None:
    """It stays as it was, whatever an open transaction had computed for it."""
    stops, begins = (suspended, resumed) if how == "suspended" else (deferred, switched)
    for name in ("ranks", "sums"):
        there: list[object] = []

        def stopped(lake: Lake, name: str, there: list[object] = there) -> None:
            stops(lake, name)
            there.append(bag(contents(lake, name)))

        assert races.race(name, level, look, stopped)
        assert there == [bag(contents(races.lake, name))]
        if how == "deferred":
            assert races.lake.refresh_stream_table(name).effective_mode == "DIFFERENTIAL"
            assert races.right(races.lake, name)
        begins(races.lake, name)
        races.follows(name)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("look", ["never", "before"])
def test_one_that_is_dropped_or_renamed(races: Races, look: str, level: str) -> None:
    for name in ("ranks", "sums"):
        done = races.race(name, level, look, dropped)
        assert done or (level, look) == (SERIALIZABLE, "before"), "what was read is gone"
        made(races.lake, name)
        races.follows(name)

        def renamed(lake: Lake, name: str) -> None:
            lake.sql(f"ALTER STREAM TABLE {name} RENAME TO renamed")

        races.race(name, level, look, renamed)
        races.lake.sql(f"ALTER STREAM TABLE renamed RENAME TO {name}")
        races.follows(name)


@pytest.mark.parametrize("level", LEVELS)
def test_settings_change_nothing(races: Races, level: str) -> None:
    def scheduled(lake: Lake, name: str) -> None:
        lake.alter_stream_table(name, schedule="1h")

    for name in ("ranks", "sums"):
        assert races.race(name, level, "before", scheduled)
        races.follows(name)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("how", ["asked", "repaired"])
def test_deferred_ones_that_are_folded(races: Races, how: str, level: str) -> None:
    lake = races.lake
    lake.alter_stream_table("sums", refresh_mode="DIFFERENTIAL", fast_path=how == "repaired")
    if how == "repaired":
        lake.refresh_stream_table("sums")

    def asked(lake: Lake, name: str) -> None:
        lake.alter_stream_table(name, fast_path=True)
        lake.refresh_stream_table(name)

    done = races.race("sums", level, "never", asked if how == "asked" else repaired)
    assert done or level != READ_COMMITTED
    if how == "asked" or level == READ_COMMITTED:
        assert done
    races.follows("sums")
    lake.alter_stream_table("sums", fast_path=False, refresh_mode="IMMEDIATE")
    races.follows("sums")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "upper", ["SELECT r, count(*) AS n FROM ranks GROUP BY r", "SELECT r FROM ranks"]
)
def test_over_one_that_followed_all_the_time(races: Races, upper: str, level: str) -> None:
    lake = races.lake
    lake.create_stream_table("upper", upper, refresh_mode="IMMEDIATE")
    suspended(lake, "upper")

    def matters(lake: Lake, _: str) -> None:
        resumed(lake, "upper")

    done = races.race("ranks", level, "never", matters)
    assert done == (level == READ_COMMITTED)
    races.follows("ranks")
    with duckdb.connect() as duck:
        duck.register("ranks", contents(lake, "ranks"))
        assert bag(contents(lake, "upper")) == bag(duck.sql(upper).to_arrow_table())
    dropped(lake, "upper")


def test_of_another_process(races: Races, spark: SparkSession) -> None:
    folder = str(races.lake._catalog.database.name).rpartition("/")[0]
    elsewhere = Writer(lambda: spark_trickle.connect(folder, spark=spark))
    try:
        for level in LEVELS:
            suspended(races.lake, "sums")
            races.lake.sql("INSERT INTO a_sums VALUES (7, 9)")
            tx = elsewhere.transaction(level)
            resumed(races.lake, "sums")
            tx.sql("INSERT INTO a_sums VALUES (7, 1)")
            if level == READ_COMMITTED:
                tx.commit()
            else:
                with pytest.raises(CommitConflictError):
                    tx.commit()
            races.follows("sums")
    finally:
        elsewhere.close()
