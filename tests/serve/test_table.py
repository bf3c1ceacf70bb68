"""The page of a stream table and what its buttons do, without Spark."""

from __future__ import annotations

import http.client
import re
import time
from urllib.parse import urlencode

import pytest

from spark_trickle import Lake
from spark_trickle.maintain.records.history import RefreshReport
from spark_trickle.serve.access import OPERATOR, VIEWER, Access
from support.lakes import rows_of
from support.served import Client, harmless, make, refreshed, serving

SCRIPT = "<script>alert('x')</script>"
LONG = "l" * 9_990 + "</td><b>"
TOKENS = Access(tokens={OPERATOR: "of-operators", VIEWER: "of-viewers"})


def table(client: Client, name: str, **headers: str) -> str:
    answer = client.get("/table?" + urlencode({"name": name}), Accept="text/html", **headers)
    assert answer.code == 200, answer.text
    return answer.text


def mark(page: str) -> str:
    found = re.search(r'name="mark" value="(\w+)"', page)
    assert found is not None
    return found.group(1)


def press(client: Client, name: str, action: str, **headers: str) -> int:
    """As a browser does: the button, then the one that asks again."""
    asked = client.get("/confirm?" + urlencode({"name": name, "action": action}), **headers)
    assert asked.code == 200, asked.text
    harmless(asked.text)
    fields = {"name": name, "action": action, "mark": mark(asked.text)}
    return client.post("/act", fields, **headers).code


def eventually(client: Client, name: str, words: str) -> str:
    until = time.monotonic() + 30
    while words not in (page := harmless(table(client, name))):
        assert time.monotonic() < until, page
        time.sleep(0.02)
    return page


def test_everything_about_one_table(dry_lake: Lake) -> None:
    (stream,) = make(dry_lake, ["totals"], last_error="the last one")
    done = [
        RefreshReport(
            "totals",
            mode,
            f"CODE: reason {n}",
            rows_inserted=n,
            rows_deleted=1,
            seconds=(n + 1) / 10,
            delta_rows={"base": n},
            source_rows=1000,
            started_at=1e9 + n,
        )
        for n, mode in enumerate(["FULL", "DIFFERENTIAL", "NO_DATA", "ERROR", "DIFFERENTIAL"])
    ]
    refreshed(dry_lake, stream, *done)
    with serving(dry_lake) as client:
        page = table(client, "totals")
        for word in (
            "SELECT id FROM base",
            "bigint",
            "CODE: reason 3",
            "the last one",
            "base at version",
        ):
            assert word in page, word
        for word in ("Seconds by mode", "Rows inserted and deleted", "Expected seconds"):
            assert word in page, word
        assert page.count('<polyline points="') >= 2, "both estimates"
        for mode in ("FULL", "DIFFERENTIAL", "ERROR"):
            assert re.search(rf'<rect [^>]*class="mode-{mode}"', page), mode
        assert "verdict" in page
        assert "Incremental" in page, "explain compiles, and starts no Spark"
        fragment = client.get("/fragment/table?name=totals").text
        assert fragment.startswith("<h1>totals</h1>")
        assert client.get("/table?name=nobody").code == 404
        assert client.get("/table").code == 400


def test_names_columns_and_errors_of_an_enemy_are_text(dry_lake: Lake) -> None:
    names = [SCRIPT, '" onclick="x', "`;&?=#/.. %", LONG]
    for stream in make(dry_lake, names, last_error=SCRIPT + LONG):
        report = RefreshReport(stream.name, "ERROR", SCRIPT, error=f"{SCRIPT}{LONG}")
        refreshed(dry_lake, stream, report)
        with serving(dry_lake) as client:
            words = harmless(table(client, stream.name))
            assert stream.name in words, "whole"
            assert SCRIPT + LONG in words
            assert "<i>" in words, "the name of a column"
            assert press(client, stream.name, "suspend") == 303
            eventually(client, stream.name, "Resume")


def test_the_first_changed_rows_of_a_refresh(dry_lake: Lake) -> None:
    make(dry_lake, ["s"])
    values = {"id": [*range(60)], "<i>": [SCRIPT, None, *["x"] * 58]}
    with dry_lake._catalog.begin() as tx:
        tx.insert_rows("s", rows_of(dry_lake._catalog, "s", values))
    with serving(dry_lake) as client:
        page = client.get(f"/changes?name=s&version={dry_lake.version}").text
        words = harmless(page)
        assert SCRIPT in words
        assert "NULL" in words
        assert page.count("<tr>") == 51, "the head and 50 rows"
        for version in ("x", "-1", str(dry_lake.version + 1), "9" * 30):
            assert client.get(f"/changes?name=s&version={version}").code in (400, 404), version


def test_buttons_ask_again_and_do_it(dry_lake: Lake) -> None:
    make(dry_lake, ["s"])
    with serving(dry_lake) as client:
        page = table(client, "s")
        for action in ("refresh", "full", "suspend", "verify"):
            assert f'value="{action}"' in page
        assert 'value="resume"' not in page
        assert dry_lake.stream_tables()[0].status == "ACTIVE", "asking does nothing"
        assert press(client, "s", "suspend") == 303
        eventually(client, "s", "Resume")
        assert dry_lake.stream_tables()[0].status == "SUSPENDED"
        assert press(client, "s", "resume") == 303
        eventually(client, "s", "Suspend")
        assert press(client, "s", "verify") == 303
        eventually(client, "s", "must not need Spark")
        assert client.get("/confirm?name=s&action=drop").code == 400
        assert client.get("/confirm?name=nobody&action=refresh").code == 404


def test_a_refresh_by_the_button_is_seen_in_the_history(dry_lake: Lake) -> None:
    make(dry_lake, ["s"])
    with dry_lake._catalog.writing() as connection:
        stream = dry_lake._streams.get("s").at(dry_lake.version)
        from spark_trickle.maintain.records import streams as records

        records.save(connection, stream)
    with serving(dry_lake) as client:
        assert press(client, "s", "refresh") == 303
        eventually(client, "s", "NO_CHANGES: no source changed")
    assert [r.effective_mode for r in dry_lake.refresh_history("s")] == ["NO_DATA"]


def test_only_our_own_pages_change_anything(dry_lake: Lake) -> None:
    make(dry_lake, ["s"])
    with serving(dry_lake) as client:
        asked = client.get("/confirm?name=s&action=suspend").text
        fields = {"name": "s", "action": "suspend", "mark": mark(asked)}
        assert client.post("/act", {**fields, "mark": ""}).code == 403
        assert client.post("/act", {"name": "s", "action": "suspend"}).code == 403
        for headers in (
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Sec_Fetch_Site": "cross-site"},
        ):
            assert client.post("/act", fields, **headers).code == 403, headers
        assert client.get("/act?" + urlencode(fields)).code == 405
        assert client.post("/act", {**fields, "mark": "x" * (2 << 20)}).code == 413
        assert dry_lake.stream_tables()[0].status == "ACTIVE"
        origin = {"Origin": client.url, "Sec_Fetch_Site": "same-origin"}
        assert client.post("/act", fields, **origin).code == 303


def test_who_only_looks_changes_nothing(dry_lake: Lake) -> None:
    make(dry_lake, ["s"])
    viewer = {"Authorization": "Bearer of-viewers"}
    with serving(dry_lake, TOKENS) as client:
        page = table(client, "s", **viewer)
        assert "/confirm" not in page
        assert client.post("/act", {"name": "s", "action": "suspend"}, **viewer).code == 403
        assert press(client, "s", "suspend", **viewer) == 403
        cookie = client.post("/login", {"token": "of-viewers"}).headers["set-cookie"].split(";")[0]
        assert press(client, "s", "suspend", Cookie=cookie) == 403
        assert dry_lake.stream_tables()[0].status == "ACTIVE"
        operator = {"Authorization": "Bearer of-operators"}
        code = client.post("/act", {"name": "s", "action": "suspend"}, **operator).code
        assert code == 303, "a program needs no mark: no browser sends its token by itself"


@pytest.mark.parametrize("what", ["commit", "refresh"])
def test_open_pages_are_told_that_something_happened(dry_lake: Lake, what: str) -> None:
    (stream,) = make(dry_lake, ["s"])
    with serving(dry_lake) as client:
        connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
        connection.request("GET", "/events")
        answer = connection.getresponse()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.readline() == b"retry: 2000\n"

        def changed() -> None:
            while (line := answer.readline()) != b"event: change\n":
                assert line, "the server hung up"

        try:
            changed()  # at once: the page may have been made a while ago
            if what == "commit":
                dry_lake.sql("INSERT INTO base VALUES (9)")
            else:
                refreshed(dry_lake, stream, RefreshReport("s", "NO_DATA", "x"))
            changed()
        finally:
            connection.close()
