"""``trickle run`` as a process, and the commands that only look; none of them starts Spark here."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import spark_trickle
from spark_trickle.cli.main import app

TRICKLE = (sys.executable, "-m", "spark_trickle.cli.main")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with spark_trickle.connect(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE t (id BIGINT)")
        lake.sql("INSERT INTO t VALUES (1)")
    return tmp_path / "lake"


def test_sigterm_ends_it_cleanly(place: Path) -> None:
    process = subprocess.Popen(
        [*TRICKLE, "run", str(place), "--json", "--poll", "0.1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    assert (first["event"], first["level"]) == ("started", "INFO")
    with spark_trickle.connect(place) as lake, lake._catalog.reading() as connection:
        holders = connection.execute("SELECT holder FROM trickle_holder")
        assert holders in ([(first["holder"],)], []), "it beats before its first look at the latest"
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    last = json.loads(out.splitlines()[-1])
    assert (last["event"], last["abandoned"]) == ("stopped", False)
    with spark_trickle.connect(place) as lake, lake._catalog.reading() as connection:
        assert connection.execute("SELECT 1 FROM trickle_holder") == []


def test_commands_that_look(place: Path) -> None:
    def trickle(*words: str | Path) -> Result:
        return CliRunner().invoke(app, [*map(str, words)])

    assert trickle("run", place, "--once").exit_code == 0
    assert trickle("refresh", "--all", "--lake", place).exit_code == 0
    assert trickle("refresh", "nobody+", "--lake", place).exit_code == 1
    health = trickle("health", "--lake", place)
    assert health.exit_code == 0
    for command in ("status", "history", "alerts"):
        assert trickle(command, "--lake", place).exit_code == 0, command
    assert trickle("recommend", "nobody", "--lake", place).exit_code == 1
