"""Which Java is used, and the launcher for the runtime that pip can install."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_trickle.spark.sessions import java


def fake_java(home: Path, version: str) -> Path:
    """A program that answers ``java -version`` as a Java of that version does."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    launcher.chmod(0o755)
    return home


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No Java at all."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _: None)


@pytest.mark.parametrize(
    ("version", "major"),
    [("17.0.15", 17), ("25", 25), ("21-ea", 21), ("1.8.0_402", None), ("11.0.2", None)],
)
def test_java_home_must_be_new_enough(nowhere, monkeypatch, tmp_path, version, major):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", version)))
    found = java.find_java()
    assert (found.major if found else None) == major


def test_order(nowhere, monkeypatch, tmp_path):
    old, new = fake_java(tmp_path / "old", "11.0.1"), fake_java(tmp_path / "new", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", f"{new / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    found = java.find_java()
    assert found is not None
    assert (found.home, found.origin) == (new, "java on PATH")


def test_no_java_is_an_error_that_says_what_to_do(nowhere):
    assert java.find_java() is None
    assert java.main(["--quiet"]) == 1
    with pytest.raises(java.CatalogError, match="no Java 17") as caught:
        java.use_java()
    assert "spark-trickle[jre]" in (caught.value.hint or "")


def test_the_launcher_drops_the_missing_module(tmp_path):
    runtime = tmp_path / "runtime"
    (runtime / "bin").mkdir(parents=True)
    (runtime / "lib").mkdir()
    echo = runtime / "bin" / "java"
    echo.write_text('#!/bin/sh\nfor a do echo "[$a]"; done\n')
    echo.chmod(0o755)
    home = java._make_shim(tmp_path / "home", runtime)
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "--add-modules=other", ""]
    ran = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split("\n")[:-1] == ["[-Xmx1g]", "[a b]", "[--add-modules=other]", "[]"]
    assert (home / "lib").resolve() == runtime / "lib"


def test_the_module_runs_alone():
    ran = subprocess.run(
        [sys.executable, "-m", "spark_trickle.spark.sessions.java"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0
    assert "Spark will use Java" in ran.stdout
