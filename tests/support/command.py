"""Runs ``trickle`` as users do: a process of its own, in a pipe or in a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path

import spark_trickle

TRICKLE = [sys.executable, "-m", "spark_trickle.cli.main"]


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str = ""


def environment(**more: str) -> dict[str, str]:
    """Without what the machine at hand may have set; output is UTF-8 as on any terminal."""
    unset = ("TRICKLE_LAKE", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "PYTEST_CURRENT_TEST")
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    source = str(Path(spark_trickle.__file__).parents[1])
    return {**kept, "PYTHONPATH": source, "PYTHONUTF8": "1", "TERM": "xterm-256color", **more}


def run(*words: str, cwd: Path, stdin: str = "", **more: str) -> Ran:
    """In a pipe."""
    ran = subprocess.run(
        [*TRICKLE, *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        input=stdin,
        env=environment(**more),
        timeout=300,
        check=False,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def in_terminal(*words: str, cwd: Path, columns: int) -> Ran:
    """In a terminal so many columns wide; what it shows, colours included."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        [*TRICKLE, *words], stdin=slave, stdout=slave, stderr=slave, cwd=cwd, env=environment()
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(master)
    return Ran(process.wait(timeout=60), shown.decode().replace("\r\n", "\n"))
