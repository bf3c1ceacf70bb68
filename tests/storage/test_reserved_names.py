"""Names that our own queries put beside users' columns cannot be names of columns."""

from __future__ import annotations

import pytest

from spark_trickle import Lake
from spark_trickle.delta.state import ROWS
from spark_trickle.delta.views import KEPT
from spark_trickle.errors import BindError
from spark_trickle.lower.block import EMPTY
from spark_trickle.lower.one_pass import NUMBER
from spark_trickle.lower.relations import ROW_NUMBER
from spark_trickle.maintain.gather.nearby import AFTER, BEFORE
from spark_trickle.spark.bitmaps import KEY
from spark_trickle.spark.frames import ROW
from spark_trickle.spark.writing.places import old_name
from spark_trickle.storage.records import ROW_ID, WEIGHT

OURS = [
    *("_ducklake_internal_row_id", "__trickle", "__Trickle_x", "__kept", "__beside_0"),
    *(KEPT, ROWS, EMPTY, NUMBER, ROW_NUMBER, BEFORE, AFTER, ROW, KEY, ROW_ID, WEIGHT, old_name(0)),
]


def test_our_own_column_names_are_refused(dry_lake: Lake) -> None:
    dry_lake.sql("CREATE TABLE u (__op INT, a INT)")
    for name in OURS:
        for statement in (
            f"CREATE TABLE t (a INT, {name.upper()} INT)",
            f"ALTER TABLE u ADD COLUMN {name} INT",
            f"ALTER TABLE u RENAME COLUMN a TO {name}",
        ):
            with pytest.raises(BindError, match="is reserved") as caught:
                dry_lake.sql(statement)
            assert "another name" in str(caught.value.hint)


@pytest.mark.spark
def test_nor_can_they_be_columns_of_a_stream_table(lake: Lake) -> None:
    lake.sql("CREATE TABLE t (g INT, v INT)")
    lake.sql("INSERT INTO t VALUES (1, 2)")
    for query in ("SELECT g AS __kept FROM t", "SELECT g, sum(v) AS __rows FROM t GROUP BY g"):
        with pytest.raises(BindError, match="is reserved"):
            lake.create_stream_table("s", query)
    assert lake.stream_tables() == []
    lake.create_stream_table("s", "SELECT g AS `__op`, sum(v) AS `__s` FROM t GROUP BY g")
    lake.sql("INSERT INTO t VALUES (1, 3)")
    lake.refresh_stream_table("s")
    assert lake.table("s").toArrow().to_pylist() == [{"__op": 1, "__s": 5}]
