"""The statements of ``dry/*.test``: none of them may start Spark."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from spark_trickle.statements.parse import Statement
from spark_trickle.statements.stream import StreamStatement
from support import sqlfiles

FILES = sorted((Path(__file__).parent / "dry").glob("*.test"))
EVERY = sorted(Path(__file__).parent.rglob("*.test"))


def test_every_statement_has_an_example_and_a_test():
    union = (*get_args(Statement), *get_args(StreamStatement))
    known = {kind.__name__ for kind in union}
    shown = {sqlfiles.kind_of(sql) for sql in sqlfiles.examples()}
    assert known - shown == set()
    every = [b for p in EVERY for b in sqlfiles.blocks(p) if "error" not in b.expects]
    tested = {sqlfiles.kind_of(b.sql) for b in every if not b.expects.startswith("duckdb")}
    assert shown - tested == set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_statements(dry_lake, path):
    sqlfiles.run(dry_lake, path)
