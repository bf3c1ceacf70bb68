"""``trickle serve`` as a process; nothing here starts Spark."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

import spark_trickle
from spark_trickle.cli import demo, output
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


@contextmanager
def running(*words: str) -> Iterator[Client]:
    """``trickle`` with a server in it, once that is ready; told to stop at the end."""
    client = Client(free_port())
    process = subprocess.Popen(
        [*TRICKLE, *words, "--http", f"127.0.0.1:{client.port}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    told: list[str] = []
    assert process.stderr is not None
    assert process.stdout is not None
    readers = [
        threading.Thread(target=lambda stream=stream: told.append(stream.read()))
        for stream in (process.stderr, process.stdout)
    ]
    for reader in readers:
        reader.start()
    try:
        until = time.monotonic() + 550
        while True:
            assert process.poll() is None, told
            assert time.monotonic() < until
            try:
                assert client.get("/ready").code == 200
                break
            except OSError:
                time.sleep(0.05)
        yield client
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=60)
        for reader in readers:
            reader.join(10)
    assert code == 0, told
    assert f"http://127.0.0.1:{client.port}/" in "".join(told)
    assert "Traceback" not in "".join(told)


def test_it_serves_until_it_is_told_to_stop(place: Path) -> None:
    with running("serve", str(place), "--json") as client:
        assert json.loads(client.get("/ready").text) == {"ready": True, "version": 1}
        assert "No stream tables yet" in client.get("/").text


def test_with_run_it_is_the_scheduler_too(place: Path) -> None:
    with running("serve", str(place), "--run") as client:
        until = time.monotonic() + 60
        while "trickle_schedulers 1.0" not in (told := client.get("/metrics").text):
            assert time.monotonic() < until, told
            time.sleep(0.1)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(700)
def test_the_demo_can_be_looked_at(tmp_path: Path) -> None:
    folder = str(tmp_path / "lake")
    with running("demo", "--sf", "0.01", "--folder", folder, "--serve") as client:
        page = client.get("/").text
        assert "region_revenue" in page
        assert "DIFFERENTIAL" in page
        assert "lineitem" in client.get("/graph").text


def test_the_demo_says_how_to_look_at_it() -> None:
    with output.console.capture() as shown:
        demo._tell_of_dashboard(Path("a folder/lake"))
    assert shown.get().rstrip().endswith("serve 'a folder/lake'")
    with output.console.capture() as shown:
        demo._tell_of_dashboard(None)
    assert shown.get().rstrip().endswith("demo --serve")


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
