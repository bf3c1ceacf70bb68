"""``trickle serve`` as a process; nothing here starts Spark."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import spark_trickle
from spark_trickle.cli.main import app
from support.command import TRICKLE, environment, run
from support.served import Client


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with spark_trickle.connect(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE t (id BIGINT)")
    return tmp_path / "lake"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_it_serves_until_it_is_told_to_stop(place: Path) -> None:
    client = Client(free_port())
    words = [*TRICKLE, "serve", str(place), "--http", f"127.0.0.1:{client.port}", "--json"]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    try:
        until = time.monotonic() + 60
        while True:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            try:
                ready = client.get("/ready")
                break
            except OSError:
                time.sleep(0.05)
        assert json.loads(ready.text) == {"ready": True, "version": 1}
        assert "No stream tables yet" in client.get("/").text
    finally:
        process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert f"http://127.0.0.1:{client.port}/" in err
    assert process.returncode in (0, -signal.SIGTERM), err


def test_what_is_refused(place: Path, tmp_path: Path) -> None:
    ran = run("serve", str(place), "--http", "0.0.0.0:0", cwd=tmp_path)
    assert (ran.code, "a token is needed" in ran.err) == (1, True)
    assert "TRICKLE_TOKEN" in ran.err
    for words in (["serve", str(place), "--http", "nowhere"], ["serve", str(tmp_path / "none")]):
        assert CliRunner().invoke(app, words).exit_code == 1


def test_without_its_libraries_it_says_what_to_install(place: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None; sys.argv = ['trickle', 'serve', sys.argv[1]]; "
        "from spark_trickle.cli.main import main; main()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(place)],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert ran.returncode == 1
    assert "pip install 'spark-trickle[serve]'" in ran.stderr
    assert "Traceback" not in ran.stderr
