"""Overview and graph, as a browser gets them; every value is text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_trickle import Lake
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.maintain.records.streams import Dependency
from spark_trickle.serve.pages.graph import levels
from spark_trickle.serve.pages.markup import Html, tag, text
from spark_trickle.storage.catalog.postgres import PostgresDatabase
from support.served import harmless, make, refreshed, serving

SCRIPT = "<script>alert('x')</script>"
ATTRIBUTE = '" onmouseover="alert(1)" x="'
LONG = "l" * 9_990 + "</td><b>"


def test_values_are_text() -> None:
    assert text("<b>&\"'") == "&lt;b&gt;&amp;&quot;&#x27;"
    assert tag("a", "<i>", href='"><script>') == '<a href="&quot;&gt;&lt;script&gt;">&lt;i&gt;</a>'
    assert tag("p", tag("b", "x"), Html("<i>")) == "<p><b>x</b><i></p>"
    assert text("a\x00b\x1b\ud800").encode() == "a\N{REPLACEMENT CHARACTER}b".encode() + 2 * (
        "\N{REPLACEMENT CHARACTER}".encode()
    )
    assert tag("input", cls="a", data_x=1, checked=True, gone=None) == (
        '<input class="a" data-x="1" checked>'
    )


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"])))
def test_any_text_is_read_back_as_it_was(value: str) -> None:
    found: list[object] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.extend((tag, attrs))

        def handle_data(self, data: str) -> None:
            found.append(data)

    reader = Reader()
    reader.feed(tag("p", value, title=value))
    reader.close()
    assert found[:2] == ["p", [("title", value)]]
    assert "".join(map(str, found[2:])) == value


def test_the_overview_shows_state_lag_mode_reason_and_seconds(dry_lake: Lake) -> None:
    totals, *_ = make(dry_lake, ["totals", "other"])
    make(dry_lake, ["stopped"], status="SUSPENDED", last_error="three failures")
    done = [
        RefreshReport("totals", "DIFFERENTIAL", f"CHEAPER: {n}", seconds=n / 10, started_at=1e9 + n)
        for n in range(5)
    ]
    refreshed(dry_lake, totals, *done)
    with serving(dry_lake) as client:
        page = client.get("/", Accept="text/html")
        assert page.code == 200
        row = re.search(r"<tr class=\"row-WAITING\">.*?totals.*?</tr>", page.text)
        assert row is not None
        for word in ("DIFFERENTIAL", "CHEAPER: 4", "1.0 min", "5 refreshes, the slowest 400 ms"):
            assert word in row.group(), word
        assert "row-SUSPENDED" in page.text
        assert "three failures" in page.text
        fragment = client.get("/fragment/overview").text
        assert fragment.startswith("<ul")
        assert "<html" not in fragment


def test_names_and_errors_of_an_enemy_are_shown_as_text(dry_lake: Lake) -> None:
    names = [SCRIPT, ATTRIBUTE, LONG]
    for stream in make(dry_lake, names, status="ERROR", last_error=SCRIPT + LONG):
        report = RefreshReport(stream.name, "ERROR", f"{SCRIPT}: {ATTRIBUTE}{LONG}", error=LONG)
        refreshed(dry_lake, stream, report)
    with serving(dry_lake) as client:
        for path in ("/", "/graph"):
            page = client.get(path, Accept="text/html").text
            assert "</td><b>" not in page
            assert SCRIPT[:20] in harmless(page), path


def test_200_tables_take_less_than_a_second(dry_lake: Lake) -> None:
    for stream in make(dry_lake, [f"table_{n}" for n in range(200)]):
        reports = [RefreshReport(stream.name, "FULL", "x", started_at=1e9 + n) for n in range(30)]
        refreshed(dry_lake, stream, *reports)
    dry_lake.sql("INSERT INTO base VALUES (2)")
    with serving(dry_lake) as client:
        first = client.get("/")
        assert first.text.count("<tr class=") == 200
        assert first.seconds < 1
        assert client.get("/metrics").seconds < 1
        print(
            f"200 stream tables: {first.seconds:.3f} s of CPU, {first.milliseconds:.0f} ms in all"
        )


def test_the_graph_has_readers_right_of_what_they_read(dry_lake: Lake) -> None:
    (first,) = make(dry_lake, ["first"])
    source = Dependency(first.uuid, "first", dry_lake.version)
    make(dry_lake, ["second"], sources=(source,), status="SUSPENDED")
    with serving(dry_lake) as client:
        page = client.get("/graph").text
    assert re.search(r'<a href="/table\?name=second">.*?state-SUSPENDED', page)
    places = {name: int(x) for x, name in re.findall(r'<text x="(\d+)"[^>]*>(\w+)</text>', page)}
    assert places["base"] < places["first"] < places["second"]
    assert page.count('class="arrow"') == 2


@pytest.mark.parametrize(
    ("arrows", "expected"),
    [
        ([], {"a": 0, "b": 0, "c": 0}),
        ([("a", "b"), ("b", "c"), ("a", "c")], {"a": 0, "b": 1, "c": 2}),
        ([("b", "c"), ("a", "b")], {"a": 0, "b": 1, "c": 2}),
    ],
)
def test_levels(arrows: list[tuple[str, str]], expected: dict[str, int]) -> None:
    assert levels(["a", "b", "c"], arrows) == expected


def test_an_empty_lake_says_what_to_do(dry_lake: Lake) -> None:
    with serving(dry_lake) as client:
        assert "CREATE STREAM TABLE" in client.get("/").text
        assert client.get("/graph").code == 200
        assert client.get("/metrics").code == 200


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:s3cret@host/db",
        "postgresql://host/db?user=u&password=s3cret",
        "postgresql://host/db?PASSWORD=s3cret",
    ],
)
def test_the_name_of_a_lake_tells_no_password(url: str) -> None:
    try:
        assert "s3cret" not in PostgresDatabase(url, 1.0).name
    except psycopg.ProgrammingError:
        assert "PASSWORD" in url, "no option that PostgreSQL knows"
