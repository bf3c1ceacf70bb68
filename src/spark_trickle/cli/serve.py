"""``trickle serve``: dashboard, metrics and health over HTTP."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from spark_trickle.cli import logs, output
from spark_trickle.cli.opening import DataPathOption, open_lake
from spark_trickle.errors import UserError

if TYPE_CHECKING:
    from spark_trickle.lake import Lake
    from spark_trickle.serve.access import Access, Address

USUAL = "127.0.0.1:8642"


def serve(
    lake: Annotated[
        str | None, typer.Argument(help="Folder or postgresql:// URL of the lake.")
    ] = None,
    http: Annotated[str, typer.Option(help="Where to listen, as host:port.")] = USUAL,
    token: Annotated[
        str | None,
        typer.Option(envvar="TRICKLE_TOKEN", help="Lets operators in; needed beyond loopback."),
    ] = None,
    viewer_token: Annotated[
        str | None, typer.Option(envvar="TRICKLE_VIEWER_TOKEN", help="Lets people look only.")
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="Refresh what is due, too.")] = False,
    json_log: Annotated[bool, typer.Option("--json", help="Log as JSON, one a line.")] = False,
    data_path: DataPathOption = None,
) -> None:
    """Serve the dashboard, /metrics, /health and /ready until stopped."""
    address, access = prepared(http, token, viewer_token)
    logs.to_stdout(as_json=json_log)
    with open_lake(lake, data_path) as opened:
        listen(opened, address, access, run=run)


def prepared(http: str, token: str | None, viewer_token: str | None) -> tuple[Address, Access]:
    """Where to listen and whom to let in; an error while nothing is open yet."""
    try:
        import prometheus_client  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"the dashboard needs {error.name}, which is not installed",
            hint="pip install 'spark-trickle[serve]'",
        ) from None
    from spark_trickle.serve.access import Access, Address

    address = Address.of(http)
    return address, Access.of(address, token, viewer_token)


def listen(lake: Lake, address: Address, access: Access, *, run: bool = False) -> None:
    from spark_trickle.serve.server import serve as listening

    output.note(f"dashboard: {address.url} (stop with Ctrl-C)")
    with lake.scheduler() if run else nullcontext():
        listening(lake, address, access)
