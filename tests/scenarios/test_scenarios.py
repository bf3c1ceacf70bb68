"""Every scenario file, step by step.

After every step the runner checks that before + delta is what DuckDB says the query means, for the
result and for every segment; that the delta is the one in the file; and that every part is
maintained the way the file says. ``REWRITE=1`` writes the deltas that DuckDB's own answers imply
into the files; read the diff.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from spark_trickle.compile import CompiledQuery, compile_query
from spark_trickle.delta.describe import title
from spark_trickle.delta.support import Incremental
from spark_trickle.ir.types import Side
from support.delta_law import Laboratory, report
from support.queries import Row
from support.scenarios import FILES, Scenario, parse, shown

REWRITE = bool(os.environ.get("REWRITE"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    scenario = parse(path.read_text())
    query = compile_query(scenario.view, scenario.sources)
    assert isinstance(query.verdict, Incremental), str(query.verdict)
    laboratory = Laboratory(scenario.sources)
    implied: list[Counter[Row]] = []
    for step, data in scenario.batches():
        laboratory.load(data)
        failure = laboratory.check(query, scenario.oracle, data)
        assert failure is None, report(scenario.view, data, failure, query)
        change = laboratory.oracle(scenario.oracle, Side.AFTER)
        change.subtract(laboratory.oracle(scenario.oracle, Side.BEFORE))
        implied.append(Counter({row: n for row, n in change.items() if n}))
        assert REWRITE or laboratory.result_delta == step.delta, step.line
    laboratory.close()
    assert REWRITE or _parts(query) == scenario.parts
    if REWRITE:
        _rewrite(path, scenario, _parts(query), implied)


def _parts(query: CompiledQuery) -> str:
    return "; ".join(title(part) for part in query.parts)


def _rewrite(path: Path, scenario: Scenario, parts: str, implied: list[Counter[Row]]) -> None:
    lines = [*scenario.header, f"parts {parts}"]
    for step, delta in zip(scenario.steps, implied, strict=True):
        lines.append(step.line)
        rows = sorted(delta.items(), key=lambda item: (item[1], str(item[0])))
        lines.append(f"  delta {' '.join(shown(row, n) for row, n in rows) or 'none'}")
    path.write_text("\n".join(lines) + "\n")


def test_every_trap_of_the_delta_algebra_has_a_scenario() -> None:
    named = {path.stem.split("_")[0] for path in FILES}
    assert {f"a{number:02}" for number in range(1, 21)} <= named
