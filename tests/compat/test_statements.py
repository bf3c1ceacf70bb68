"""Statements of PostgreSQL's SQL in the lake and on a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_trickle import Lake, UserError
from support.pgivm import Twins
from support.postgres import server


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.long
def test_statements_answer_as_the_server_does(lake: Lake) -> None:
    import psycopg

    with server() as url, psycopg.connect(url, autocommit=True) as connection:
        Twins(lake, connection).run_file(Path(__file__).with_name("statements.sql"))


def test_transactions_in_a_text(dry_lake: Lake) -> None:
    def run(text: str) -> object:
        return dry_lake.sql(text, dialect="postgres")

    run("CREATE TABLE t (i int); BEGIN; INSERT INTO t VALUES (1); COMMIT")
    run("BEGIN; INSERT INTO t VALUES (2); ROLLBACK")
    run(
        "BEGIN; INSERT INTO t VALUES (3); SAVEPOINT s; INSERT INTO t VALUES (4); ROLLBACK TO s; END"
    )
    assert dry_lake._catalog.scan("t").rows == 2
    with pytest.raises(UserError, match="ends inside a transaction"):
        run("BEGIN; INSERT INTO t VALUES (5)")
    with pytest.raises(UserError, match="no column nothing"):
        run("BEGIN; INSERT INTO t VALUES (6); INSERT INTO t (nothing) VALUES (7); COMMIT")
    assert dry_lake._catalog.scan("t").rows == 2
    for wrong in (
        "SAVEPOINT s",
        "BEGIN; BEGIN",
        "BEGIN; ROLLBACK TO x",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    ):
        with pytest.raises(UserError):
            run(wrong)
    with pytest.raises(UserError, match="before any statement"):
        run("BEGIN; INSERT INTO t VALUES (8); SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
