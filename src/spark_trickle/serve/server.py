"""The server as a process: listens until SIGTERM or Ctrl-C."""

from __future__ import annotations

import uvicorn

from spark_trickle.lake import Lake
from spark_trickle.serve.access import Access, Address
from spark_trickle.serve.app import make_app

_SECONDS = 2
"""How long open pages may hold up the end."""


def serve(lake: Lake, address: Address, access: Access) -> None:
    """Returns when it is told to stop."""
    server(lake, address, access).run()


def server(lake: Lake, address: Address, access: Access) -> uvicorn.Server:
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
    return uvicorn.Server(config)
