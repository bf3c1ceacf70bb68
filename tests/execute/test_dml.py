"""DML through Spark, in both ways rows can travel: as Arrow and written by executors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import spark_trickle
from spark_trickle import BindError, InvalidDataError, NotFoundError, Settings

pytestmark = pytest.mark.spark


@pytest.fixture(params=[1000, 2], ids=["arrow", "executors"])
def lake(request, tmp_path: Path, spark):
    """The same statements with a high and a very low limit for what counts as small."""
    settings = Settings(inline_row_limit=request.param)
    with spark_trickle.connect(tmp_path / "lake", spark=spark, settings=settings) as opened:
        yield opened


def rows(frame) -> Counter:
    return Counter(tuple(row) for row in frame.collect())


def table(lake, name: str = "t") -> list[tuple]:
    return sorted(tuple(row) for row in lake.table(name).collect())


@pytest.fixture
def t(lake):
    lake.sql("CREATE TABLE t (id BIGINT NOT NULL, g INT, s STRING DEFAULT 'none')")
    lake.sql("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, NULL), (4, NULL, 'd')")
    return lake


def test_insert_select_and_overwrite(t):
    assert t.sql("INSERT INTO t SELECT id + 10, g * 2, upper(s) FROM t WHERE id <= 3") == 3
    assert t.sql("INSERT INTO t (s, id) SELECT 'x', id FROM range(50, 55)") == 5
    assert t.sql("INSERT INTO t BY NAME SELECT 7 AS g, 99 AS ID") == 1
    assert t.sql("SELECT count(*), sum(id) FROM t").collect()[0] == (13, 10 + 36 + 260 + 99)
    assert t.sql("SELECT s FROM t WHERE id = 99").collect()[0][0] == "none"
    assert t.sql("INSERT OVERWRITE t SELECT id, g, s FROM t WHERE id < 3") == 2
    assert table(t) == [(1, 10, "a"), (2, 20, "b")]
    assert t.sql("INSERT OVERWRITE t VALUES (5, 5, 'e')") == 1
    assert table(t) == [(5, 5, "e")]


def test_insert_with_ctes_and_computed_values(t):
    assert (
        t.sql("WITH c AS (SELECT max(id) m FROM t) INSERT INTO t SELECT m + 1, 0, 'w' FROM c") == 1
    )
    assert (
        t.sql("INSERT INTO t VALUES (1 + 99, length('abc'), concat('x', 'y')), (6, 6, DEFAULT)")
        == 2
    )
    assert table(t)[-3:] == [(5, 0, "w"), (6, 6, "none"), (100, 3, "xy")]


def test_update(t):
    assert t.sql("UPDATE t SET g = g + 1, s = concat(s, '!') WHERE id >= 2") == 3
    assert table(t) == [(1, 10, "a"), (2, 21, "b!"), (3, 31, None), (4, None, "d!")]
    assert t.sql("UPDATE t AS x SET x.s = DEFAULT WHERE x.g IS NULL") == 1
    assert t.sql("UPDATE main.t SET g = main.t.id WHERE main.t.id = 1") == 1
    assert t.sql("UPDATE t SET s = 'z' WHERE id > 100") == 0
    assert (
        t.sql("UPDATE t SET g = (SELECT max(id) FROM t) WHERE id IN (SELECT min(id) FROM t)") == 1
    )
    assert table(t) == [(1, 4, "a"), (2, 21, "b!"), (3, 31, None), (4, None, "none")]
    assert t.sql("UPDATE t SET s = NULL") == 4


def test_update_many_times(t):
    for i in range(4):
        assert t.sql(f"UPDATE t SET g = {i} WHERE id <= 3") == 3
    assert table(t) == [(1, 3, "a"), (2, 3, "b"), (3, 3, None), (4, None, "d")]
    changes = rows(t.changes("t", t.version - 4, t.version))
    assert changes == Counter(
        [(1, 10, "a", -1), (1, 3, "a", 1), (2, 20, "b", -1), (2, 3, "b", 1)]
        + [(3, 30, None, -1), (3, 3, None, 1)]
    )


def test_delete_and_truncate(t):
    assert t.sql("DELETE FROM t AS d WHERE d.g > 15") == 2
    assert table(t) == [(1, 10, "a"), (4, None, "d")]
    assert t.sql("DELETE FROM t WHERE g IS NULL OR EXISTS (SELECT 1 FROM t x WHERE x.id > 50)") == 1
    assert t.sql("DELETE FROM t WHERE id = 77") == 0
    assert t.sql("INSERT INTO t SELECT id, 0, 'r' FROM range(20)") == 20
    assert t.sql("TRUNCATE TABLE t") == 21
    assert t.sql("DELETE FROM t") == 0
    assert table(t) == []


def test_duplicates_are_deleted_one_by_one(lake):
    lake.sql("CREATE TABLE d (a INT)")
    lake.sql("INSERT INTO d VALUES (1), (1), (1), (2)")
    with lake.transaction() as tx:
        # MERGE with a row number picks exactly one of three equal rows.
        tx.sql("INSERT INTO d SELECT 1 FROM range(1)")
    assert rows(lake.table("d")) == Counter({(1,): 4, (2,): 1})
    assert rows(lake.changes("d", 0, lake.version)) == Counter([(1, 4), (2, 1)])


MERGE_SOURCE = (
    "(SELECT * FROM VALUES (2, 200, 'B'), (3, 300, 'C'), (9, 900, 'I') AS v(id, g, s)) AS n"
)


def test_merge_all_clauses(t):
    affected = t.sql(
        f"""MERGE INTO t AS o USING {MERGE_SOURCE} ON o.id = n.id
      WHEN MATCHED AND n.g = 200 THEN UPDATE SET g = n.g + o.g, s = lower(n.s)
      WHEN MATCHED AND n.g / 0.0 > 0 THEN DELETE
      WHEN MATCHED THEN DELETE
      WHEN NOT MATCHED AND n.id > 100 THEN INSERT *
      WHEN NOT MATCHED BY TARGET THEN INSERT (id, s) VALUES (n.id, n.s)
      WHEN NOT MATCHED BY SOURCE AND o.id = 1 THEN UPDATE SET s = 'alone'
      WHEN NOT MATCHED BY SOURCE THEN DELETE""".replace("n.g / 0.0 > 0", "n.g = -1")
    )
    assert affected == 5
    assert table(t) == [(1, 10, "alone"), (2, 220, "b"), (9, None, "I")]


def test_merge_stars(t):
    affected = t.sql(f"""MERGE INTO t USING {MERGE_SOURCE} ON t.id = n.id
      WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""")
    assert affected == 3
    assert table(t) == [(1, 10, "a"), (2, 200, "B"), (3, 300, "C"), (4, None, "d"), (9, 900, "I")]


def test_merge_computes_values_only_where_a_clause_acts(t):
    t.sql("CREATE TABLE src (id BIGINT, d INT)")
    t.sql("INSERT INTO src VALUES (1, 0), (2, 5), (7, 0)")
    affected = t.sql("""MERGE INTO t USING src AS s ON t.id = s.id
      WHEN MATCHED AND s.d = 0 THEN DELETE
      WHEN MATCHED THEN UPDATE SET g = 100 DIV s.d
      WHEN NOT MATCHED AND s.d <> 0 THEN INSERT (id, g) VALUES (s.id, 1 DIV s.d)""")
    assert affected == 2
    assert table(t) == [(2, 20, "b"), (3, 30, None), (4, None, "d")]


def test_merge_from_itself_and_other_versions(t):
    before = t.version
    t.sql("UPDATE t SET g = 0, s = 'gone'")
    affected = t.sql(f"""MERGE INTO t USING t VERSION AS OF {before} AS old ON t.id = old.id
      WHEN MATCHED AND old.id < 3 THEN UPDATE SET *""")
    assert affected == 2
    assert table(t) == [(1, 10, "a"), (2, 20, "b"), (3, 0, "gone"), (4, 0, "gone")]


def test_merge_matched_twice(t):
    source = "(SELECT * FROM VALUES (1, 5), (1, 6) AS v(id, g)) AS n"
    before = t.version
    with pytest.raises(BindError, match="more than one row of the source"):
        t.sql(f"MERGE INTO t USING {source} ON t.id = n.id WHEN MATCHED THEN UPDATE SET g = n.g")
    assert t.version == before
    assert t.sql(f"MERGE INTO t USING {source} ON t.id = n.id WHEN MATCHED THEN DELETE") == 1
    assert [row[0] for row in table(t)] == [2, 3, 4]


def test_create_table_as_select(t):
    t.sql("CREATE TABLE copy PRIMARY KEY (id) AS SELECT id, g * 1.5 AS h, array(s) AS l FROM t")
    assert table(t, "copy")[1] == (2, 30.0, ["b"])
    assert t.sql("CREATE TABLE IF NOT EXISTS copy AS SELECT 1 AS a") is None
    with pytest.raises(spark_trickle.AlreadyExistsError, match="copy"):
        t.sql("CREATE TABLE copy AS SELECT 1 AS a")
    t.sql("CREATE OR REPLACE TABLE copy AS SELECT 5 AS a")
    assert table(t, "copy") == [(5,)]


def test_small_changes_of_large_tables_write_no_file(tmp_path, spark):
    """A Spark write shows as a file; up to the limit there is none."""
    with spark_trickle.connect(
        tmp_path / "s", spark=spark, settings=Settings(inline_row_limit=50)
    ) as lake:
        lake.sql("CREATE TABLE s (id BIGINT, v STRING)")
        lake.append("s", spark.range(2000).selectExpr("id", "'v' AS v"))

        def files() -> set[Path]:
            return set((tmp_path / "s" / "data").rglob("*"))

        before = files()
        assert lake.sql("UPDATE s SET v = 'w' WHERE id < 50") == 50
        assert lake.sql("DELETE FROM s WHERE id >= 1500") == 500
        assert lake.sql("INSERT INTO s SELECT id, 'x' FROM range(50)") == 50
        assert lake.append("s", spark.range(10).selectExpr("id", "'y' AS v")) == 10
        merge = "MERGE INTO s USING (SELECT id FROM range(90, 110)) n ON s.id = n.id + 1400 "
        assert (
            lake.sql(
                merge + "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (n.id)"
            )
            == 20
        )
        assert files() == before
        assert lake.sql("UPDATE s SET v = 'z' WHERE id < 51") == 51 + 50 + 10
        assert len(files()) == len(before) + 1


def test_large_writes_are_sorted_and_pruned(tmp_path, spark):
    settings = Settings(inline_row_limit=10)
    with spark_trickle.connect(tmp_path / "k", spark=spark, settings=settings) as lake:
        lake.sql("CREATE TABLE k (id BIGINT, v STRING) CLUSTER BY (id)")
        frame = spark.range(20_000).selectExpr("(id * 7919) % 20000 AS id", "cast(id AS STRING) v")
        assert lake.append("k", frame.repartition(4)) == 20_000
        files = lake._catalog.scan("k").files
        column = lake._catalog.table("k").columns[0].id
        ranges = sorted((f.bounds[column].low, f.bounds[column].high) for f in files)
        assert ranges[0][0] == 0
        assert ranges[-1][1] == 19_999
        assert all(a[1] < b[0] for a, b in zip(ranges, ranges[1:], strict=False))


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        (
            "INSERT INTO t SELECT 'x', 1, 's'",
            InvalidDataError,
            "column id of t has the type bigint",
        ),
        ("INSERT INTO t SELECT NULL, 1, 's'", InvalidDataError, "id"),
        ("INSERT INTO t SELECT 1, 3000000000, 's'", InvalidDataError, "3000000000.*column g"),
        ("INSERT INTO t (g) SELECT 1", InvalidDataError, "column id of t is NOT NULL"),
        ("INSERT INTO t SELECT 1, 2", BindError, "3 columns of t.*the query has 2"),
        ("INSERT INTO t (id, nope) SELECT 1, 2", BindError, "t has no column nope"),
        ("INSERT INTO t (id, id) SELECT 1, 2", BindError, "named twice"),
        ("INSERT INTO nope SELECT 1", NotFoundError, "nope"),
        ("UPDATE t SET nope = 1", BindError, "t has no column nope"),
        ("UPDATE t SET g = 1, g = 2", BindError, "assigned twice"),
        ("UPDATE t SET g = 'text'", InvalidDataError, "column g of t"),
        ("UPDATE t SET id = NULL WHERE id = 1", InvalidDataError, "id"),
        ("UPDATE t SET g = id + 3000000000", InvalidDataError, "30000000.*column g"),
        ("UPDATE t SET g = missing + 1", BindError, "missing"),
        ("DELETE FROM t WHERE missing = 1", BindError, "missing"),
        ("DELETE FROM nope WHERE a = 1", NotFoundError, "nope"),
        ("MERGE INTO t USING nope ON TRUE WHEN MATCHED THEN DELETE", NotFoundError, "nope"),
        ("SELECT * FROM nope", NotFoundError, "nope"),
        ("SELECT id + FROM t", spark_trickle.ParseError, "yntax"),
        ("CREATE TABLE t (a INT)", spark_trickle.AlreadyExistsError, "t"),
        ("CREATE TABLE u (a WIBBLE)", InvalidDataError, "WIBBLE"),
    ],
)
def test_bad_statements_change_nothing(t, statement, error, message):
    before, version = table(t), t.version
    with pytest.raises(error, match=message) as caught:
        t.sql(statement)
    assert "java" not in str(caught.value).lower()
    assert "\tat " not in str(caught.value)
    assert caught.value.__cause__ is None
    assert (table(t), t.version) == (before, version)


def test_errors_point_into_the_users_text(t):
    sql = "SELECT t.id,\n       wrong_column\nFROM t WHERE g > 1"
    with pytest.raises(BindError) as caught:
        t.sql(sql)
    position = caught.value.position
    assert position is not None
    assert (position.line, position.column, position.length) == (2, 8, len("wrong_column"))
    with pytest.raises(BindError) as caught:
        t.sql("UPDATE t SET g = g + worse WHERE id = 1")
    assert caught.value.position is not None
    assert caught.value.position.column == len("UPDATE t SET g = g + ") + 1
