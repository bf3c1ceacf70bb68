"""What must exist for every operator, whoever adds one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from sqlglot import exp

from spark_trickle.compile import STAGES
from spark_trickle.delta import differentiate, operators, support
from spark_trickle.ir.explain import explain
from spark_trickle.ir.nodes import (
    Aggregate,
    AntiJoin,
    Distinct,
    Expand,
    Filter,
    Generate,
    Join,
    Negate,
    Node,
    Order,
    OuterJoin,
    OuterKind,
    Project,
    Scan,
    SemiJoin,
    TopK,
    UnionAll,
    Values,
    Window,
)
from spark_trickle.ir.scalars import ref
from spark_trickle.ir.types import Column, Side
from spark_trickle.ir.walk import fresh_ids
from spark_trickle.lower.query import lower_delta

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "golden"
OPERATORS: tuple[type, ...] = get_args(Node)

INT = exp.DataType.build("INT")
A, B, C, D = (Column(number, name, INT) for number, name in enumerate("abcd", start=1))
LEFT, RIGHT = Scan("l", (A, B)), Scan("r", (C, D))
EQUAL = (exp.EQ(this=ref(A), expression=ref(C)),)
ONE = exp.Literal.number(1)

INSTANCES: dict[type, Node] = {
    Scan: LEFT,
    Values: Values((A,), ((ONE,),)),
    Project: Project(LEFT, ((A, ref(A)),)),
    Filter: Filter(LEFT, exp.GT(this=ref(A), expression=ONE)),
    Join: Join((LEFT, RIGHT), EQUAL),
    OuterJoin: OuterJoin(LEFT, RIGHT, OuterKind.LEFT, EQUAL, (A, B, C, D)),
    SemiJoin: SemiJoin(LEFT, RIGHT, EQUAL),
    AntiJoin: AntiJoin(LEFT, RIGHT, EQUAL),
    Aggregate: Aggregate(LEFT, (A,), ((C, exp.Max(this=ref(B))),)),
    Distinct: Distinct(LEFT),
    UnionAll: UnionAll((LEFT, RIGHT), (A, B)),
    Negate: Negate(LEFT),
    Window: Window(LEFT, (A,), ((C, exp.Window(this=exp.RowNumber(), partition_by=[ref(A)])),)),
    TopK: TopK(LEFT, (Order(A),), 1),
    Generate: Generate(LEFT, exp.Explode(this=exp.Array(expressions=[ref(A)])), (C,)),
    Expand: Expand(LEFT, (C,), ((ref(A),), (ref(B),))),
}


def _table(source: str, version: Side) -> exp.Table:
    return exp.to_table(f"{source}_{version.value}")


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda kind: kind.__name__)
def test_operator_has_a_rule_a_lowering_and_an_explain_form(operator: type) -> None:
    plan = INSTANCES[operator]
    assert explain(plan).startswith(operator.__name__)
    assert support.law_of(plan).name
    change = differentiate.differentiate(plan, frozenset({"l", "r"}), fresh_ids(plan))
    assert (change.delta is None) == (operator is Values)
    if change.delta is not None:
        assert lower_delta(change.delta, _table).sql("spark")


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda kind: kind.__name__)
def test_operator_stands_in_a_golden_file(operator: type) -> None:
    line = re.compile(rf"^\s*{operator.__name__}\b", re.MULTILINE)
    stages = ("delta", "normalize", "bind")
    texts = (path.read_text() for stage in stages for path in (GOLDEN / stage).glob("*.txt"))
    assert any(line.search(text) for text in texts)


def test_operators_page_is_up_to_date() -> None:
    assert set(operators.OPERATORS) == set(OPERATORS)
    assert (ROOT / "docs" / "operators.md").read_text() == operators.page(), "run: make docs"


def test_every_law_file_has_a_golden_file() -> None:
    laws = {"linear", "join", "preserving", "full_join", "additive", "extremum", "touched"}
    laws |= {"restrict", "segment"}
    assert laws <= {path.stem for path in (GOLDEN / "delta").glob("*.txt")}


def test_every_law_file_opens_with_its_law() -> None:
    folder = ROOT / "src" / "spark_trickle" / "delta" / "laws"
    for name in ("linear", "join", "preserving", "full_join", "additive", "extremum", "touched"):
        first = (folder / f"{name}.py").read_text().splitlines()[0]
        assert first.startswith('"""D('), name


def test_files_and_functions_stay_small() -> None:
    compiler = ("ir", "normalize", "delta", "lower")
    source = ROOT / "src" / "spark_trickle"
    files = [path for part in compiler for path in (source / part).rglob("*.py")]
    files.append(source / "compile.py")
    large = {path.name: len(path.read_text().splitlines()) for path in files}
    assert {name: lines for name, lines in large.items() if lines > 400} == {}


def test_every_stage_can_be_named() -> None:
    assert len(set(STAGES)) == len(STAGES) == 9


_FILE = re.compile(
    r"(?<![\w./:-])(?:[\w-]+/)*[\w-]+\.py\b|(?<![\w./:-])(?:[\w-]+/)+[\w-]+\.(?:md|toml|js|css|sql|png|svg)\b"
)


def test_files_that_the_docs_name_exist() -> None:
    """In text a path begins at the root, at the package, or at a folder of it."""
    files = [
        str(path.relative_to(ROOT))
        for folder in ("src", "tests", "bench", "docs", ".github")
        for path in (ROOT / folder).rglob("*")
    ]
    lost = []
    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        for name in set(_FILE.findall(page.read_text())):
            if not any(f"/{file}".endswith(f"/{name}") for file in files):
                lost.append(f"{page.relative_to(ROOT)}: {name}")
    assert not lost, "\n".join(sorted(lost))
