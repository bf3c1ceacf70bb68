"""Every scenario of the delta algebra as a stream table on real Spark.

After every step the contents equal the query at the frontier, and the refresh was DIFFERENTIAL (or
TOPK): a silent full recompute fails.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_trickle import Lake
from support.scenarios import FILES, parse
from support.streams import change, refreshed

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(lake: Lake, path: Path) -> None:
    scenario = parse(path.read_text())
    for source in scenario.sources.values():
        columns = ", ".join(f"`{c.name}` {c.type.sql('spark')}" for c in source.columns)
        lake.sql(f"CREATE TABLE `{source.name}` ({columns})")
    lake.create_stream_table("result_of_it", scenario.view, refresh_mode="DIFFERENTIAL")
    for step, _ in scenario.batches():
        change(lake, step.changes)
        nothing = not any(n for weights in step.changes.values() for n in weights.values())
        refreshed(lake, "result_of_it", *(["NO_DATA"] if nothing else ["DIFFERENTIAL", "TOPK"]))
