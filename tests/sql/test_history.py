"""Versions and who made them; views as DuckDB sees them: all without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import spark_trickle
from spark_trickle import DependencyError, Settings, UserError
from support import duck


def test_history_says_who_what_and_how_much(tmp_path):
    with spark_trickle.connect(tmp_path / "lake", settings=Settings(author="nightly")) as lake:
        lake.sql("CREATE TABLE a (x INT); CREATE TABLE b (x INT)")
        with lake.transaction(message="it's Monday", author="ada", extra='{"run": 7}') as tx:
            tx.sql("INSERT INTO a VALUES (1), (2); INSERT INTO b VALUES (3)")
        lake.sql("TRUNCATE TABLE a")
        lake.sql("ALTER TABLE b RENAME TO c; DROP TABLE a")
        newest, *_, first = lake.history()
        assert (newest.changes, newest.tables) == (("drop table",), ("a",))
        assert (first.version, first.changes) == (0, ("create schema",))
        emptied, filled, made = lake.history()[2:5]
        assert (emptied.changes, emptied.rows_deleted, emptied.author) == (
            ("delete",),
            2,
            "nightly",
        )
        said = (filled.author, filled.message, filled.extra)
        assert said == ("ada", "it's Monday", '{"run": 7}')
        assert (filled.tables, filled.rows, filled.rows_inserted) == (("a", "b"), 3, 3)
        assert (made.tables, made.message) == (("b",), None)
        assert [v.version for v in lake.history("c")] == [5, 3, 2]
        assert [v.version for v in lake.history(limit=2)] == [6, 5]
        assert datetime.now(UTC) - newest.time < timedelta(minutes=5)
        shown = lake.listing("DESCRIBE HISTORY c LIMIT 2").to_pylist()
        assert [(row["version"], row["message"]) for row in shown] == [
            (5, None),
            (3, "it's Monday"),
        ]
        assert shown[1]["rows"] == 1
    catalog = f"ATTACH 'ducklake:sqlite:{tmp_path}/lake/catalog.sqlite' AS lk (READ_ONLY)"
    asked = (
        "SELECT author, commit_message, commit_extra_info FROM lk.snapshots() WHERE snapshot_id = 3"
    )
    assert duck.run([catalog], [asked]) == [[["ada", "it's Monday", '{"run": 7}']]]


def test_expired_versions_have_no_counts(dry_lake):
    dry_lake.sql("CREATE TABLE a (x INT); INSERT INTO a VALUES (1); INSERT INTO a VALUES (2)")
    dry_lake.expire(keep_from=3, older_than=0)
    assert [(v.version, v.rows) for v in dry_lake.history("a")] == [(3, None)]


def test_views_are_duckdbs_views_too(tmp_path):
    with spark_trickle.connect(tmp_path / "lake") as lake:
        lake.sql(
            """CREATE TABLE o (id INT, n INT); INSERT INTO o VALUES (1, 5), (2, 7);
            CREATE SCHEMA s; CREATE VIEW v AS SELECT id, n * 2 AS twice FROM o WHERE n > 5;
            CREATE VIEW s.w (a) COMMENT 'short' AS SELECT id FROM main.v; CREATE VIEW gone AS SELECT 1 AS x;
            DROP VIEW gone; COMMENT ON VIEW v IS 'over'"""
        )
        at = lake.version
        lake.sql("CREATE OR REPLACE VIEW v AS SELECT id, n FROM o")
    attach = f"ATTACH 'ducklake:sqlite:{tmp_path}/lake/catalog.sqlite' AS lk (READ_ONLY)"
    then = attach.replace("READ_ONLY", f"READ_ONLY, SNAPSHOT_VERSION {at}").replace(
        "AS lk", "AS old"
    )
    names = (
        "SELECT schema_name, view_name, comment FROM duckdb_views() WHERE NOT internal ORDER BY ALL"
    )
    found = duck.run([attach, "USE lk"], [names, "FROM lk.v ORDER BY id"])
    assert found == [[["main", "v", None], ["s", "w", "short"]], [["1", "5"], ["2", "7"]]]
    assert duck.run([then, "USE old"], ["FROM old.v", "FROM old.s.w"]) == [[["2", "14"]], [["2"]]]


def test_views_that_duckdb_made_are_listed(tmp_path):
    made = ["CREATE TABLE t (a INT)", "CREATE VIEW v AS SELECT a + 1 AS b FROM t"]
    duck.write(tmp_path / "lake", made)
    with spark_trickle.connect(tmp_path / "lake") as lake:
        listed = lake.listing("SHOW TABLES").to_pylist()
        assert [(row["tableName"], row["kind"]) for row in listed] == [
            ("t", "TABLE"),
            ("v", "VIEW"),
        ]
        assert lake.listing("DESCRIBE v").num_rows in (0, 1)
        with pytest.raises(UserError, match="written in the SQL of duckdb"):
            lake.explain("SELECT b FROM v")
        lake.sql("CREATE OR REPLACE VIEW v AS SELECT a + 2 AS b FROM t")
        assert "Incremental" in lake.explain("SELECT b FROM v")
        lake.sql("DROP VIEW v; DROP TABLE t")


def test_what_views_need_cannot_go(dry_lake):
    dry_lake.sql(
        """CREATE TABLE o (id INT, n INT, spare INT); CREATE VIEW v AS SELECT id, n FROM o;
        CREATE VIEW w (a, b) AS SELECT * FROM v"""
    )
    for statement in (
        "DROP TABLE o",
        "ALTER TABLE o RENAME TO p",
        "ALTER TABLE o DROP COLUMN n",
        "ALTER TABLE o RENAME COLUMN id TO key",
        "CREATE OR REPLACE TABLE o (id INT)",
        "DROP VIEW v",
        "CREATE OR REPLACE VIEW v AS SELECT id FROM o",
    ):
        with pytest.raises(DependencyError, match="views .* read it"):
            dry_lake.sql(statement)
    dry_lake.sql("ALTER TABLE o DROP COLUMN spare; DROP VIEW w; DROP VIEW v; DROP TABLE o")
    assert dry_lake.tables() == []
