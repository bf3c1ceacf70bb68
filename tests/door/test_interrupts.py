"""Ctrl-C and stopped sessions, in real processes, on Spark Classic and Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_trickle.spark.sessions.java import use_java


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["classic", pytest.param("connect", marks=pytest.mark.long)])
def test_ctrl_c_cancels_and_leaves_nothing_behind(tmp_path: Path, kind: str) -> None:
    use_java()
    script = Path(__file__).with_name("interrupted.py")
    ran = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "lake"), kind],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        # SPARK_TESTING: the server of Connect takes any port, so that two tests may have one each.
        env=dict(
            os.environ,
            PYSPARK_PYTHON=sys.executable,
            SPARK_LOCAL_IP="127.0.0.1",
            SPARK_TESTING="1",
        ),
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-6000:]
    assert ran.stdout.endswith("done\n")
    if kind == "classic":  # the server of Connect logs as it likes
        assert "Traceback" not in ran.stderr, ran.stderr
        assert "java" not in ran.stderr.lower(), ran.stderr
