"""A PostgreSQL server of the test's own: free port on the loopback, temporary folder, not root."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_numbers = itertools.count()


def binaries() -> Path | None:
    """The folder of the server's programs, or None."""
    found = []
    if shutil.which("pg_config"):
        answer = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True)
        found.append(Path(answer.stdout.strip()))
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((f for f in found if (f / "initdb").exists() and (f / "postgres").exists()), None)


def _account() -> str | None:
    """The server refuses to run as root; whom to run it as then."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server() -> Iterator[str]:
    """The URL of a running server with an empty database; skips where there are no binaries."""
    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL binaries on this machine (pg_config, /usr/lib/postgresql)")
    account = _account()
    folder = Path(tempfile.mkdtemp(prefix="trickle-pg-"))
    user = {"user": account, "extra_groups": []} if account else {}
    if account:
        shutil.chown(folder, account)
    data, port = folder / "data", free_port()
    made = subprocess.run(
        [programs / "initdb", "-D", data, "-A", "trust", "-U", "lake", "-N", "-E", "UTF8"],
        capture_output=True,
        text=True,
        cwd=folder,
        **user,
    )
    assert made.returncode == 0, made.stderr
    options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
    flags = [part for k, v in options.items() for part in ("-c", f"{k}={v}")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [programs / "postgres", "-D", data, "-p", str(port), *flags],
            stdout=log,
            stderr=log,
            cwd=folder,
            **user,
        )
    try:
        url = f"postgresql://lake@127.0.0.1:{port}/postgres"
        _wait(url, process, folder / "log")
        yield url
    finally:
        process.send_signal(signal.SIGQUIT)  # at once: nobody needs the data again
        process.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    for _ in range(200):
        assert process.poll() is None, log.read_text()
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(log.read_text())


def new_database(url: str, *, copy: bool = False) -> str:
    """An empty database on the server of ``url``, or a copy of the one that ``url`` names."""
    import psycopg

    server, original = url.rsplit("/", 1)
    name = f"lake{next(_numbers)}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        template = f"TEMPLATE {original}" if copy else ""
        connection.execute(f"CREATE DATABASE {name} {template}")
    return f"{server}/{name}"
