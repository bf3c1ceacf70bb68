"""Golden plans of the binder and of every pass; ``pytest --rewrite`` refreshes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_trickle.ir.check import check
from spark_trickle.ir.explain import explain
from spark_trickle.ir.nodes import Node
from spark_trickle.normalize.pipeline import PASSES, normalize
from spark_trickle.sql.bind.plan import bind
from support import golden
from support.golden import Case


def bound(case: Case) -> Node:
    result = bind(case.sql, case.sources, dialect=case.settings.get("dialect", "spark"))
    assert result.plan is not None, result.blockers
    return result.plan


def normalized(case: Case) -> str:
    plan = bound(case)
    name = case.settings["pass"]
    if name == "all":
        return explain(normalize(plan))
    (rule,) = {rule for rule in PASSES if rule.__name__ == name}
    return explain(check(rule(plan)))


@pytest.mark.parametrize("path", golden.files("bind"), ids=lambda path: path.stem)
def test_bound_plans(path: Path) -> None:
    golden.check_file(path, lambda case: explain(bound(case)))


@pytest.mark.parametrize("path", golden.files("normalize"), ids=lambda path: path.stem)
def test_normalized_plans(path: Path) -> None:
    golden.check_file(path, normalized)


def test_every_pass_has_a_golden_file() -> None:
    names = {path.stem for path in golden.files("normalize")}
    assert {rule.__name__ for rule in PASSES} <= names
