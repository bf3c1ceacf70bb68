"""Every flat type, its edge values, in every role and on every path, beside plain Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.spark
def test_every_value_in_every_role(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-m", "tests.maintain.apply.values_child", str(tmp_path / "lake")],
        env={**os.environ, "TZ": "America/New_York"},
        cwd=root,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == []
