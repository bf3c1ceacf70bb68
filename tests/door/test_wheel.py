"""The built wheel in an empty environment, with the oldest and the newest Spark and sqlglot allowed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _oldest() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bounds = [re.match(r"(pyspark|sqlglot)>=([\d.]+)", entry) for entry in project["dependencies"]]
    return [f"{found.group(1)}=={found.group(2)}.0" for found in bounds if found]


def _run(*words: str | Path, cwd: Path) -> str:
    ran = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, cwd=cwd, check=False
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-q", "-w", folder, ROOT, cwd=folder)
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("pins", [_oldest(), []], ids=["oldest", "newest"])
def test_a_new_user(wheel: Path, tmp_path: Path, pins: list[str]) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    _run(python, "-m", "pip", "install", "-q", wheel, *pins, cwd=tmp_path)
    script = Path(__file__).with_name("flow.py")
    told = _run(python, "-I", script, tmp_path / "lake", cwd=tmp_path)
    assert told.startswith("Division by zero\nflow done "), told
    if pins:
        versions = [pin.split("==")[1] for pin in sorted(pins)]
        assert told.split()[-2:] == versions
    trickle = tmp_path / "venv" / "bin" / "trickle"
    assert _run(trickle, "--version", cwd=tmp_path).startswith("spark-trickle ")
    assert "totals" in _run(trickle, "status", "--lake", tmp_path / "lake", cwd=tmp_path)
