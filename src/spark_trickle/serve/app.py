"""The routes: each reads its request, asks for a page and sends it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from spark_trickle.errors import NotFoundError, TransientError, TrickleError
from spark_trickle.maintain.watch.alerts import CRITICAL, health
from spark_trickle.serve import gate, metrics
from spark_trickle.serve.access import Access
from spark_trickle.serve.jobs import Jobs
from spark_trickle.serve.live import Live
from spark_trickle.serve.pages.frame import page
from spark_trickle.serve.pages.graph import graph
from spark_trickle.serve.pages.handlers import Pages
from spark_trickle.serve.pages.markup import Html, tag
from spark_trickle.serve.pages.overview import overview
from spark_trickle.serve.reading import Reader
from spark_trickle.serve.sight import Sight

if TYPE_CHECKING:
    from spark_trickle.lake import Lake

_ASSETS = {
    "style.css": "text/css",
    "app.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


def make_app(lake: Lake, access: Access) -> Starlette:
    """The whole server; it may be mounted elsewhere, but then Host is checked all the same."""
    sight, jobs = Sight(lake), Jobs()
    live = Live(sight, jobs)

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        yield
        jobs.close()

    app = Starlette(
        routes=[
            Route("/", shown(sight, "Overview", overview, "/fragment/overview")),
            Route("/fragment/overview", fragment(sight, overview)),
            Route("/graph", shown(sight, "Graph", graph, "/fragment/graph")),
            Route("/fragment/graph", fragment(sight, graph)),
            *Pages(sight, jobs, access, Reader(lake)).routes(),
            Route("/events", live.events),
            Route("/metrics", lambda _: Response(metrics.exposition(sight), 200, None, _TEXT)),
            Route("/health", lambda _: _health(sight)),
            Route("/ready", lambda _: _ready(sight)),
            Route("/login", gate.login, methods=["GET", "POST"]),
            Route("/static/{name}", _asset),
        ],
        middleware=[Middleware(gate.Gate, access=access)],
        exception_handlers={TrickleError: _failed},
        lifespan=life,
    )
    app.state.access, app.state.sight, app.state.jobs = access, sight, jobs
    return app


_TEXT = metrics.CONTENT_TYPE


def shown(
    sight: Sight, title: str, make: Callable[[Sight], Html], live: str
) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        whole = page(sight, title, make(sight), live=live, role=gate.role(request))
        return HTMLResponse(whole)

    return answer


def fragment(sight: Sight, make: Callable[[Sight], Html]) -> Callable[[Request], Response]:
    """The inner part of a page, for the script that keeps it up to date."""
    return lambda _: HTMLResponse(make(sight))


def _health(sight: Sight) -> Response:
    """As ``trickle.health``; 503 when something is critical."""
    found = health(sight.look()[1])
    body = {"status": found[0].status, "findings": [vars(one) for one in found]}
    return JSONResponse(body, 503 if found[0].status == CRITICAL else 200)


def _ready(sight: Sight) -> Response:
    """Whether the catalog answers."""
    try:
        version = sight.catalog.version()
    except TrickleError as error:
        return JSONResponse({"ready": False, "error": error.message}, 503)
    return JSONResponse({"ready": True, "version": version})


def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _ASSETS:
        return PlainTextResponse("not found\n", 404)
    body = files("spark_trickle.serve").joinpath("assets", name).read_bytes()
    return Response(body, media_type=_ASSETS[name])


def _failed(request: Request, error: Exception) -> Response:
    missing = isinstance(error, NotFoundError)
    code = 404 if missing else 503 if isinstance(error, TransientError) else 400
    if "text/html" not in request.headers.get("accept", ""):
        return PlainTextResponse(f"{error}\n", code)
    sight: Sight = request.app.state.sight
    return HTMLResponse(page(sight, "Error", tag("pre", str(error), cls="error")), code)
