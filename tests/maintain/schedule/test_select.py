"""Which stream tables a word means, and what everybody calls the tables they read. No Spark."""

from __future__ import annotations

import pytest

from spark_trickle import Lake
from spark_trickle.compat import watching
from spark_trickle.compat.functions import FunctionContext
from spark_trickle.errors import NotFoundError
from spark_trickle.maintain.records.streams import Dependency, StreamTable
from spark_trickle.maintain.schedule.select import selected
from support.served import harmless, make, serving

TABLES = [
    StreamTable("1", "of blanks", "", sources=(Dependency("a", "`s one.x`", 1),)),
    StreamTable("2", "a, b+", "", sources=(Dependency("1", "of blanks", 1),)),
    StreamTable("3", "odd[1]*", "", sources=(Dependency("b", "plain", 1),)),
    StreamTable("4", "oddly", "", sources=(Dependency("b", "plain", 1),)),
    StreamTable("5", "`dotted.one`.x", "", sources=(Dependency("b", "plain", 1),)),
]


@pytest.mark.parametrize(
    ("select", "meant"),
    [
        (None, "12345"),
        ("`s one.x`+", "12"),
        ("`S One.X`+, oddly", "124"),
        ("`of blanks`", "1"),
        ("main.`of blanks`+", "12"),
        ("+`a, b+`", "12"),
        ("`a, b+`", "2"),
        ("`a, b+`oddly*,oddly", None),
        ("`a, b+` oddly", "24"),
        ("`odd[1]*`", "3"),
        ("odd[1]*", "3"),
        ("odd*", "34"),
        ("new+", "345"),
        ("plain+", None),
        ("`dotted.one`.x", "5"),
        ("dotted.one.x", "5"),
        ("`dotted.one.x`", None),
        (["of blanks+", "odd*"], "1234"),
        ("", ""),
        ("`odd*`", None),
        ("`s one.x`", None),
        ("of blanks", None),
        ("`a, b`+", None),
        ("`a", None),
    ],
)
def test_names_in_backticks_are_one_word(select: str | list[str] | None, meant: str | None) -> None:
    names = {"b": "new"}
    if meant is not None:
        assert selected(TABLES, select, names) == set(meant)
        return
    with pytest.raises(NotFoundError, match="there is no stream table") as caught:
        selected(TABLES, select, names)
    assert "`of blanks`, `a, b+`" in str(caught.value.hint)


def test_after_a_rename_everybody_says_the_new_name(dry_lake: Lake) -> None:
    make(dry_lake, ["one", "two"])
    dry_lake.sql("ALTER TABLE base RENAME TO fancy; CREATE TABLE base (id BIGINT)")
    assert [(edge.source, edge.reader) for edge in dry_lake.graph()] == [
        ("fancy", "one"),
        ("fancy", "two"),
    ]
    assert {source for info in dry_lake.stream_tables() for source in info.sources} == {"fancy"}
    assert dry_lake.recommend("one") == []
    details = dict(dry_lake._engine.streams.details(dry_lake._streams.get("one").uuid))
    assert str(details["Frontier"]).startswith("fancy at version")
    with serving(dry_lake) as client:
        assert "fancy: table" in harmless(client.get("/graph").text)
        assert "fancy at version" in harmless(client.get("/table?name=one").text)
    desk = FunctionContext(dry_lake._engine, dry_lake._streams, dry_lake.sql)
    assert "fancy" in watching.dependency_tree(desk, {}).column("node").to_pylist()
    sources = watching.list_sources(desk, {"name": "one"})
    assert sources.column("source_table").to_pylist() == ["fancy"]
