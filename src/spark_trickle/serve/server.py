"""The server as a process: listens until SIGTERM or Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from spark_trickle.lake import Lake
from spark_trickle.serve.access import Access, Address
from spark_trickle.serve.app import make_app

_SECONDS = 2
"""How long open pages may hold up the end."""


def serve(lake: Lake, address: Address, access: Access) -> None:
    """Returns when it is told to stop; a second Ctrl-C does not wait."""
    running = server(lake, address, access)

    def stop(*_: object) -> None:
        running.force_exit = running.should_exit
        running.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    running.run()


class Server(uvicorn.Server):
    """Signals are its caller's: uvicorn would raise them again at the end, and what is open is to
    be closed before."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def server(lake: Lake, address: Address, access: Access) -> Server:
    config = uvicorn.Config(
        make_app(lake, access),
        host=address.host,
        port=address.port,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_SECONDS,
    )
    return Server(config)
