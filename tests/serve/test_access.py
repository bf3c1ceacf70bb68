"""Who gets in: tokens, roles, names of hosts, origins."""

from __future__ import annotations

import pytest

from spark_trickle import Lake
from spark_trickle.errors import UserError
from spark_trickle.serve.access import OPERATOR, VIEWER, Access, Address
from support.served import Client, serving

PATHS = (
    "/",
    "/fragment/overview",
    "/graph",
    "/events",
    "/metrics",
    "/health",
    "/ready",
    "/static/app.js",
    "/static/style.css",
    "/nowhere",
)
OPEN = Access(loopback=False, tokens={OPERATOR: "of-operators", VIEWER: "of-viewers"})


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("127.0.0.1:8642", "127.0.0.1", 8642, True),
        ("localhost:1", "localhost", 1, True),
        ("127.1.2.3:1", "127.1.2.3", 1, True),
        ("[::1]:80", "::1", 80, True),
        ("0.0.0.0:80", "0.0.0.0", 80, False),
        (":80", "0.0.0.0", 80, False),
        ("[::]:80", "::", 80, False),
        ("192.0.2.1:80", "192.0.2.1", 80, False),
        ("127.example.org:80", "127.example.org", 80, False),
    ],
)
def test_addresses(text: str, host: str, port: int, loopback: bool) -> None:
    address = Address.of(text)
    assert (address.host, address.port, address.loopback) == (host, port, loopback)


@pytest.mark.parametrize("text", ["", "8642", "localhost", "host:", "host:http", "host:99999"])
def test_no_addresses(text: str) -> None:
    with pytest.raises(UserError, match="not an address"):
        Address.of(text)


def test_beyond_loopback_a_token_is_needed() -> None:
    everywhere = Address.of("0.0.0.0:80")
    for tokens in [(None, None), (None, "of-viewers"), ("", None)]:
        with pytest.raises(UserError, match="token"):
            Access.of(everywhere, *tokens)
    assert Access.of(everywhere, "t", None).tokens == {OPERATOR: "t"}
    assert Access.of(Address.of("127.0.0.1:1"), None, None).tokens == {}
    assert "t0ken" not in repr(Access.of(everywhere, "t0ken", None))


def test_nothing_is_answered_without_a_token(dry_lake: Lake) -> None:
    with serving(dry_lake, OPEN, host="0.0.0.0") as client:
        wrong = [{}, {"Authorization": "Bearer of-operator"}, {"Cookie": "trickle_session=x"}]
        wrong += [
            {"Authorization": "Basic of-operators"},
            {"Cookie": "trickle_session=of-operators"},
        ]
        for headers in wrong:
            for path in PATHS:
                for accept in ("*/*", "text/html"):
                    answer = client.get(path, Accept=accept, **headers)
                    assert answer.code == 401, (path, headers)
                    assert "Overview" not in answer.text
        assert client.post("/act", {"name": "s"}).code == 401
        assert client.get("/?token=of-operators").code == 401, "addresses end up in logs"


def test_tokens_by_header_and_by_cookie(dry_lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    with serving(dry_lake, OPEN, host="0.0.0.0") as client:
        for token, role in [("of-operators", "operator"), ("of-viewers", "viewer")]:
            by_header = client.get("/", Authorization=f"Bearer {token}")
            assert by_header.code == 200
            assert f">{role}<" in by_header.text
            cookie = logged_in(client, token)
            assert token not in cookie, "the cookie proves the token, but does not tell it"
            assert f">{role}<" in client.get("/", Cookie=cookie).text
        refused = client.post("/login", {"token": "guess"})
        assert (refused.code, "set-cookie" in refused.headers) == (401, False)
        assert "wrong token" in caplog.text
        assert "guess" not in caplog.text


def logged_in(client: Client, token: str) -> str:
    answer = client.post("/login", {"token": token})
    assert (answer.code, answer.headers["location"]) == (303, "/")
    cookie, *rest = answer.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=strict"} <= set(rest)
    return cookie


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1:8642", 200),
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("[::1]:5", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example:8642", 421),
        ("localhost.evil.example", 421),
        ("", 421),
    ],
)
def test_on_loopback_only_names_of_this_machine(host: str, code: int, dry_lake: Lake) -> None:
    with serving(dry_lake) as client:
        assert client.get("/ready", Host=host).code == code


def test_every_answer_keeps_browsers_careful(dry_lake: Lake) -> None:
    with serving(dry_lake) as client:
        for path in ("/", "/metrics", "/nowhere"):
            headers = client.get(path).headers
            assert "script-src 'self'" in headers["content-security-policy"]
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert "server" not in headers


def test_marks_and_origins() -> None:
    mine, mark = Access(), Access().mark(OPERATOR)
    host = {"host": "127.0.0.1:8642"}
    assert mine.refused(host, OPERATOR, mine.mark(OPERATOR)) is None
    assert (
        mine.refused({**host, "origin": "http://127.0.0.1:8642"}, OPERATOR, mine.mark(OPERATOR))
        is None
    )
    assert mine.refused(host, OPERATOR, mark), "of another server"
    assert mine.refused(host, OPERATOR, mine.mark(VIEWER)), "of another role"
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        assert mine.refused({**host, **headers}, OPERATOR, mine.mark(OPERATOR)), headers
