"""pg_ivm's functions: what their users type, and what they get."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import spark_trickle
from spark_trickle import Lake, NotFoundError, UnsupportedQueryError, UserError
from spark_trickle.errors import NoticeWarning

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::spark_trickle.errors.NoticeWarning"),
]


def value(lake: Lake, sql: str) -> object:
    ((found,),) = lake.sql(sql).collect()
    return found


def rows(lake: Lake, sql: str) -> list[tuple]:
    return sorted(tuple(row) for row in lake.sql(sql).collect())


@pytest.fixture
def base(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE t (i INT NOT NULL, v INT, PRIMARY KEY (i))")
    lake.sql("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")
    return lake


def test_the_life_of_an_immv(base: Lake) -> None:
    created = base.sql("SELECT pgivm.create_immv(' Mv ( x ) ', $$SELECT i, v FROM t WHERE i < 9$$)")
    assert created.columns == ["create_immv"]
    assert created.collect()[0][0] == 3
    assert base.sql("SELECT * FROM mv").columns == ["x", "v"]
    base.sql("INSERT INTO t VALUES (4, 40)")
    assert rows(base, "SELECT x FROM mv") == [(1,), (2,), (3,), (4,)]
    with pytest.raises(UserError, match="stream table"):
        base.sql("INSERT INTO mv VALUES (9, 9)")
    shown = base.sql("SELECT * FROM pgivm.pg_ivm_immv").collect()
    assert [(r.immvrelid, r.ispopulated) for r in shown] == [("mv", True)]
    assert shown[0].lastivmupdate == base.version

    assert value(base, "SELECT pgivm.refresh_immv('mv', false)") == 0
    base.sql("INSERT INTO t VALUES (5, 50)")
    assert rows(base, "SELECT * FROM mv") == []
    assert value(base, "SELECT ispopulated FROM pgivm.pg_ivm_immv WHERE immvrelid = 'mv'") is False
    assert value(base, "SELECT pgivm.refresh_immv('mv', true)") == 5
    base.sql("DELETE FROM t WHERE i = 1")
    assert rows(base, "SELECT x FROM mv") == [(2,), (3,), (4,), (5,)]
    assert value(base, "SELECT pgivm.refresh_immv('mv', true)") == 4

    base.sql("ALTER TABLE mv RENAME TO other")
    assert "SELECT" in str(value(base, "SELECT pgivm.get_immv_def('other')"))
    both = base.sql(
        "SELECT immvrelid AS n, pgivm.get_immv_def(immvrelid) AS d FROM pgivm.pg_ivm_immv"
    )
    assert [row.n for row in both.collect()] == ["other"]
    assert value(base, "SELECT pgivm.get_immv_def('t')") is None
    base.sql("DROP TABLE other")
    assert rows(base, "SELECT * FROM pgivm.pg_ivm_immv") == []


def test_wrong_calls_say_what_is_wrong(base: Lake) -> None:
    with pytest.raises(NotFoundError, match="nothing"):
        base.sql("SELECT pgivm.refresh_immv('nothing', true)")
    with pytest.raises(UserError, match="is not an IMMV"):
        base.sql("SELECT pgivm.refresh_immv('t', true)")
    with pytest.raises(UserError, match="must specify SELECT"):
        base.sql("SELECT pgivm.create_immv('m', 'DELETE FROM t')")
    with pytest.raises(UserError, match="too many column names"):
        base.sql("SELECT pgivm.create_immv('m (a, b, c)', 'SELECT i FROM t')")
    with pytest.raises(NotFoundError, match=r"pgivm\.creat_immv"):
        base.sql("SELECT pgivm.creat_immv('m', 'SELECT i FROM t')")
    with pytest.raises(UserError, match="with_data must be true or false"):
        base.sql("SELECT pgivm.refresh_immv('t', 'x')")
    with pytest.raises(UserError, match="needs with_data"):
        base.sql("SELECT pgivm.refresh_immv('t')")
    with base.transaction() as tx, pytest.raises(UserError, match="transactions of their own"):
        tx.sql("SELECT pgivm.create_immv('m', 'SELECT i FROM t')")


@pytest.mark.parametrize(
    ("query", "key", "told"),
    [
        ("SELECT v, sum(i) AS s FROM t GROUP BY v", ("v",), "clustered by (v)"),
        ("SELECT DISTINCT v, i FROM t", ("v", "i"), "clustered by (v, i)"),
        ("SELECT v, i FROM t", ("i",), "clustered by (i)"),
        ("SELECT v FROM t", (), "t.i is not selected"),
        ("SELECT count(*) AS n FROM t", (), None),
    ],
)
def test_the_index_is_a_cluster_key(base: Lake, query: str, key: tuple, told: str | None) -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        base.sql(f"SELECT pgivm.create_immv('m', '{query}')")
    notices = [str(w.message) for w in heard if w.category is NoticeWarning]
    assert base._catalog.table("m").cluster_by == key
    assert told is None or told in notices[0]
    assert (told is None) == (notices == [])


STRICT = {
    "SELECT * FROM (SELECT count(*) AS n FROM t) x": "nested query",
    "SELECT * FROM (SELECT DISTINCT i FROM t) x": "nested query",
    "SELECT i FROM t WHERE i IN (SELECT i FROM t)": "subquery",
    "SELECT i, (SELECT max(v) FROM t) FROM t": "subquery",
    "SELECT i FROM t WHERE i = 1 OR EXISTS (SELECT 1 FROM t)": "OR or NOT",
    "SELECT i FROM t WHERE NOT EXISTS (SELECT 1 FROM t)": "OR or NOT",
    "SELECT v FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE u.i = t.i)": "referred to in EXISTS",
    "WITH q AS (SELECT 1) SELECT i FROM t": "WITH query",
    "SELECT ctid FROM t": "system column",
    "SELECT i FROM t ORDER BY i": "ORDER BY",
    "SELECT v, count(*) FROM t GROUP BY v HAVING count(*) > 1": "HAVING",
    "SELECT v FROM t GROUP BY v": "without an aggregate",
    "SELECT i FROM t LIMIT 1": "LIMIT",
    "SELECT DISTINCT ON (v) i, v FROM t": "DISTINCT ON",
    "SELECT i, rank() OVER (ORDER BY i) FROM t": "window",
    "SELECT count(*) FILTER (WHERE i > 1) FROM t": "FILTER",
    "SELECT count(DISTINCT v) FROM t": "DISTINCT arguments",
    "SELECT v, count(*) FROM t GROUP BY ROLLUP (v)": "GROUPING SETS",
    "SELECT i FROM t UNION SELECT v FROM t": "UNION",
    "VALUES (1)": "VALUES",
    "SELECT sum(i) * 2 FROM t": "containing an aggregate",
    "SELECT count(*) FROM t GROUP BY v": "not appearing in select list",
    "SELECT stddev(i) FROM t": "stddev",
    "SELECT i AS __ivm_x FROM t": "__ivm_",
    "SELECT i, now() FROM t": "mutable",
    "SELECT a.i, b.v FROM t a LEFT JOIN t b ON a.i = b.i": "join condition",
    "SELECT a.i, b.i AS j FROM t a LEFT JOIN t b ON a.i < b.i": "equijoin",
    "SELECT a.i, b.i AS j FROM t a FULL JOIN t b ON a.i = b.i WHERE b.i IS NULL": "null-rejecting",
    "SELECT i FROM t FOR UPDATE": "FOR UPDATE",
    "SELECT i FROM t TABLESAMPLE SYSTEM (10)": "TABLESAMPLE",
}


def test_the_strict_setting_gives_pg_ivms_refusals(tmp_path: Path, spark: object) -> None:
    settings = spark_trickle.Settings(pg_ivm_strict=True)
    with spark_trickle.connect(tmp_path / "lake", spark=spark, settings=settings) as lake:
        lake.sql("CREATE TABLE t (i INT, v INT)")
        for query, told in STRICT.items():
            with pytest.raises(UnsupportedQueryError, match=told) as refused:
                lake.sql(f"SELECT pgivm.create_immv('m', $${query}$$)")
            assert refused.value.code == "PG_IVM"
        query = "SELECT v, sum(i) FROM t WHERE v > 1 GROUP BY v"
        assert value(lake, f"SELECT pgivm.create_immv('m', '{query}')") == 0
        with pytest.raises(UnsupportedQueryError, match="including IMMV"):
            lake.sql("SELECT pgivm.create_immv('n', 'SELECT v FROM m')")
