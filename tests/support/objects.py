"""An S3 server of the test's own: moto on a free port of the loopback, everything in memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qs, unquote

import pytest
from pyarrow import fs

from .postgres import free_port

BUCKET = "lakes"


_REQUEST = re.compile(r'"(?:\x1b\[[0-9;]*m)*([A-Z]+) (\S+) HTTP')


class Requests:
    """What the server was asked since the last look, by kind: its log has a line for each."""

    def __init__(self, log: Path) -> None:
        self._log, self._seen = log, 0

    def new(self) -> list[str]:
        """``LIST prefix``, ``HEAD /bucket/key`` and so on."""
        time.sleep(0.2)  # lines are written after the answer
        with self._log.open() as log:
            log.seek(self._seen)
            lines = log.read()
            self._seen = log.tell()
        return [_kind(*found.groups()) for found in _REQUEST.finditer(lines)]


def _kind(verb: str, target: str) -> str:
    path, _, query = target.partition("?")
    asked = parse_qs(query, keep_blank_values=True)
    if verb == "GET" and ("list-type" in asked or "prefix" in asked):
        return f"LIST {path}/{asked.get('prefix', [''])[0]}"
    return f"{verb} {unquote(path)}"


@contextmanager
def server(log: Path = Path(os.devnull)) -> Iterator[dict[str, str]]:
    """``Settings.storage`` of a running server with one bucket; skips where moto is not installed.

    ``log``: where to write its requests.
    """
    if find_spec("moto") is None or find_spec("flask_cors") is None:
        pytest.skip("no S3 server on this machine: pip install 'moto[s3]' flask flask-cors")
    port = free_port()
    with log.open("w") as lines:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=subprocess.DEVNULL,
            stderr=lines,
        )
    try:
        endpoint = f"http://127.0.0.1:{port}"
        _wait(endpoint, process)
        storage = {"endpoint": endpoint, "access_key": "someone", "secret_key": "secret"}
        with_buckets = fs.S3FileSystem(
            access_key="someone",
            secret_key="secret",
            region="us-east-1",
            endpoint_override=endpoint,
            allow_bucket_creation=True,
        )
        with_buckets.create_dir(BUCKET)
        yield storage
    finally:
        process.terminate()
        process.wait(timeout=60)


def _wait(endpoint: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert process.poll() is None, "the server ended at once"
        try:
            urllib.request.urlopen(endpoint, timeout=5).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the server did not start")
