"""Stands before every request: access, headers that browsers heed, and the time an answer took."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from spark_trickle.maintain.watch.tracing import tell
from spark_trickle.serve.access import COOKIE, OPERATOR, Access
from spark_trickle.serve.pages.markup import Html, join, tag

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("spark_trickle.serve")
_ROLE = "trickle.role"
_MOST_BYTES = 1 << 20
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Gate:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # we speak no other protocol
        began = time.perf_counter()

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                took = 1000 * (time.perf_counter() - began)
                headers["Server-Timing"] = f"app;dur={took:.1f}"
            await send(message)

        answer = self._refusal(scope)
        await (self._app if answer is None else answer)(scope, receive, sent)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not self._access.host_allowed(headers.get("host", "")):
            return PlainTextResponse("this name does not mean this machine\n", 421)
        role = self._access.role(headers)
        scope[_ROLE] = role
        if role is not None or scope["path"] == "/login":
            return None
        needed = {"WWW-Authenticate": "Bearer"}
        if "text/html" in headers.get("accept", "") and scope["method"] == "GET":
            return HTMLResponse(_login_page(""), 401, needed)
        return PlainTextResponse("a token is needed: Authorization: Bearer …\n", 401, needed)


def role(request: Request) -> str:
    found: str | None = request.scope[_ROLE]
    if found is None:
        raise HTTPException(401)
    return found


async def posted(request: Request, access: Access, needed: str = OPERATOR) -> dict[str, str]:
    """The fields of a form of ours; refused unless the role is there and the form really is ours."""
    own = role(request)
    fields = await _fields(request)
    why = access.refused(request.headers, own, fields.get("mark", ""))
    if why is not None:
        raise HTTPException(403, why)
    if needed == OPERATOR and own != OPERATOR:
        raise HTTPException(403, "this needs the role operator")
    return fields


async def login(request: Request) -> Response:
    """Take a token for a cookie."""
    access: Access = request.app.state.access
    if request.method == "GET":
        return HTMLResponse(_login_page(""))
    found = access.role_of((await _fields(request)).get("token", ""))
    if found is None:
        who = request.client.host if request.client is not None else "somebody"
        tell(log, "wrong token", logging.WARNING, client=who)
        return HTMLResponse(_login_page("This is not a token of this server."), 401)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(
        COOKIE,
        access.session(found),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


async def _fields(request: Request) -> dict[str, str]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise HTTPException(413, "the request is too large")
    words: list[tuple[str, Any]] = parse_qsl(
        body.decode("utf-8", "replace"), keep_blank_values=True
    )
    return dict(words)


def _login_page(words: str) -> Html:
    """Without style or script: nothing else is given out before the token is known."""
    form = tag(
        "form",
        tag("label", "Token ", tag("input", type="password", name="token", autofocus=True)),
        " ",
        tag("button", "Open"),
        method="post",
        action="/login",
    )
    head = tag(
        "head",
        tag("title", "spark-trickle"),
        tag("meta", charset="utf-8"),
        tag("meta", name="color-scheme", content="light dark"),
    )
    body = tag("body", tag("h1", "spark-trickle"), tag("p", words) if words else None, form)
    return join(Html("<!doctype html>"), tag("html", head, body, lang="en"))
