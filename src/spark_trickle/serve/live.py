"""Tells open pages that something happened, by server-sent events; they fetch what they show anew."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from spark_trickle.errors import TrickleError
from spark_trickle.serve.jobs import Jobs
from spark_trickle.serve.sight import Sight

_TICK, _TICKS = 0.25, 4
"""Jobs are looked at every tick, which costs nothing; the catalog every so many."""
_ALIVE = 60
"""After so many ticks a line is sent anyway: a reader that is gone is noticed by it."""


class Live:
    """One look for all readers, and none when nobody reads."""

    def __init__(self, sight: Sight, jobs: Jobs) -> None:
        self._sight, self._jobs = sight, jobs
        self._readers: set[asyncio.Queue[str]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._known: tuple[Any, ...] = ()

    async def events(self, _: Request) -> Response:
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(self._told(), media_type="text/event-stream", headers=headers)

    async def _told(self) -> AsyncIterator[str]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._readers.add(queue)
        if self._watching is None or self._watching.done():
            self._known = await self._now((), 0)
            self._watching = asyncio.create_task(self._watch())
        try:
            yield "retry: 2000\n\n"
            # Something may have happened since the page was made; what comes later is seen from here.
            yield _changed(self._jobs.moves)
            while True:
                try:
                    yield await asyncio.wait_for(queue.get(), _ALIVE * _TICK)
                except TimeoutError:
                    yield ": alive\n\n"
        finally:
            self._readers.discard(queue)

    async def _watch(self) -> None:
        ticks = 0
        while self._readers:
            await asyncio.sleep(_TICK)
            ticks += 1
            now = await self._now(self._known, ticks)
            if now != self._known:
                self._known = now
                self._tell(now[0])

    def _tell(self, jobs: int) -> None:
        for queue in self._readers:
            queue.put_nowait(_changed(jobs))

    async def _now(self, known: tuple[Any, ...], ticks: int) -> tuple[Any, ...]:
        moves = self._jobs.moves
        if ticks % _TICKS and known and moves == known[0]:
            return known
        pulse = known[1:]
        with suppress(TrickleError):  # a catalog that does not answer now may do so later
            pulse = await run_in_threadpool(self._sight.pulse)
        return (moves, *pulse)


def _changed(jobs: int) -> str:
    return f"event: change\ndata: {json.dumps({'jobs': jobs})}\n\n"
