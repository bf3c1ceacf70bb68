from __future__ import annotations

import pytest
from sqlglot import exp

from spark_trickle.errors import InternalError
from spark_trickle.ir.check import check
from spark_trickle.ir.explain import explain
from spark_trickle.ir.nodes import Aggregate, Filter, Join, OuterJoin, OuterKind, Project, Scan
from spark_trickle.ir.scalars import ref
from spark_trickle.ir.types import Column, Side
from spark_trickle.ir.walk import at, fresh_copy, fresh_ids, max_id, nodes, scans

INT = exp.DataType.build("int")
A = Column(1, "a", INT, nullable=False)
B = Column(2, "b", INT)
C = Column(3, "c", INT, nullable=False)
N = Column(4, "n", exp.DataType.build("bigint"), nullable=False)


def plan() -> Aggregate:
    left = Filter(Scan("t", (A, B)), exp.GT(this=ref(B), expression=exp.Literal.number(1)))
    join = Join((left, Scan("u", (C,))), (exp.EQ(this=ref(A), expression=ref(C)),))
    return Aggregate(join, (A,), ((N, exp.Count(this=exp.Star())),))


def test_explain_shows_columns_with_ids() -> None:
    assert explain(plan()) == (
        "Aggregate keys=[a#1] [n#4 = COUNT(*)]\n"
        "  Join on a#1 = c#3\n"
        "    Filter b#2 > 1\n"
        "      Scan t [a#1, b#2]\n"
        "    Scan u [c#3]\n"
    )


def test_at_sets_every_scan() -> None:
    assert {scan.side for scan in scans(at(plan(), Side.BEFORE))} == {Side.BEFORE}


def test_fresh_copy_shares_no_id_and_stays_sound() -> None:
    original = plan()
    copy = check(fresh_copy(original, fresh_ids(original)))
    before = {c.id for node in nodes(original) for c in node.columns}
    after = {c.id for node in nodes(copy) for c in node.columns}
    assert not before & after
    assert [c.name for c in copy.columns] == ["a", "n"]
    assert max_id(copy) == 8
    check(Join((original, copy)))


def test_check_finds_a_column_that_nobody_offers() -> None:
    lost = Project(Scan("t", (A,)), ((A, ref(A)), (N, ref(B))))
    with pytest.raises(InternalError, match="column 2 is not offered"):
        check(lost)


def test_check_finds_an_id_made_twice() -> None:
    with pytest.raises(InternalError, match="comes from two inputs"):
        check(Join((Scan("t", (A,)), Scan("u", (A,)))))


def test_check_finds_a_padded_column_that_is_not_nullable() -> None:
    broken = OuterJoin(Scan("t", (A,)), Scan("u", (C,)), OuterKind.LEFT, (), (A, C))
    with pytest.raises(InternalError, match="is not nullable"):
        check(broken)
