"""TopK stream tables: the first rows of a query, kept by deltas, over files and over joins."""

from __future__ import annotations

import pytest

from spark_trickle import Lake
from spark_trickle.delta.reserve import capacity
from spark_trickle.errors import UnsupportedQueryError
from support.streams import assert_exact, refreshed, rows

pytestmark = pytest.mark.spark


@pytest.fixture
def game(lake: Lake) -> Lake:
    lake.sql("CREATE TABLE scores (id INT, player STRING, points INT)")
    lake.sql(
        "INSERT INTO scores VALUES (1, 'ada', 50), (2, 'bob', 40), (3, 'cid', 30), (4, 'dee', 20), "
        "(5, 'eve', 10), (6, 'fay', 5)"
    )
    return lake


def top(lake: Lake, query: str, name: str = "leaders", mode: str = "DIFFERENTIAL") -> None:
    lake.create_stream_table(name, query, refresh_mode=mode)
    assert_exact(lake, name)


def info(lake: Lake, name: str = "leaders"):
    return next(table for table in lake.stream_tables() if table.name == name)


BEST = "SELECT player, points FROM scores ORDER BY points DESC LIMIT 3"


def players(lake: Lake, name: str = "leaders") -> list[object]:
    return sorted(row[0] for row in rows(lake, name))


def test_create_insert_evict_delete_update(game: Lake) -> None:
    top(game, BEST)
    assert rows(game, "leaders") == [("ada", 50), ("bob", 40), ("cid", 30)]
    game.sql("INSERT INTO scores VALUES (7, 'gus', 45)")
    report = refreshed(game, "leaders", "TOPK")
    assert (report.rows_inserted, report.rows_deleted) == (1, 1), "one enters, one is pushed out"
    assert players(game) == ["ada", "bob", "gus"]
    game.sql("DELETE FROM scores WHERE player = 'ada'")
    refreshed(game, "leaders", "TOPK")
    assert players(game) == ["bob", "cid", "gus"], "the next one is promoted"
    game.sql("UPDATE scores SET points = 1 WHERE player = 'gus'")
    refreshed(game, "leaders", "TOPK")
    assert players(game) == ["bob", "cid", "dee"]
    game.sql("UPDATE scores SET points = 99 WHERE player = 'fay'")
    refreshed(game, "leaders", "TOPK")
    assert players(game) == ["bob", "cid", "fay"]
    game.sql("DELETE FROM scores WHERE points > 25")
    refreshed(game, "leaders", "TOPK")
    assert players(game) == ["dee", "eve", "gus"]
    game.sql("DELETE FROM scores WHERE player <> 'dee'")
    refreshed(game, "leaders", "TOPK")
    assert players(game) == ["dee"], "fewer rows than the limit"
    game.sql("TRUNCATE TABLE scores")
    refreshed(game, "leaders", "TOPK")
    assert players(game) == []
    game.sql("INSERT INTO scores VALUES (8, 'hal', 1)")
    refreshed(game, "leaders", "TOPK")
    assert players(game) == ["hal"]


def test_without_changes_nothing_runs(game: Lake) -> None:
    top(game, BEST)
    before = game.version
    assert refreshed(game, "leaders", "NO_DATA").spark_queries == 0
    assert game.version == before


def test_a_column_nobody_reads_changes_nothing(game: Lake) -> None:
    top(game, BEST)
    before = game.version
    game.sql("UPDATE scores SET id = id + 100")
    report = refreshed(game, "leaders", "TOPK")
    assert (report.rows_inserted, report.rows_deleted) == (0, 0)
    assert report.spark_queries == 0, "the change is nothing once that column is left out"
    assert game.version == before + 1, "only the UPDATE made a version"


def test_full_gives_the_same(game: Lake) -> None:
    top(game, BEST, "by_delta")
    top(game, BEST, "in_full", mode="FULL")
    for statement in (
        "INSERT INTO scores VALUES (7, 'gus', 40), (8, 'bob', 40)",
        "DELETE FROM scores WHERE player = 'ada'",
        "UPDATE scores SET points = points + 30 WHERE id > 3",
    ):
        game.sql(statement)
        refreshed(game, "by_delta", "TOPK")
        refreshed(game, "in_full", "FULL")
        assert rows(game, "by_delta") == rows(game, "in_full")
    game.sql("DELETE FROM scores WHERE id = 4")
    report = game.sql("REFRESH STREAM TABLE by_delta FULL")
    assert report.effective_mode == "FULL"
    assert_exact(game, "by_delta")
    game.sql("DELETE FROM scores WHERE id = 5")
    refreshed(game, "by_delta", "TOPK")


def test_ties_are_broken_by_the_other_columns_in_order(game: Lake) -> None:
    game.sql("TRUNCATE TABLE scores")
    game.sql("INSERT INTO scores VALUES (9, 'z', 1), (8, 'a', 1), (7, 'm', 1), (6, 'a', 1)")
    top(game, "SELECT player, id FROM scores ORDER BY points DESC LIMIT 2")
    assert rows(game, "leaders") == [("a", 6), ("a", 8)]
    game.sql("INSERT INTO scores VALUES (5, 'b', 1), (5, 'a', 1)")
    refreshed(game, "leaders", "TOPK")
    assert rows(game, "leaders") == [("a", 5), ("a", 6)]
    game.sql("DELETE FROM scores WHERE player = 'a'")
    refreshed(game, "leaders", "TOPK")
    assert rows(game, "leaders") == [("b", 5), ("m", 7)]


def test_equal_rows_at_the_cut(game: Lake) -> None:
    game.sql("TRUNCATE TABLE scores")
    game.sql("INSERT INTO scores VALUES (1, 'x', 5), (1, 'x', 5), (1, 'x', 5), (2, 'y', 4)")
    top(game, "SELECT player, points FROM scores ORDER BY points DESC LIMIT 2")
    assert rows(game, "leaders") == [("x", 5), ("x", 5)]
    game.sql("UPDATE scores SET points = 6 WHERE player = 'y'")
    report = refreshed(game, "leaders", "TOPK")
    assert rows(game, "leaders") == [("x", 5), ("y", 6)]
    assert (report.rows_inserted, report.rows_deleted) == (1, 1), "one copy goes, the other stays"


def test_more_equal_rows_than_the_reserve_holds(game: Lake) -> None:
    game.append("scores", [{"id": 9, "player": "p", "points": 1}] * 300)
    top(game, "SELECT player, points FROM scores ORDER BY points DESC LIMIT 2")
    game.sql("DELETE FROM scores WHERE points < 6")
    refreshed(game, "leaders", "TOPK")
    assert players(game) == ["ada", "bob"]


def test_offset(game: Lake) -> None:
    top(game, "SELECT player, points FROM scores ORDER BY points DESC LIMIT 2 OFFSET 1")
    assert players(game) == ["bob", "cid"]
    game.sql("DELETE FROM scores WHERE player = 'ada'")
    refreshed(game, "leaders", "TOPK")
    assert players(game) == ["cid", "dee"]
    game.sql("INSERT INTO scores VALUES (7, 'gus', 100), (8, 'hal', 90)")
    refreshed(game, "leaders", "TOPK")
    assert players(game) == ["bob", "hal"]
    game.sql("DELETE FROM scores WHERE points < 95")
    refreshed(game, "leaders", "TOPK")
    assert players(game) == []


def test_null_and_direction(game: Lake) -> None:
    game.sql("INSERT INTO scores VALUES (7, 'nil', NULL), (8, NULL, 7)")
    top(game, "SELECT id, points FROM scores ORDER BY points LIMIT 2", "first")
    top(game, "SELECT id, points FROM scores ORDER BY points DESC NULLS FIRST LIMIT 2", "last")
    top(game, "SELECT id, player FROM scores ORDER BY player NULLS LAST, points LIMIT 7", "named")
    assert [row[0] for row in rows(game, "first")] == [6, 7]
    assert [row[0] for row in rows(game, "last")] == [1, 7]
    game.sql("UPDATE scores SET points = NULL WHERE id IN (1, 2)")
    game.sql("INSERT INTO scores VALUES (9, NULL, NULL)")
    for name in ("first", "last", "named"):
        refreshed(game, name, "TOPK")
    assert [row[0] for row in rows(game, "first")] == [1, 2], "equal: by id"


def test_over_group_by_join_where_and_distinct(game: Lake) -> None:
    game.sql("CREATE TABLE teams (player STRING, team STRING)")
    game.sql("INSERT INTO teams VALUES ('ada', 'x'), ('bob', 'x'), ('cid', 'y'), ('dee', 'z')")
    queries = {
        "by_team": "SELECT team, sum(points) AS total FROM scores s JOIN teams t USING (player) "
        "GROUP BY team ORDER BY sum(points) DESC LIMIT 2",
        "joined": "SELECT t.team, s.points FROM scores s JOIN teams t ON s.player = t.player "
        "ORDER BY s.points DESC LIMIT 2",
        "outer_joined": "SELECT s.player, t.team FROM scores s LEFT JOIN teams t "
        "ON s.player = t.player ORDER BY t.team NULLS FIRST, s.player LIMIT 3",
        "filtered": "SELECT player FROM scores WHERE points < 45 ORDER BY points DESC LIMIT 2",
        "distinct_points": "SELECT DISTINCT points FROM scores ORDER BY points DESC LIMIT 2",
        "hidden_order": "SELECT player FROM scores ORDER BY points % 7, id LIMIT 2",
        "of_union": "SELECT player FROM scores UNION SELECT team FROM teams ORDER BY 1 LIMIT 4",
    }
    for name, query in queries.items():
        top(game, query, name)
        assert info(game, name).is_topk, name
    assert rows(game, "by_team") == [("x", 90), ("y", 30)]
    for statements in (
        (
            "INSERT INTO scores VALUES (7, 'dee', 75), (8, 'eve', 50)",
            "UPDATE teams SET team = 'y' WHERE player = 'ada'",
        ),
        ("DELETE FROM scores WHERE player = 'bob'", "DELETE FROM teams WHERE player = 'dee'"),
    ):
        for statement in statements:
            game.sql(statement)
        for report in game.refresh_all():
            assert report.effective_mode in ("TOPK", "NO_DATA"), report
        assert_exact(game, *queries)


def test_over_another_stream_table(game: Lake) -> None:
    game.create_stream_table(
        "totals", "SELECT player, sum(points) AS total FROM scores GROUP BY player"
    )
    top(game, "SELECT player, total FROM totals ORDER BY total DESC LIMIT 1")
    game.create_stream_table("winner", "SELECT player FROM leaders", refresh_mode="DIFFERENTIAL")
    game.sql("INSERT INTO scores VALUES (9, 'eve', 70)")
    modes = {report.name: report.effective_mode for report in game.refresh_all()}
    assert modes["leaders"] == "TOPK"
    assert modes["winner"] == "DIFFERENTIAL", "a TopK publishes its change"
    assert_exact(game, "totals", "leaders", "winner")
    assert rows(game, "winner") == [("eve",)]


def test_spellings_of_limit(game: Lake) -> None:
    top(game, "SELECT player FROM scores ORDER BY points DESC FETCH FIRST 2 ROWS ONLY", "fetched")
    assert (info(game, "fetched").is_topk, info(game, "fetched").topk_limit) == (True, 2)
    top(game, "SELECT player FROM scores ORDER BY points DESC FETCH NEXT 1 ROW ONLY", "next")
    assert info(game, "next").topk_limit == 1
    top(game, "SELECT player FROM scores ORDER BY points DESC LIMIT ALL", "everything")
    seen = info(game, "everything")
    assert (seen.is_topk, seen.topk_limit) == (False, None)
    assert len(rows(game, "everything")) == 6
    for query in ("LIMIT 0", "FETCH FIRST 0 ROWS ONLY"):
        game.sql("DROP STREAM TABLE IF EXISTS nothing")
        top(game, f"SELECT player FROM scores ORDER BY points DESC, id {query}", "nothing")
        seen = info(game, "nothing")
        assert (seen.is_topk, seen.topk_limit, seen.topk_order_by) == (True, 0, "points DESC, id")
    top(game, "SELECT player FROM scores ORDER BY points DESC LIMIT 1 + 1", "sum")
    assert info(game, "sum").topk_limit == 2
    game.sql("INSERT INTO scores VALUES (7, 'gus', 45)")
    game.refresh_all()
    assert_exact(game, "fetched", "next", "everything", "nothing", "sum")
    assert rows(game, "nothing") == []
    assert players(game, "fetched") == players(game, "sum") == ["ada", "gus"]
    assert len(rows(game, "everything")) == 7


def test_alter_schedule_and_query(game: Lake) -> None:
    top(game, BEST)
    game.alter_stream_table("leaders", schedule="5m")
    assert info(game).schedule == "5m"
    assert info(game).is_topk
    game.sql(
        "ALTER STREAM TABLE leaders AS SELECT player, points FROM scores ORDER BY points LIMIT 1"
    )
    assert players(game) == ["fay"]
    assert (info(game).topk_limit, info(game).topk_order_by) == (1, "points")
    game.sql("DELETE FROM scores WHERE player = 'fay'")
    refreshed(game, "leaders", "TOPK")
    game.sql("ALTER STREAM TABLE leaders AS SELECT player, points FROM scores")
    assert not info(game).is_topk
    game.sql("DELETE FROM scores WHERE player = 'ada'")
    refreshed(game, "leaders", "DIFFERENTIAL")


def test_a_limit_beyond_what_is_kept_is_refused(game: Lake) -> None:
    with pytest.raises(UnsupportedQueryError) as caught:
        game.create_stream_table("t", "SELECT id FROM scores ORDER BY id LIMIT 9999 OFFSET 2")
    assert caught.value.code == "TOPK_TOO_LARGE"
    assert caught.value.hint


def test_the_reserve_runs_dry_and_is_read_again_once(game: Lake) -> None:
    limit, size = 3, 400
    game.sql("TRUNCATE TABLE scores")
    game.append("scores", [{"id": i, "player": f"p{i:03}", "points": -i} for i in range(size)])
    top(game, f"SELECT id, points FROM scores ORDER BY points DESC LIMIT {limit}")
    held = capacity(limit, 0)
    assert held < size
    gone, refills = 0, []
    while gone < size - 20:
        gone += 40
        game.sql(f"DELETE FROM scores WHERE id < {gone}")
        report = refreshed(game, "leaders", "TOPK")
        assert players(game) == list(range(gone, min(gone + limit, size)))
        if report.reason.startswith("RESERVE_DRY:"):
            refills.append(gone)
        else:
            assert report.reason.startswith("ASKED:")
    assert 1 <= len(refills) <= 1 + size // (held - limit), refills


def test_changes_behind_the_reserve_touch_nothing(game: Lake) -> None:
    game.sql("TRUNCATE TABLE scores")
    game.append("scores", [{"id": i, "player": "p", "points": -i} for i in range(300)])
    top(game, "SELECT id, points FROM scores ORDER BY points DESC LIMIT 2")
    before = game.version
    game.sql("UPDATE scores SET points = points - 1 WHERE id >= 250")
    report = refreshed(game, "leaders", "TOPK")
    assert (report.rows_inserted, report.rows_deleted) == (0, 0)
    assert game.version == before + 1, "neither result nor reserve changed"
