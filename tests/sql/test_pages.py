"""The tutorial and the cookbook do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark
DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["tutorial", "cookbook"])
def test_every_block_runs(
    page: str, spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 5
    names: dict[str, object] = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{page}.md, block {number}", "exec"), names)
