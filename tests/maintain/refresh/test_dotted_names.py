"""Names that begin with a dot, which Arrow takes for paths: beside ``b`` there is ``.b``."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_trickle import Lake, Settings, connect
from spark_trickle.storage.files.by_columns import grouped, ordered
from support.streams import assert_exact, refreshed

QUERIES = {
    "grouped": "SELECT `.a`, sum(`.b`) AS `..`, count(*) AS `.n` FROM t GROUP BY `.a`",
    "least": "SELECT `.a`, min(`.b`) AS `.x` FROM t GROUP BY `.a`",
    "kinds": "SELECT DISTINCT `.a`, `..` FROM t",
    "top": "SELECT `.a`, `.b`, b FROM t ORDER BY `.b` DESC LIMIT 3",
    "joined": "SELECT x.`.a`, y.`..` AS `.b`, x.b FROM t x JOIN u y ON x.`.b` = y.`.b`",
    "padded": "SELECT x.`.a`, y.`..` AS `.b`, x.b FROM t x LEFT JOIN u y ON x.`.b` = y.`.b`",
    "plain": "SELECT `.a` AS `.`, b FROM t WHERE `..` > 1",
}
CHANGES = [
    "INSERT INTO t VALUES (1, 2, 3, 1, 2), (1, 2, 3, 1, 2), (9, 9, 9, 9, 9)",
    "DELETE FROM t WHERE `.a` = 3 AND `.b` < 4",
    "UPDATE u SET `..` = 0 WHERE `.b` = 5",
    "DELETE FROM u WHERE `.b` = 6",
]


def test_rows_are_grouped_and_sorted_by_the_column_that_is_named() -> None:
    rows = pa.table({".b": [2, 1, 2], "b": [7, 8, 9], "..": [0, 0, 0], "__weight": [1, 1, 1]})
    found = grouped(rows, [".b", ".."], [("__weight", "sum"), ([], "count_all")])
    assert found.column_names == [".b", "..", "__weight_sum", "count_all"]
    assert sorted(found.to_pydict()[".b"]) == [1, 2]
    assert grouped(rows, ["b"]).num_rows == 3
    assert ordered(rows, ["..", ".b"]).column("b").to_pylist() == [8, 7, 9]


@pytest.mark.spark
def test_stream_tables(tmp_path, spark) -> None:
    with connect(tmp_path / "lake", spark=spark, settings=Settings(inline_row_limit=10)) as lake:
        prepared(lake)
        names = []
        for mode in ("DIFFERENTIAL", "IMMEDIATE"):
            for name, query in QUERIES.items():
                names.append(f"{name}_{mode.lower()}")
                lake.create_stream_table(names[-1], query, refresh_mode=mode)
        for sql in CHANGES:
            lake.sql(sql)
        for name in names[: len(QUERIES)]:
            refreshed(lake, name, "DIFFERENTIAL", "TOPK")
        assert_exact(lake, *names)
        assert not [done.problem for done in lake.compact() if done.problem]
        assert_exact(lake, "top_immediate", "grouped_differential")


def prepared(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (`.a` INT, `.b` INT, `..` INT, b INT, a INT) CLUSTER BY (`.b`)")
    lake.sql("CREATE TABLE u (`.b` INT, `..` INT)")
    lake.sql("INSERT INTO t SELECT id % 5, id % 7, id % 3, 1, 2 FROM range(40)")
    lake.sql("INSERT INTO u SELECT id % 7, id FROM range(14)")


@pytest.mark.spark
def test_keys_of_postgres(lake) -> None:
    lake.sql("CREATE TABLE k (`.b` INT NOT NULL, b INT, PRIMARY KEY (`.b`))")
    for value in (1, 2):
        rows = f"""INSERT INTO k VALUES (1, {value}), (2, {value}) ON CONFLICT (".b") DO UPDATE SET b = excluded.b"""
        lake.sql(rows, dialect="postgres")
    assert sorted(map(tuple, lake.table("k").collect())) == [(1, 2), (2, 2)]
