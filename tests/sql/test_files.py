"""The statements of ``dry/*.test``: none of them may start Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import sqlfiles

FILES = sorted((Path(__file__).parent / "dry").glob("*.test"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_statements(dry_lake, path):
    sqlfiles.run(dry_lake, path)
