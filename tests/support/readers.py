"""Work done by somebody who may read a folder and not write it, in a process of its own."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that everybody can get at; pytest's own are for their owner alone."""
    folder = Path(tempfile.mkdtemp(prefix="trickle-read-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        for root, _, _ in os.walk(folder):
            os.chmod(root, 0o755)
        shutil.rmtree(folder)


def forbid_writing(folder: Path) -> None:
    """Leave everybody but root the right to read; as root, the reader is another user."""
    for root, _, names in os.walk(folder):
        os.chmod(root, 0o555)
        for name in names:
            os.chmod(os.path.join(root, name), 0o444)


class Reader:
    """A process that reads; ``answer`` waits for it and gives what ``work`` returned, as text."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._read, write = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            gc.freeze()  # what the parent left to collect has threads that are not here
            thread = threading.Thread(target=self._run, args=(work, write))
            thread.start()
            thread.join()
            os._exit(0)
        os.close(write)

    @staticmethod
    def _run(work: Callable[[], object], write: int) -> None:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            text = str(work())
        except BaseException:
            text = traceback.format_exc()
        with os.fdopen(write, "w") as pipe:
            pipe.write(text)

    def answer(self) -> str:
        with os.fdopen(self._read) as pipe:
            text = pipe.read()
        os.waitpid(self._pid, 0)
        return text


def as_reader(work: Callable[[], object]) -> str:
    return Reader(work).answer()
