"""The change feed: net, exact, and read from as few bytes as can be."""

from __future__ import annotations

from collections import Counter

import pytest

from spark_trickle import Limits, NotFoundError, Settings, SourceChangedError, connect

pytestmark = pytest.mark.spark


def changes(lake, name: str, before: int, after: int | None = None) -> Counter:
    return Counter({tuple(r)[:-1]: r[-1] for r in lake.changes(name, before, after).collect()})


@pytest.fixture(params=["local", "scan"])
def files(request, tmp_path, spark):
    """A table whose rows are in files, changes read here or by a Spark scan."""
    limits = Limits(shipped_rows=-1) if request.param == "scan" else Limits()
    settings = Settings(inline_row_limit=50, limits=limits)
    with connect(tmp_path / "f", spark=spark, settings=settings) as lake:
        lake.sql("CREATE TABLE t (id BIGINT, v STRING, x DOUBLE)")
        lake.append("t", spark.range(200).selectExpr("id", "concat('v', id) AS v", "id / 2 AS x"))
        yield lake


def test_update_and_delete_in_files(files):
    start = files.version
    files.sql("UPDATE t SET v = 'new' WHERE id = 7")
    files.sql("DELETE FROM t WHERE id = 8")
    files.sql("DELETE FROM t WHERE id % 50 = 9")
    expected = Counter({(7, "v7", 3.5): -1, (7, "new", 3.5): 1, (8, "v8", 4.0): -1})
    expected.update({(i, f"v{i}", i / 2): -1 for i in (9, 59, 109, 159)})
    assert changes(files, "t", start) == expected
    assert changes(files, "t", start + 1, start + 2) == Counter({(8, "v8", 4.0): -1})


def test_net_over_a_window(files):
    start = files.version
    files.sql("INSERT INTO t VALUES (1000, 'fleeting', 0.0), (1001, 'stays', 1.0)")
    files.sql("UPDATE t SET v = 'a' WHERE id = 1")
    files.sql("DELETE FROM t WHERE id = 1000")
    files.sql("UPDATE t SET v = 'v1' WHERE id = 1")
    files.sql("UPDATE t SET x = x WHERE id < 20")
    assert changes(files, "t", start) == Counter({(1001, "stays", 1.0): 1})
    assert files.change_summary("t", start).changed
    files.sql("TRUNCATE TABLE t")
    everything = changes(files, "t", start)
    assert len(everything) == 200
    assert set(everything.values()) == {-1}


def test_changes_across_alter_table(files):
    start = files.version
    files.sql("DELETE FROM t WHERE id = 3")
    files.sql("ALTER TABLE t ADD COLUMN n INT DEFAULT 5")
    files.sql("ALTER TABLE t DROP COLUMN x")
    files.sql("ALTER TABLE t RENAME COLUMN v TO w")
    files.sql("DELETE FROM t WHERE id = 4")
    files.sql("INSERT INTO t VALUES (500, 'z', 6)")
    expected = Counter({(3, "v3", 5): -1, (4, "v4", 5): -1, (500, "z", 6): 1})
    assert changes(files, "t", start) == expected
    assert files.changes("t", start).columns == ["id", "w", "n", "__weight"]


def test_small_changes_of_large_files_open_no_file(files):
    start = files.version
    files.sql("UPDATE t SET v = 'new' WHERE id IN (5, 150)")
    files.sql("DELETE FROM t WHERE id BETWEEN 10 AND 12")
    files.sql(
        "MERGE INTO t USING (SELECT 20 AS id, 'm' AS v UNION ALL SELECT 900, 'n') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
    )
    summary = files.change_summary("t", start)
    assert (summary.inserted, summary.deleted, summary.bytes) == (4, 6, 0)
    assert changes(files, "t", start)[(20, "v20", 10.0)] == -1
    # What is kept is only a copy: without it the files say the same.
    with files._catalog.writing() as connection:
        connection.execute("DELETE FROM trickle_deleted_rows")
    files._catalog._plans._plans.clear()
    assert files.change_summary("t", start).bytes > 0
    assert changes(files, "t", start)[(20, "v20", 10.0)] == -1


ALIKE, RANDOM = "'the same'", "concat_ws('', uuid(), uuid(), uuid())"


@pytest.mark.parametrize(
    ("text", "most", "kept"),
    [
        (ALIKE, 50_000, True),
        (RANDOM, 50_000, False),
        (ALIKE, 19_999, False),
        ("repeat('wide', 500)", 50_000, False),
    ],
    ids=["alike", "random", "too many", "too large"],
)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET v = upper(v) WHERE id % 3 = 0",
        "MERGE INTO t USING (SELECT 3 * id AS id FROM range(20000)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = upper(v)",
    ],
    ids=["update", "merge"],
)
def test_rows_of_a_larger_statement_are_kept_packed(spark, tmp_path, statement, text, most, kept):
    """Rows that are alike take a fraction of their bytes in the catalog; random ones do not."""
    settings = Settings(inline_bytes=1 << 18, inline_delete_limit=most)
    with connect(tmp_path / "lake", spark=spark, settings=settings) as lake:
        lake.sql(f"CREATE TABLE t AS SELECT id, {text} AS v FROM range(60000)")
        start = lake.version
        assert lake.sql(statement) == 20_000
        plan = lake._catalog.changes("t", start, lake.version)
        assert (not any(change.weight < 0 for change in plan.files)) is kept
        old = lake.changes("t", start).where("__weight < 0").drop("__weight")
        was = lake.table("t", version=start).where("id % 3 = 0")
        assert old.exceptAll(was).count() == 0
        assert old.count() == 20_000


def test_deletes_that_are_rolled_back_or_own_leave_nothing(files):
    start = files.version
    with files.transaction() as tx:
        tx.sql("INSERT INTO t SELECT id + 5000, 'own', 0 FROM range(100)")
        tx.sql("DELETE FROM t WHERE id >= 5050")
        tx.sql("UPDATE t SET v = 'mine' WHERE id = 5001")
    found = changes(files, "t", start)
    assert len(found) == 50
    assert found[(5001, "mine", 0.0)] == 1
    assert set(found.values()) == {1}
    assert files.change_summary("t", start).insert_only


def test_compaction_and_expiry(files):
    start = files.version
    for i in range(5):
        files.sql(f"UPDATE t SET v = 'c{i}' WHERE id = {i}")
    before = changes(files, "t", start)
    middle = files.version
    files.compact("t")
    assert changes(files, "t", start, middle) == before
    assert changes(files, "t", middle) == Counter()
    files.sql("DELETE FROM t WHERE id = 100")
    assert changes(files, "t", middle) == Counter({(100, "v100", 50.0): -1})
    files.expire(keep_from=files.version, older_than=0)
    assert files.table("t").count() == 199
    with pytest.raises(SourceChangedError, match="expired"):
        files.changes("t", start)
    with pytest.raises(NotFoundError):
        files.table("t", version=start)


def test_duplicates_nulls_and_special_floats(lake):
    lake.sql("CREATE TABLE d (a STRING, f DOUBLE)")
    lake.sql("INSERT INTO d SELECT NULL, CAST('NaN' AS DOUBLE) FROM range(3)")
    lake.sql("INSERT INTO d VALUES (NULL, NULL), (NULL, NULL), ('x', 0.0)")
    start = lake.version
    lake.sql("DELETE FROM d WHERE f IS NULL")
    lake.sql("INSERT INTO d VALUES (NULL, NULL)")
    lake.sql("UPDATE d SET f = -0.0 WHERE a = 'x'")
    lake.sql("DELETE FROM d WHERE isnan(f)")
    lake.sql("INSERT INTO d SELECT NULL, CAST('NaN' AS DOUBLE)")
    found = lake.changes("d", start).collect()
    assert sorted((str(r.f), r["__weight"]) for r in found) == [("None", -1), ("nan", -2)]


def test_nested_values_are_compared(lake):
    lake.sql(
        "CREATE TABLE n (id INT, m MAP<STRING, INT>, l ARRAY<INT>, s STRUCT<a: INT, b: STRING>)"
    )
    lake.sql(
        "INSERT INTO n SELECT 1, map('a', 1, 'b', 2), array(1, NULL), named_struct('a', 1, 'b', NULL)"
    )
    lake.sql("INSERT INTO n SELECT 2, NULL, NULL, NULL")
    start = lake.version
    lake.sql("UPDATE n SET m = map('b', 2, 'a', 1) WHERE id = 1")
    lake.sql("UPDATE n SET l = array(5) WHERE id = 2")
    found = lake.changes("n", start).collect()
    assert sorted((r.id, r["__weight"]) for r in found) == [(2, -1), (2, 1)]


def test_windows(lake):
    lake.sql("CREATE TABLE t (a INT)")
    lake.sql("INSERT INTO t VALUES (1)")
    with pytest.raises(NotFoundError):
        lake.changes("t", lake.version, 0)
    with pytest.raises(NotFoundError, match="does not exist"):
        lake.changes("t", 0, lake.version + 5)
    with pytest.raises(NotFoundError, match="nope"):
        lake.changes("nope", 0)
    start = lake.version
    lake.sql("DROP TABLE t")
    lake.sql("CREATE TABLE t (a INT)")
    with pytest.raises(SourceChangedError, match="made anew"):
        lake.changes("t", start)
