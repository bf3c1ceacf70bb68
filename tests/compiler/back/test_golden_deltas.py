"""Golden deltas and the SQL they become; ``REWRITE=1`` refreshes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_trickle.compile import DeltaPlan, compile_query
from spark_trickle.delta import describe
from support import golden
from support.golden import Case


def delta(case: Case) -> DeltaPlan:
    query = compile_query(case.sql, case.sources, dialect=case.settings.get("dialect", "spark"))
    changed = case.settings.get("changed", "").split(", ")
    return query.delta(changed, case.settings.get("inserts", "").split(", "))


def segments_and_delta(case: Case) -> str:
    query = compile_query(case.sql, case.sources)
    return f"{describe.describe_parts(query.parts)}\n{delta(case).explain()}"


@pytest.mark.parametrize("path", golden.files("delta"), ids=lambda path: path.stem)
def test_deltas(path: Path) -> None:
    golden.check_file(path, segments_and_delta)


@pytest.mark.parametrize("path", golden.files("lower"), ids=lambda path: path.stem)
def test_lowered_deltas(path: Path) -> None:
    golden.check_file(path, lambda case: delta(case).sql())
