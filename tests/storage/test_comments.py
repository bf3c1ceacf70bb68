"""COMMENT on tables and columns: kept by version, as DuckDB keeps them; and the data path of a lake."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_trickle import Lake, connect
from spark_trickle.errors import NotFoundError, ParseError, UserError
from support import duck

TABLES = "SELECT comment FROM duckdb_tables() WHERE database_name = 'lk' AND table_name = '{}'"
COLUMNS = (
    "SELECT column_name, comment FROM duckdb_columns() "
    "WHERE database_name = 'lk' AND table_name = '{}' ORDER BY column_index"
)


def _said(lake: Lake, name: str) -> tuple[str | None, dict[str, str | None]]:
    [table] = [t for t in lake.tables() if t.name == name]
    described = lake.listing(f"DESCRIBE {name}").to_pylist()
    comments = {row["col_name"]: row["comment"] for row in described}
    assert comments == {c.name: c.comment for c in table.columns}
    return table.comment, comments


def test_comments_are_kept(dry_lake: Lake, tmp_path: Path) -> None:
    lake = dry_lake
    lake.sql(
        "CREATE TABLE t (a INT NOT NULL COMMENT 'it''s a key', b STRING DEFAULT 'x' COMMENT 'bé', "
        "c STRUCT<d: INT>) COMMENT 'all of \"t\"'"
    )
    lake.sql("INSERT INTO t (a, b) VALUES (1, 'one')")
    assert _said(lake, "t") == ('all of "t"', {"a": "it's a key", "b": "bé", "c": None})
    lake.sql("ALTER TABLE t ADD COLUMN e INT COMMENT 'new'")
    lake.sql("ALTER TABLE t RENAME COLUMN b TO bb")
    lake.sql("COMMENT ON COLUMN main.t.c IS 'inside'")
    lake.sql("ALTER TABLE t ALTER COLUMN a COMMENT 'the key'")
    lake.sql("COMMENT ON TABLE t IS 'other'")
    lake.sql("ALTER TABLE t RENAME TO u")
    before = lake.version
    comments = {"a": "the key", "bb": "bé", "c": "inside", "e": "new"}
    assert _said(lake, "u") == ("other", comments)
    lake.sql("COMMENT ON TABLE u IS NULL")
    lake.sql("ALTER TABLE u DROP COLUMN e")
    lake.sql("ALTER TABLE u ADD COLUMN e INT")
    assert _said(lake, "u") == (None, {**comments, "e": None})
    assert lake._catalog.table("u", before).comment == "other"
    assert lake._catalog.scan("u").rows == 1
    lake.sql("COMMENT ON TABLE u IS 'last'")
    read = duck.read(duck.catalog_of(tmp_path / "dry"), [TABLES.format("u"), COLUMNS.format("u")])
    assert read[0] == [["last"]]
    assert dict(read[1]) == {**comments, "e": None}
    with pytest.raises(NotFoundError, match="no column z"):
        lake.sql("COMMENT ON COLUMN u.z IS 'x'")
    with pytest.raises(ParseError, match="named with its table"):
        lake.sql("COMMENT ON COLUMN z IS 'x'")


def test_comments_of_duckdb_are_read(dry_lake: Lake, tmp_path: Path) -> None:
    dry_lake.sql("CREATE TABLE t (a INT, b INT)")
    dry_lake.close()
    told = ["COMMENT ON TABLE t IS 'theirs'", "COMMENT ON COLUMN t.b IS 'too'"]
    duck.write(tmp_path / "dry", told)
    with connect(tmp_path / "dry") as lake:
        assert _said(lake, "t") == ("theirs", {"a": None, "b": "too"})


def test_another_data_path_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, data = tmp_path / "lake", tmp_path / "files"
    connect(place, data_path=str(data)).close()
    (tmp_path / "link").symlink_to(data)
    monkeypatch.chdir(tmp_path)
    for same in (None, str(data), f"{data}/", "files", str(tmp_path / "link")):
        with connect(place, data_path=same) as lake:
            lake.sql(f"CREATE TABLE t_{len(lake.tables())} (a INT)")
    for other in ("elsewhere", str(place / "data"), "s3a://bucket/files"):
        with pytest.raises(UserError, match="data files of this lake are in .*/files") as caught:
            connect(place, data_path=other)
        assert "data_path" in str(caught.value.hint)
    assert not (tmp_path / "elsewhere").exists()
    data.rename(tmp_path / "moved")
    with connect(place, data_path="moved") as lake:
        assert len(lake.tables()) == 5
