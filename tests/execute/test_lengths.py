"""VARCHAR(n): longer values are refused, spaces beyond the end are cut off, as Spark does."""

from __future__ import annotations

from pathlib import Path

import pytest

import spark_trickle
from spark_trickle import Settings
from spark_trickle.errors import InvalidDataError
from spark_trickle.storage.read.reader import read_scan


def _held(lake: spark_trickle.Lake) -> list[str | None]:
    return sorted(read_scan(lake._catalog.scan("t")).column("v").to_pylist(), key=str)


def test_values_and_appended_rows(dry_lake: spark_trickle.Lake, tmp_path: Path) -> None:
    dry_lake.sql("CREATE TABLE t (v VARCHAR(3), s STRING)")
    dry_lake.sql("INSERT INTO t (v) VALUES ('abc'), ('ab '), ('ab     '), ('äöü'), (NULL)")
    dry_lake.append("t", [{"v": "🦆🦆🦆  "}])
    for attempt in (
        lambda: dry_lake.sql("INSERT INTO t (v) VALUES ('abcd')"),
        lambda: dry_lake.append("t", [{"v": "a  b"}]),
    ):
        with pytest.raises(InvalidDataError, match=r"column v .*varchar\(3\)"):
            attempt()
    assert _held(dry_lake) == [None, "ab ", "ab ", "abc", "äöü", "🦆🦆🦆"]
    assert dry_lake.listing("DESCRIBE t").column("data_type").to_pylist() == [
        "varchar(3)",
        "string",
    ]
    dry_lake.sql("ALTER TABLE t RENAME COLUMN v TO w")
    dry_lake.sql("ALTER TABLE t ADD COLUMN x VARCHAR(2) DEFAULT 'no'")
    with pytest.raises(InvalidDataError, match="longer than its type"):
        dry_lake.sql("ALTER TABLE t ADD COLUMN y VARCHAR(2) DEFAULT 'yes'")
    with spark_trickle.connect(tmp_path / "dry") as other:
        kinds = other.listing("DESCRIBE t").column("data_type").to_pylist()
        assert kinds == ["varchar(3)", "string", "varchar(2)"]
        with pytest.raises(InvalidDataError, match=r"varchar\(3\)"):
            other.append("t", [{"w": "abcd"}])
        other.sql("ALTER TABLE t DROP COLUMN w")
        other.sql("ALTER TABLE t ADD COLUMN w STRING")
        assert other.append("t", [{"w": "abcd"}]) == 1


@pytest.mark.parametrize("kind", ["CHAR(3)", "ARRAY<VARCHAR(3)>", "STRUCT<a: CHAR(2)>"])
def test_what_has_no_length_here(dry_lake: spark_trickle.Lake, kind: str) -> None:
    with pytest.raises(InvalidDataError, match="cannot be a column") as caught:
        dry_lake.sql(f"CREATE TABLE t (a INT, v {kind})")
    assert "STRING" in (caught.value.hint or "")


@pytest.mark.parametrize("kind", ["CHAR(3)", "STRING COLLATE UTF8_LCASE", "CHARACTER(2)"])
def test_what_is_refused_wherever_a_column_is_made(dry_lake: spark_trickle.Lake, kind: str) -> None:
    dry_lake.sql("CREATE TABLE t (a INT)")
    for statement in (
        f"CREATE TABLE u (v {kind})",
        f"ALTER TABLE t ADD COLUMN v {kind}",
        f"CREATE TABLE u (v STRUCT<a: {kind}>)",
    ):
        with pytest.raises(spark_trickle.UserError) as caught:
            dry_lake.sql(statement)
        assert caught.value.hint or caught.value.position
    assert [column.name for column in dry_lake._catalog.table("t").columns] == ["a"]


@pytest.mark.spark
def test_a_cast_to_char_is_a_string_as_in_spark(lake: spark_trickle.Lake) -> None:
    """Spark pads and cuts only columns of these types: in a query they are strings."""
    query = (
        "SELECT id, CAST(s AS CHAR(3)) AS c, CAST(s AS VARCHAR(1)) AS v, CAST(id AS CHAR(2)) AS n,"
        " CAST(s AS CHAR(5)) = 'ab   ' AS e FROM t"
    )
    lake.sql("CREATE TABLE t (id INT, s STRING)")
    lake.sql("INSERT INTO t VALUES (1, 'ab'), (2, 'abcd')")
    lake.create_stream_table("q", query, refresh_mode="DIFFERENTIAL")
    lake.sql("INSERT INTO t VALUES (333, 'ab   '), (4, NULL)")
    assert lake.refresh_stream_table("q").effective_mode == "DIFFERENTIAL"
    wanted = sorted(map(repr, lake.sql(query).collect()))
    assert sorted(map(repr, lake.table("q").collect())) == wanted
    assert not lake.verify("q")


@pytest.mark.spark
@pytest.mark.parametrize("limit", [1000, 0], ids=["few", "written by executors"])
def test_statements_through_spark(tmp_path: Path, spark: object, limit: int) -> None:
    settings = Settings(inline_row_limit=limit)
    with spark_trickle.connect(tmp_path / "l", spark=spark, settings=settings) as lake:  # type: ignore[arg-type]
        lake.sql("CREATE TABLE t (id INT, v VARCHAR(3))")
        lake.sql(
            "INSERT INTO t SELECT id, concat('ab', repeat(' ', 1 + id)) FROM range(2) AS r(id)"
        )
        lake.sql("UPDATE t SET v = concat(v, 'c   ') WHERE id < 0")
        for statement in (
            "INSERT INTO t SELECT 3, concat('ab', 'cd')",
            "UPDATE t SET v = concat(v, '!')",
            "MERGE INTO t USING (SELECT 0 AS id) AS s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = concat('ab', 'cd')",
        ):
            with pytest.raises(spark_trickle.TrickleError, match=r"varchar\(3\)"):
                lake.sql(statement)
        assert _held(lake) == ["ab ", "ab "]
