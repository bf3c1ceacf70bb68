"""The short part of ``make cluster`` for ``make test-all``: no TPC-H, nothing from Maven Central."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.postgres
def test_workers_that_die_and_workers_that_do_not_see_the_storage():
    """In a process of its own: this one may have a local Spark already."""
    parts = [str(HERE / name) for name in ("test_workers.py", "test_blind.py")]
    parts += ["-k", "die or one"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "cluster", *parts],
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        timeout=580,
    )
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
