"""What pg_ivm's own suite checks of its views, on IMMEDIATE stream tables.

After every statement inside the transaction, after its rollback and after its commit the contents
equal the query over the same tables, computed by DuckDB. The letters are those of the scenarios:
basics, duplicates, aggregates, self joins, EXISTS, subqueries, CTEs, NULLs, outer joins.
"""

from __future__ import annotations

import pytest

from spark_trickle import Lake, UserError
from support.watched import Watched

pytestmark = pytest.mark.spark


def test_a_joins_with_dropped_and_renamed_columns(lake: Lake) -> None:
    lake.sql("CREATE TABLE a (gone INT, i INT, x INT)")
    lake.sql("CREATE TABLE b (i INT, gone INT, y INT)")
    lake.sql("ALTER TABLE a DROP COLUMN gone")
    lake.sql("ALTER TABLE b DROP COLUMN gone")
    lake.sql("INSERT INTO a VALUES (1, 10), (2, 20), (3, 30)")
    lake.sql("INSERT INTO b VALUES (1, 100), (2, 200), (9, 900)")
    views = {
        "joined": "SELECT i, x, y FROM a JOIN b USING (i)",
        "half": "SELECT x.i FROM (SELECT i FROM a WHERE i % 2 = 0) x",
    }
    watched = Watched(lake, ["a", "b"], views)
    watched.run(
        "INSERT INTO b VALUES (3, 300), (3, 301)",
        "UPDATE a SET x = x + 1 WHERE i = 1",
        "DELETE FROM b WHERE i = 2",
    )
    watched.run("TRUNCATE TABLE a", "INSERT INTO a VALUES (9, 90)", "TRUNCATE TABLE b")


def test_b_duplicates_and_c_aggregates(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (k STRING, v INT, d DECIMAL(8,2))")
    lake.sql("INSERT INTO t VALUES ('a', 1, 1.00), ('a', 2, 2.00), ('b', 3, 0.10), (NULL, 4, 1)")
    views = {
        "bag_of": "SELECT k FROM t",
        "set_of": "SELECT DISTINCT k FROM t",
        "sums": "SELECT k, sum(v) AS s, count(v) AS n, avg(v) AS a FROM t GROUP BY k",
        "rows_of": "SELECT k, sum(v) AS s, count(*) AS n FROM t GROUP BY k",
        "total": "SELECT sum(v) AS s, count(v) AS n, avg(v) AS a FROM t",
        "ends": "SELECT k, min(v) AS lo, max(v) AS hi FROM t GROUP BY k",
        "end_of_all": "SELECT min(v) AS lo, max(v) AS hi FROM t",
    }
    watched = Watched(lake, ["t"], views)
    watched.run(
        "INSERT INTO t VALUES ('a', 1, 1.00), ('b', 7, 3.33), ('c', NULL, NULL)",
        "UPDATE t SET v = v + 10 WHERE k = 'a' AND v = 1",
        "UPDATE t SET v = 0 WHERE k IS NULL",
        "DELETE FROM t WHERE v IN (2, 3, 11)",
        "DELETE FROM t",
        "INSERT INTO t VALUES ('z', 5, 5)",
    )
    watched.run("TRUNCATE TABLE t")


def test_d_self_joins_and_several_changes_at_once(lake: Lake) -> None:
    lake.sql("CREATE TABLE r (i INT, v INT)")
    lake.sql("CREATE TABLE s (i INT, w INT)")
    lake.sql("INSERT INTO r VALUES (1, 10), (2, 20), (2, 21)")
    lake.sql("INSERT INTO s VALUES (1, 1), (2, 2)")
    views = {
        "twice": "SELECT x.v AS xv, y.v AS yv FROM r x JOIN r y ON x.i = y.i",
        "pairs": "SELECT r.v, s.w FROM r JOIN s ON r.i = s.i",
        "thrice": "SELECT x.v, y.v AS z, s.w FROM r x JOIN r y ON x.i = y.i JOIN s ON s.i = x.i",
    }
    watched = Watched(lake, ["r", "s"], views)
    watched.run(
        "INSERT INTO r VALUES (1, 11), (3, 30)",
        "UPDATE r SET v = v + 100 WHERE i = 2",
        "DELETE FROM r WHERE v = 10",
        "INSERT INTO s VALUES (3, 3), (3, 4)",
        "DELETE FROM s WHERE i = 2",
    )
    tx = lake.transaction()
    with tx.savepoint():
        tx.sql("INSERT INTO r VALUES (7, 70)")
    tx.sql("INSERT INTO r VALUES (7, 71)")
    watched.check(tx, "both rows meet each other")
    tx.commit()
    watched.check(lake)


def test_e_exists(lake: Lake) -> None:
    lake.sql("CREATE TABLE o (i INT, v INT)")
    lake.sql("CREATE TABLE n (i INT, w INT)")
    lake.sql("INSERT INTO o VALUES (1, 10), (1, 10), (2, 20), (3, 30)")
    lake.sql("INSERT INTO n VALUES (1, 1), (1, 2)")
    exists = "EXISTS (SELECT 1 FROM n WHERE n.i = o.i)"
    views = {
        "there": f"SELECT i, v FROM o WHERE {exists}",
        "some_there": f"SELECT i, v FROM o WHERE {exists} AND v < 25",
        "once_there": f"SELECT DISTINCT i, v FROM o WHERE {exists}",
        "not_there": f"SELECT i, v FROM o WHERE NOT {exists}",
    }
    Watched(lake, ["o", "n"], views).run(
        "INSERT INTO o VALUES (2, 20), (4, 40), (1, 11)",
        "INSERT INTO n VALUES (2, 1)",
        "INSERT INTO n VALUES (4, 1), (2, 2)",
        "UPDATE o SET i = 3 WHERE i = 4",
        "UPDATE n SET i = 3 WHERE i = 4",
        "UPDATE n SET w = 9",
        "DELETE FROM o WHERE v = 11",
        "DELETE FROM n WHERE i IN (1, 2)",
        "INSERT INTO n VALUES (1, 5), (2, 6)",
    )


def test_f_subqueries_and_g_ctes(lake: Lake) -> None:
    lake.sql("CREATE TABLE a (i INT, v INT)")
    lake.sql("CREATE TABLE b (i INT, w INT)")
    lake.sql("INSERT INTO a VALUES (1, 10), (2, 20)")
    lake.sql("INSERT INTO b VALUES (1, 1), (3, 3)")
    views = {
        "f1": "SELECT a.v, x.w FROM a JOIN (SELECT i, w FROM b WHERE w > 0) x ON a.i = x.i",
        "f2": "SELECT v, w FROM (SELECT a.v, b.w FROM a JOIN b ON a.i = b.i) x",
        "f3": "SELECT v, w FROM (SELECT a.v, y.w FROM a JOIN (SELECT * FROM b) y ON a.i = y.i) x",
        "g1": "WITH c AS (SELECT i, w FROM b) SELECT a.v, c.w FROM a JOIN c ON a.i = c.i",
        "g2": "WITH c AS (SELECT * FROM a), d AS (SELECT * FROM b) "
        "SELECT c.v, d.w FROM c JOIN d ON c.i = d.i",
        "g3": "WITH c AS (SELECT * FROM a) SELECT v, w FROM "
        "(WITH d AS (SELECT * FROM b) SELECT c.v, d.w FROM c JOIN d ON c.i = d.i) x",
        "g7": "WITH c AS (WITH d AS (SELECT i, v FROM a) SELECT d.v, b.w FROM d JOIN b "
        "ON d.i = b.i) SELECT * FROM c",
        "g8": "WITH c AS (SELECT i, v FROM a) SELECT x.v, y.v AS z FROM c x JOIN c y ON x.i = y.i",
    }
    Watched(lake, ["a", "b"], views).run(
        "INSERT INTO a VALUES (3, 30), (1, 11)",
        "INSERT INTO b VALUES (2, 2)",
        "DELETE FROM a WHERE i = 1",
    )


def test_h_nulls(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (k INT, v INT)")
    lake.sql("INSERT INTO t VALUES (NULL, 1), (NULL, 2), (1, NULL)")
    views = {
        "plain": "SELECT k, v FROM t",
        "sums": "SELECT k, sum(v) AS s FROM t GROUP BY k",
        "ends": "SELECT k, min(v) AS lo, max(v) AS hi FROM t GROUP BY k",
    }
    Watched(lake, ["t"], views).run(
        "UPDATE t SET v = 5 WHERE v IS NULL",
        "INSERT INTO t VALUES (NULL, NULL), (2, NULL), (NULL, 7)",
        "UPDATE t SET v = v + 1",
        "DELETE FROM t WHERE v = 2",
        "DELETE FROM t WHERE v = 8",
        "DELETE FROM t WHERE k IS NULL",
    )


KINDS = ("FULL", "LEFT", "RIGHT", "INNER")


def test_i_outer_joins(lake: Lake) -> None:
    lake.sql("CREATE TABLE r (i INT, a INT)")
    lake.sql("CREATE TABLE s (i INT, j INT)")
    lake.sql("CREATE TABLE t (j INT, b INT)")
    lake.sql("INSERT INTO r VALUES (1, 1), (2, 2), (2, 3), (3, 4)")
    lake.sql("INSERT INTO s VALUES (2, 20), (2, 21), (3, 20), (9, 21), (8, 80)")
    lake.sql("INSERT INTO t VALUES (20, 1), (20, 2), (90, 3)")
    outputs = "r.a, s.i AS si, s.j AS sj, t.b"
    views = {
        f"{one}_{two}".lower(): f"SELECT {outputs} FROM r {one} JOIN s ON r.i = s.i "
        f"{two} JOIN t ON s.j = t.j"
        for one in KINDS
        for two in KINDS
        if (one, two) != ("INNER", "INNER")
    }
    views["once"] = (
        f"SELECT DISTINCT {outputs} FROM r FULL JOIN s ON r.i = s.i FULL JOIN t ON s.j = t.j"
    )
    views["strict"] = "SELECT r.a, s.j FROM r FULL JOIN s ON r.i = s.i WHERE s.j > 20"
    views["itself"] = "SELECT x.a, y.a AS b FROM r x FULL JOIN r y ON x.i = y.a"
    watched = Watched(lake, ["r", "s", "t"], views)
    watched.run(
        "INSERT INTO r VALUES (9, 5), (2, 6), (7, 7)",
        "INSERT INTO s VALUES (1, 90), (7, 20), (NULL, 20), (3, NULL)",
        "INSERT INTO t VALUES (80, 4), (21, 5), (NULL, 6)",
        "DELETE FROM r WHERE i IN (2, 9)",
        "DELETE FROM s WHERE i = 2 OR i IS NULL",
        "DELETE FROM t WHERE j = 20",
        "TRUNCATE TABLE s",
    )


def test_i21_truncated_inputs_of_outer_joins(lake: Lake) -> None:
    for name in "rstu":
        lake.sql(f"CREATE TABLE {name} (i INT, j INT)")
        lake.sql(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    views = {
        "four": "SELECT r.i AS a, s.i AS b, t.i AS c, u.i AS d FROM (r FULL JOIN s ON r.i = s.i) "
        "FULL JOIN (t FULL JOIN u ON t.j = u.j) ON r.i = u.i",
        "left_of": "SELECT r.i AS a, x.b, x.c FROM r LEFT JOIN (SELECT s.i AS b, t.j AS c FROM s "
        "CROSS JOIN t FULL JOIN u ON t.j = u.j) x ON r.i = x.b",
    }
    Watched(lake, list("rstu"), views).run(
        *(f"TRUNCATE TABLE {name}" for name in "rstu"),
        *(f"INSERT INTO {name} VALUES (2, 3), (3, 3)" for name in "rst"),
    )


def test_j_direct_writes_are_refused(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (a INT)")
    lake.create_stream_table("m", "SELECT a FROM t", refresh_mode="IMMEDIATE")
    for statement in (
        "INSERT INTO m VALUES (1)",
        "UPDATE m SET a = 2",
        "DELETE FROM m",
        "TRUNCATE TABLE m",
        "DROP TABLE t",
    ):
        with pytest.raises(UserError, match="m"):
            lake.sql(statement)
