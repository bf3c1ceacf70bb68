"""Processes that see another disk than this one: a mount namespace of their own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def may_mount(folder: Path) -> bool:
    """Whether this user may mount a disk that only one process sees."""
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "none", str(folder)], capture_output=True
    )
    return tried.returncode == 0
