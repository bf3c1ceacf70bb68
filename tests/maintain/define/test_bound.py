"""What a query means is fixed when it is created: columns and tables are known by identity."""

from __future__ import annotations

import pytest

from spark_trickle import Lake, Settings, connect
from spark_trickle.errors import DependencyError, SourceChangedError
from spark_trickle.storage.records import NewColumn
from support.streams import assert_exact, refreshed, rows

pytestmark = pytest.mark.spark

FULL_ONLY = "row_number() OVER (ORDER BY k, z) AS n"


@pytest.fixture
def pair(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE a (k INT, z INT)")
    lake.sql("INSERT INTO a VALUES (1, 1), (2, 7)")
    lake.sql("CREATE TABLE b (k INT, w INT)")
    lake.sql("INSERT INTO b VALUES (1, 10), (7, 70)")
    return lake


MEANINGS = {
    "outer": ("SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = z)", [(1,), (2,), (3,)]),
    "star": ("SELECT * FROM b", [(1, 10), (3, 30), (7, 70)]),
    "natural": ("SELECT * FROM a NATURAL JOIN b", [(1, 1, 10), (3, 3, 30)]),
    "alias": ("SELECT k + 1 AS z, z * 2 AS d FROM b", [(2, 4), (4, 8), (8, 16)]),
    "scalar": (
        "SELECT k, (SELECT max(w) FROM b WHERE b.k = z) AS m FROM a",
        [(1, 10), (2, 70), (3, 30)],
    ),
    "whole": (f"SELECT *, {FULL_ONLY} FROM a", [(1, 1, 1), (2, 7, 2), (3, 3, 3)]),
    "travel": ("SELECT * FROM b VERSION AS OF 4", [(1, 10), (7, 70)]),
}


def test_a_column_added_later_changes_no_meaning(pair: Lake) -> None:
    """Every one of these would read another column, or one more, if it were bound again."""
    by_text = {"whole": "FULL", "travel": "FULL"}
    for name, (query, _) in MEANINGS.items():
        mode = "AUTO" if name in by_text else "DIFFERENTIAL"
        pair.create_stream_table(name, query, refresh_mode=mode)
    pair.sql("ALTER TABLE b ADD COLUMN z INT DEFAULT 5")
    pair.sql("ALTER TABLE a ADD COLUMN w INT")
    assert {report.effective_mode for report in pair.refresh_all()} == {"NO_DATA"}
    pair.sql("INSERT INTO b VALUES (3, 30, 99)")
    pair.sql("INSERT INTO a VALUES (3, 3, 3)")
    modes = {report.name: report.effective_mode for report in pair.refresh_all()}
    assert modes == {**dict.fromkeys(MEANINGS, "DIFFERENTIAL"), **by_text}
    for name, (_, expected) in MEANINGS.items():
        assert rows(pair, name) == expected, name
        assert not pair.verify(name), name
    for name in ("outer", "natural"):
        report = pair.refresh_stream_table(name, full=True)
        assert (report.effective_mode, report.rows_inserted) == ("FULL", 0), name
    pair.repair_stream_table("outer")
    assert rows(pair, "outer") == MEANINGS["outer"][1]


def _made(lake: Lake) -> None:
    lake.sql("CREATE TABLE `Odd Name` (`K k` INT, v INT, w INT, PRIMARY KEY (`K k`))")
    lake.sql("INSERT INTO `odd name` VALUES (1, 10, 100), (2, 20, 200)")
    lake.sql("CREATE TABLE t (k INT)")
    lake.sql("INSERT INTO t VALUES (1), (2)")
    joined = "SELECT o.`k K`, v - w AS d FROM `ODD name` o JOIN t ON `K k` = t.k"
    lake.create_stream_table("joined", joined, refresh_mode="DIFFERENTIAL")
    lake.create_stream_table("sums", "SELECT sum(v) AS s FROM `Odd Name`")
    numbered = "SELECT v, row_number() OVER (ORDER BY w) AS n FROM `Odd Name`"
    lake.create_stream_table("numbered", numbered)
    lake.create_stream_table("over", "SELECT max(d) AS m FROM joined")


def _renamed(lake: Lake) -> None:
    """Two columns swap their names, both tables get others, new ones take their places."""
    for column, to in [("v", "x"), ("w", "v"), ("x", "w"), ("K k", "id")]:
        lake.sql(f"ALTER TABLE `Odd Name` RENAME COLUMN `{column}` TO `{to}`")
    lake.sql("ALTER TABLE `Odd Name` RENAME TO plain")
    lake.sql("ALTER TABLE t RENAME TO u")
    lake.sql("CREATE TABLE t (k INT)")
    lake.sql("INSERT INTO t VALUES (9)")
    lake.sql("CREATE TABLE `odd name` (v STRING)")
    lake.sql("ALTER STREAM TABLE joined RENAME TO other")


@pytest.mark.parametrize("inlined", [0, 1000], ids=["files", "inlined"])
def test_renamed_tables_and_columns(tmp_path, spark, inlined: int) -> None:
    settings = Settings(inline_row_limit=inlined)
    with connect(tmp_path / "lake", spark=spark, settings=settings) as lake:
        _made(lake)
        _renamed(lake)
        assert {r.effective_mode for r in lake.refresh_all()} == {"NO_DATA"}
        lake.sql("INSERT INTO plain (id, v, w) VALUES (3, 3, 30)")
        lake.sql("DELETE FROM plain WHERE id = 1")
        lake.sql("INSERT INTO u VALUES (3)")
        reports = {report.name: report for report in lake.refresh_all()}
        assert reports["other"].effective_mode == "DIFFERENTIAL"
        assert set(reports["other"].sources) == {"plain", "u"}
        assert reports["other"].delta_rows == {"plain": 2, "u": 1}
        assert set(reports["over"].sources) == {"other"}
        expected = {
            "other": [(2, -180), (3, 27)],
            "sums": [(50,)],
            "numbered": [(20, 2), (30, 1)],
            "over": [(27,)],
        }
        assert {name: rows(lake, name) for name in expected} == expected
        assert_exact(lake, *expected)
        for name in ("other", "numbered"):
            assert lake.repair_stream_table(name).rows_inserted == 0, name
        info = {seen.name: seen for seen in lake.stream_tables()}
        assert list(info["other"].sources) == ["plain", "u"]
        assert set(info["other"].frontier) == {"plain", "u"}
        assert list(info["other"].dependents) == ["over"]
        assert info["other"].staleness == 0.0
        with pytest.raises(DependencyError, match="column w of plain.*numbered"):
            lake.sql("ALTER TABLE plain DROP COLUMN w")
        lake.compact()
        lake.sql("UPDATE plain SET w = 21 WHERE id = 2")
        refreshed(lake, "other", "DIFFERENTIAL")
        assert rows(lake, "other") == [(2, -179), (3, 27)]


def test_dropped_columns(pair: Lake) -> None:
    pair.sql("ALTER TABLE b ADD COLUMN v STRING DEFAULT 'old'")
    pair.create_stream_table("counted", "SELECT count(*) AS n FROM b")
    pair.create_stream_table("s", "SELECT w FROM b", refresh_mode="DIFFERENTIAL")
    numbered = "SELECT w, row_number() OVER (ORDER BY w) AS n FROM b"
    pair.create_stream_table("numbered", numbered)
    pair.create_stream_table("sampled", "SELECT w FROM b TABLESAMPLE (100 PERCENT)")
    with pytest.raises(DependencyError, match="column w of b cannot be dropped.*numbered.*s"):
        pair.sql("ALTER TABLE b DROP COLUMN W")
    pair.sql("ALTER TABLE b DROP COLUMN v")
    pair.sql("ALTER TABLE b DROP COLUMN k")
    pair.sql("INSERT INTO b VALUES (80)")
    pair.sql("ALTER TABLE b ADD COLUMN k DATE")
    pair.sql("DELETE FROM b WHERE w = 10")
    assert {r.effective_mode for r in pair.refresh_all()} == {"DIFFERENTIAL", "FULL"}
    assert rows(pair, "counted") == [(2,)]
    assert rows(pair, "s") == rows(pair, "sampled") == [(70,), (80,)]
    assert_exact(pair, "counted", "s", "numbered")
    with pair._catalog.begin() as tx:  # as another tool would, without asking
        tx.drop_column("b", "w")
        tx.add_column("b", NewColumn("w", "int"))
    for name in ("s", "numbered", "sampled"):
        with pytest.raises(SourceChangedError, match=f"stream table {name} .*w was dropped"):
            pair.refresh_stream_table(name)
    pair.repair_stream_table("s")
    assert rows(pair, "s") == [(None,), (None,)]
    refreshed(pair, "counted", "NO_DATA")


def test_create_or_replace_binds_anew(pair: Lake) -> None:
    pair.create_stream_table("everything", "SELECT * FROM b")
    again = {"or_replace": True}
    assert pair.create_stream_table("everything", "SELECT * FROM b", **again) is None
    pair.sql("ALTER TABLE b ADD COLUMN z INT DEFAULT 5")
    report = pair.create_stream_table("everything", "SELECT * FROM b", **again)
    assert report is not None
    assert rows(pair, "everything") == [(1, 10, 5), (7, 70, 5)]


def test_a_lake_older_than_bindings(pair: Lake) -> None:
    pair.create_stream_table("outer", MEANINGS["outer"][0], refresh_mode="DIFFERENTIAL")
    with pair._catalog.writing() as connection:
        connection.execute("DROP TABLE trickle_bound")
    pair.__dict__.pop("_streams", None)
    pair.sql("ALTER TABLE b ADD COLUMN z INT DEFAULT 5")
    pair.sql("INSERT INTO a VALUES (7, 1)")
    refreshed(pair, "outer", "DIFFERENTIAL")
    assert rows(pair, "outer") == [(1,), (2,), (7,)]


def test_immediate_follows_what_was_renamed(pair: Lake) -> None:
    query = "SELECT a.k, w FROM a JOIN b ON b.k = z"
    pair.create_stream_table("live", query, refresh_mode="IMMEDIATE")
    pair.sql("ALTER TABLE b ADD COLUMN z INT DEFAULT 5")
    pair.sql("ALTER TABLE b RENAME COLUMN w TO v")
    pair.sql("ALTER TABLE b RENAME TO c")
    pair.sql("CREATE TABLE b (k INT, w INT)")
    with pair.transaction() as tx:
        tx.sql("INSERT INTO a VALUES (3, 3)")
        tx.sql("INSERT INTO c (k, v) VALUES (3, 30)")
        tx.sql("INSERT INTO b VALUES (3, 99)")
    assert rows(pair, "live") == [(1, 10), (2, 70), (3, 30)]
    assert set(pair.refresh_history("live")[0].sources) == {"a", "c"}
    assert_exact(pair, "live")
