"""Runs ``trickle`` as users do: a process of its own, in a pipe or in a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
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


class Terminal:
    """A command at a terminal, with somebody who types."""

    def __init__(self, *words: str, cwd: Path, **more: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
        self._process = subprocess.Popen(
            [*TRICKLE, *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=environment(PROMPT_TOOLKIT_NO_CPR="1", **more),
            start_new_session=True,
        )
        os.close(slave)
        self.shown = b""
        self._seen = 0

    def types(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def waits_for(self, words: str, seconds: float = 120) -> str:
        """What is shown next up to these words, colours and cursor left out."""
        end = time.monotonic() + seconds
        while words not in (seen := self._plain()):
            left = end - time.monotonic()
            ready, _, _ = select.select([self._master], [], [], max(0, left))
            assert ready, f"{words!r} did not come; shown was:\n{self.shown}"
            self.shown += os.read(self._master, 65536)
        until = seen.index(words) + len(words)
        self._seen += until
        return seen[:until]

    def _plain(self) -> str:
        """What was shown and not yet waited for."""
        text = _ESCAPES.sub("", self.shown.decode(errors="replace")).replace("\r", "")
        return text[self._seen :]

    def ends(self) -> int:
        """The exit code; what is still shown is not read."""
        try:
            while os.read(self._master, 65536):
                pass
        except OSError:  # the other end is closed
            pass
        os.close(self._master)
        return self._process.wait(timeout=60)


_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")
